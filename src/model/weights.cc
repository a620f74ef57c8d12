#include "model/weights.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/dequantize.h"
#include "kernels/packed_matrix.h"
#include "model/tensor_packer.h"

namespace ashlar::model {

// Which tensors a model of this description has, and where each one goes.
class WeightsLoader {
 public:
  WeightsLoader(const gguf::ModelFile& file, const ModelConfig& config, WeightAccess access)
      : packer_(file, access), config_(config) {}

  Result<Weights> Load(ThreadPool& pool, const LoadProgress& progress);
  Result<std::uint64_t> Bytes();

 private:
  // Rows of a layer's matrices that a file may have in one tensor: in this order, one after
  // another.
  struct Part {
    std::string_view name;  // of its own tensor, where it has one
    std::uint64_t rows;
    Linear* linear;
  };

  Status Find();
  std::uint64_t TableBytes() const;
  Status Globals();
  Status Divisors();
  Status Layer(std::size_t index, LayerWeights& layer);
  Status Attention(const std::string& prefix, LayerWeights& layer);
  Status Latent(const std::string& prefix, LayerWeights& layer);
  Status LatentHeads(const std::string& prefix, LatentWeights& weights);
  Status FeedForward(const std::string& prefix, LayerWeights& layer);
  Status Experts(const std::string& prefix, ExpertsWeights& weights);
  Status ExpertMatrices(const std::string& prefix, std::uint64_t rows, std::uint64_t columns,
                        std::vector<FeedForwardWeights>& experts,
                        Linear FeedForwardWeights::* member);
  Status SharedExpert(const std::string& prefix, ExpertsWeights& weights);

  // A matrix with its bias, if there is one.
  Status Matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns, Linear& linear);
  // All parts from the tensor `fused` if the file has it, else each from its own.
  Status Parts(const std::string& prefix, std::string_view fused, std::uint64_t columns,
               std::initializer_list<Part> parts);
  Status Vector(const std::string& name, std::uint64_t size, const float*& view);
  Status OptionalVector(const std::string& name, std::uint64_t size, const float*& view);
  Status Norm(const std::string& name, std::uint64_t size, NormWeights& norm);

  TensorPacker packer_;
  const ModelConfig& config_;
  Weights weights_;
  const float* divisors_ = nullptr;
  const float* long_divisors_ = nullptr;
  std::vector<const float*> sinks_;  // [layers]
};

Result<Weights> Weights::Load(const gguf::ModelFile& file, const ModelConfig& config,
                              ThreadPool& pool, const LoadProgress& progress, WeightAccess access) {
  return WeightsLoader(file, config, access).Load(pool, progress);
}

Result<std::uint64_t> Weights::BytesOf(const gguf::ModelFile& file, const ModelConfig& config) {
  return WeightsLoader(file, config, WeightAccess::kCopy).Bytes();
}

Status WeightsLoader::Find() {
  weights_.layers_.resize(config_.layers);
  ASHLAR_TRY(Globals());
  for (std::size_t i = 0; i < config_.layers; ++i) ASHLAR_TRY(Layer(i, weights_.layers_[i]));
  return packer_.CheckAllTaken(config_.architecture);
}

Result<std::uint64_t> WeightsLoader::Bytes() {
  ASHLAR_TRY(Find());
  return packer_.bytes() + TableBytes();
}

// Of what is read by the row from the file.
std::uint64_t WeightsLoader::TableBytes() const {
  std::uint64_t bytes = 0;
  for (const gguf::Tensor* const table : {weights_.embedding_, weights_.positions_}) {
    if (table != nullptr) bytes += table->data.size();
  }
  return bytes;
}

Result<Weights> WeightsLoader::Load(ThreadPool& pool, const LoadProgress& progress) {
  ASHLAR_TRY(Find());
  packer_.Pack(pool, progress, weights_.packed_, weights_.vectors_);
  weights_.mapped_bytes_ = packer_.mapped_bytes() + TableBytes();
  weights_.mapped_panel_bytes_ = packer_.mapped_panel_bytes();
  const std::size_t pairs = config_.rope_dims / 2;
  if (divisors_ != nullptr) weights_.rope_divisors_ = {divisors_, pairs};
  if (long_divisors_ != nullptr) weights_.long_rope_divisors_ = {long_divisors_, pairs};
  if (!sinks_.empty()) weights_.sink_logits_ = {sinks_[0], sinks_.size() * config_.heads};
  return std::move(weights_);
}

Status WeightsLoader::Globals() {
  const std::uint64_t hidden = config_.hidden;
  ASHLAR_ASSIGN(const gguf::Tensor* const embedding,
                packer_.Take("token_embd.weight", {hidden, config_.vocab}));
  if (config_.has_positions) {
    ASHLAR_ASSIGN(weights_.positions_,
                  packer_.Take("position_embd.weight", {hidden, config_.context}));
  }
  ASHLAR_TRY(Norm("output_norm", hidden, weights_.final_norm_));
  // Tied embeddings: without an output matrix the embedding table is the output matrix.
  if (packer_.Has("output.weight")) {
    weights_.embedding_ = embedding;
    ASHLAR_TRY(Matrix("output", config_.vocab, hidden, weights_.lm_head_));
  } else {
    packer_.AddMatrix(*embedding, 0, config_.vocab, weights_.lm_head_);
    ASHLAR_TRY(OptionalVector("output.bias", config_.vocab, weights_.lm_head_.bias));
  }
  ASHLAR_TRY(Divisors());
  if (!config_.has_sink_logits) return {};
  sinks_.resize(config_.layers);
  for (std::size_t i = 0; i < config_.layers; ++i) {
    ASHLAR_TRY(Vector(fmt::format("blk.{}.attn_sinks.weight", i), config_.heads, sinks_[i]));
  }
  return {};
}

Status WeightsLoader::Divisors() {
  const std::uint64_t pairs = config_.rope_dims / 2;
  if (!packer_.Has("rope_factors_long.weight")) {
    return OptionalVector("rope_freqs.weight", pairs, divisors_);
  }
  ASHLAR_TRY(Vector("rope_factors_long.weight", pairs, long_divisors_));
  return Vector("rope_factors_short.weight", pairs, divisors_);
}

Status WeightsLoader::Layer(std::size_t index, LayerWeights& layer) {
  const std::string prefix = fmt::format("blk.{}.", index);
  const std::uint64_t hidden = config_.hidden;
  // Falcon 40B: the first norm is the feed-forward's, attention has the second.
  if (packer_.Has(prefix + "attn_norm_2.weight")) {
    ASHLAR_TRY(Norm(prefix + "attn_norm_2", hidden, layer.attention_norm));
    ASHLAR_TRY(Norm(prefix + "attn_norm", hidden, layer.feed_forward_norm));
  } else {
    ASHLAR_TRY(Norm(prefix + "attn_norm", hidden, layer.attention_norm));
  }
  ASHLAR_TRY(config_.latent ? Latent(prefix, layer) : Attention(prefix, layer));
  if (config_.has_post_norms) {
    ASHLAR_TRY(Norm(prefix + "post_attention_norm", hidden, layer.attention_post_norm));
    ASHLAR_TRY(Norm(prefix + "post_ffw_norm", hidden, layer.feed_forward_post_norm));
  }
  if (!config_.is_parallel) {
    // gpt-oss: the norm after attention is the one before the feed-forward network.
    const bool has_own = packer_.Has(prefix + "ffn_norm.weight") || config_.has_post_norms;
    ASHLAR_TRY(Norm(prefix + (has_own ? "ffn_norm" : "post_attention_norm"), hidden,
                    layer.feed_forward_norm));
  }
  return config_.LayerAt(index).has_experts ? Experts(prefix, layer.experts)
                                            : FeedForward(prefix, layer);
}

Status WeightsLoader::Attention(const std::string& prefix, LayerWeights& layer) {
  const std::uint64_t query = std::uint64_t{config_.heads} * config_.head_dim;
  const std::uint64_t key_value = std::uint64_t{config_.kv_heads} * config_.head_dim;
  ASHLAR_TRY(Parts(prefix, "attn_qkv", config_.hidden,
                   {{"attn_q", query, &layer.q},
                    {"attn_k", key_value, &layer.k},
                    {"attn_v", key_value, &layer.v}}));
  if (config_.has_qk_norm) {
    ASHLAR_TRY(Norm(prefix + "attn_q_norm", config_.head_dim, layer.q_norm));
    ASHLAR_TRY(Norm(prefix + "attn_k_norm", config_.head_dim, layer.k_norm));
  }
  return Matrix(prefix + "attn_output", config_.hidden, query, layer.output);
}

Status WeightsLoader::Latent(const std::string& prefix, LayerWeights& layer) {
  const LatentConfig& latent = *config_.latent;
  const std::uint64_t query = std::uint64_t{config_.heads} * (latent.plain_dim + config_.rope_dims);
  if (latent.query_rank > 0) {
    ASHLAR_TRY(
        Matrix(prefix + "attn_q_a", latent.query_rank, config_.hidden, layer.latent.query_a));
    ASHLAR_TRY(Norm(prefix + "attn_q_a_norm", latent.query_rank, layer.latent.query_norm));
    ASHLAR_TRY(Matrix(prefix + "attn_q_b", query, latent.query_rank, layer.q));
  } else {
    ASHLAR_TRY(Matrix(prefix + "attn_q", query, config_.hidden, layer.q));
  }
  ASHLAR_TRY(
      Matrix(prefix + "attn_kv_a_mqa", config_.head_dim, config_.hidden, layer.latent.key_value_a));
  ASHLAR_TRY(Norm(prefix + "attn_kv_a_norm", latent.rank, layer.latent.latent_norm));
  ASHLAR_TRY(LatentHeads(prefix, layer.latent));
  return Matrix(prefix + "attn_output", config_.hidden,
                std::uint64_t{config_.heads} * latent.value_dim, layer.output);
}

Status WeightsLoader::LatentHeads(const std::string& prefix, LatentWeights& weights) {
  const LatentConfig& latent = *config_.latent;
  const std::uint64_t heads = config_.heads;
  weights.key_b.resize(heads);
  weights.value_b.resize(heads);
  // Older files have both in one tensor, keys as [plain_dim, rank]: the other way round.
  const std::string both = prefix + "attn_kv_b.weight";
  if (packer_.Has(both)) {
    const std::uint64_t rows = std::uint64_t{latent.plain_dim} + latent.value_dim;
    ASHLAR_ASSIGN(const gguf::Tensor* const tensor,
                  packer_.Take(both, {latent.rank, heads * rows}));
    for (std::uint64_t h = 0; h < heads; ++h) {
      packer_.AddTransposed(*tensor, h * rows, latent.plain_dim, weights.key_b[h]);
      packer_.AddMatrix(*tensor, h * rows + latent.plain_dim, latent.value_dim, weights.value_b[h]);
    }
    return {};
  }
  ASHLAR_ASSIGN(const gguf::Tensor* const keys,
                packer_.Take(prefix + "attn_k_b.weight", {latent.plain_dim, latent.rank, heads}));
  ASHLAR_ASSIGN(const gguf::Tensor* const values,
                packer_.Take(prefix + "attn_v_b.weight", {latent.rank, latent.value_dim, heads}));
  for (std::uint64_t h = 0; h < heads; ++h) {
    packer_.AddMatrix(*keys, h * latent.rank, latent.rank, weights.key_b[h]);
  }
  for (std::uint64_t h = 0; h < heads; ++h) {
    packer_.AddMatrix(*values, h * latent.value_dim, latent.value_dim, weights.value_b[h]);
  }
  return {};
}

Status WeightsLoader::FeedForward(const std::string& prefix, LayerWeights& layer) {
  const std::uint64_t hidden = config_.hidden;
  const std::uint64_t wide = config_.feed_forward;
  FeedForwardWeights& weights = layer.feed_forward;
  if (!config_.is_gated) {
    ASHLAR_TRY(Matrix(prefix + "ffn_up", wide, hidden, weights.up));
  } else if (packer_.Has(prefix + "ffn_gate.weight")) {
    ASHLAR_TRY(Matrix(prefix + "ffn_gate", wide, hidden, weights.gate));
    ASHLAR_TRY(Matrix(prefix + "ffn_up", wide, hidden, weights.up));
  } else {  // Phi-3: both in one
    ASHLAR_TRY(Parts(prefix, "ffn_up", hidden,
                     {{"ffn_gate", wide, &weights.gate}, {"ffn_up", wide, &weights.up}}));
  }
  return Matrix(prefix + "ffn_down", hidden, wide, weights.down);
}

Status WeightsLoader::Experts(const std::string& prefix, ExpertsWeights& weights) {
  const ExpertsConfig& experts = *config_.experts;
  const std::uint64_t hidden = config_.hidden;
  ASHLAR_TRY(Matrix(prefix + "ffn_gate_inp", experts.count, hidden, weights.router));
  ASHLAR_TRY(OptionalVector(prefix + "exp_probs_b.bias", experts.count, weights.selection_bias));
  weights.experts.resize(experts.count);
  ASHLAR_TRY(ExpertMatrices(prefix + "ffn_gate", experts.feed_forward, hidden, weights.experts,
                            &FeedForwardWeights::gate));
  ASHLAR_TRY(ExpertMatrices(prefix + "ffn_up", experts.feed_forward, hidden, weights.experts,
                            &FeedForwardWeights::up));
  ASHLAR_TRY(ExpertMatrices(prefix + "ffn_down", hidden, experts.feed_forward, weights.experts,
                            &FeedForwardWeights::down));
  return experts.shared > 0 ? SharedExpert(prefix, weights) : Status{};
}

// "<name>_exps": one tensor of [experts, rows, columns], and perhaps biases [experts, rows]. Or
// "<name>.E" for each expert E.
Status WeightsLoader::ExpertMatrices(const std::string& prefix, std::uint64_t rows,
                                     std::uint64_t columns,
                                     std::vector<FeedForwardWeights>& experts,
                                     Linear FeedForwardWeights::* member) {
  const std::string name = prefix + "_exps";
  if (packer_.Has(prefix + ".0.weight")) {
    for (std::size_t e = 0; e < experts.size(); ++e) {
      ASHLAR_TRY(Matrix(fmt::format("{}.{}", prefix, e), rows, columns, experts[e].*member));
    }
    return {};
  }
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor,
                packer_.Take(name + ".weight", {columns, rows, experts.size()}));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    packer_.AddMatrix(*tensor, e * rows, rows, experts[e].*member);
  }
  if (!packer_.Has(name + ".bias")) return {};
  ASHLAR_ASSIGN(const gguf::Tensor* const bias,
                packer_.Take(name + ".bias", {rows, experts.size()}));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    packer_.AddVector(*bias, e * rows, rows, (experts[e].*member).bias);
  }
  return {};
}

Status WeightsLoader::SharedExpert(const std::string& prefix, ExpertsWeights& weights) {
  const std::uint64_t hidden = config_.hidden;
  const std::uint64_t wide = config_.experts->shared;
  ASHLAR_TRY(Matrix(prefix + "ffn_gate_shexp", wide, hidden, weights.shared.gate));
  ASHLAR_TRY(Matrix(prefix + "ffn_up_shexp", wide, hidden, weights.shared.up));
  ASHLAR_TRY(Matrix(prefix + "ffn_down_shexp", hidden, wide, weights.shared.down));
  if (!config_.experts->has_shared_gate) return {};
  ASHLAR_ASSIGN(const gguf::Tensor* const gate,
                packer_.Take(prefix + "ffn_gate_inp_shexp.weight", {hidden}));
  packer_.AddMatrix(*gate, 0, 1, weights.shared_gate);
  return {};
}

Status WeightsLoader::Matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns,
                             Linear& linear) {
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, packer_.Take(name + ".weight", {columns, rows}));
  packer_.AddMatrix(*tensor, 0, rows, linear);
  return OptionalVector(name + ".bias", rows, linear.bias);
}

Status WeightsLoader::Parts(const std::string& prefix, std::string_view fused,
                            std::uint64_t columns, std::initializer_list<Part> parts) {
  const std::string name = prefix + std::string(fused);
  if (!packer_.Has(name + ".weight")) {
    for (const Part& part : parts) {
      ASHLAR_TRY(Matrix(prefix + std::string(part.name), part.rows, columns, *part.linear));
    }
    return {};
  }
  std::uint64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, packer_.Take(name + ".weight", {columns, rows}));
  const gguf::Tensor* bias = nullptr;
  if (packer_.Has(name + ".bias")) {
    ASHLAR_ASSIGN(bias, packer_.Take(name + ".bias", {rows}));
  }
  std::uint64_t first = 0;
  for (const Part& part : parts) {
    packer_.AddMatrix(*tensor, first, part.rows, *part.linear);
    if (bias != nullptr) packer_.AddVector(*bias, first, part.rows, part.linear->bias);
    first += part.rows;
  }
  return {};
}

Status WeightsLoader::Vector(const std::string& name, std::uint64_t size, const float*& view) {
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, packer_.Take(name, {size}));
  packer_.AddVector(*tensor, 0, size, view);
  return {};
}

Status WeightsLoader::OptionalVector(const std::string& name, std::uint64_t size,
                                     const float*& view) {
  return packer_.Has(name) ? Vector(name, size, view) : Status{};
}

Status WeightsLoader::Norm(const std::string& name, std::uint64_t size, NormWeights& norm) {
  ASHLAR_TRY(Vector(name + ".weight", size, norm.weight));
  return config_.norm == NormKind::kLayer ? Vector(name + ".bias", size, norm.bias) : Status{};
}

namespace {

void TableRow(const gguf::Tensor& table, std::uint64_t row, float* out) {
  ASHLAR_CHECK(table.maker == nullptr, "{} is not stored row by row", table.name);
  const std::uint64_t columns = table.dims[0];
  const std::size_t row_bytes = *RowBytes(table.dtype, columns);
  kernels::DequantizeRow(table.dtype, table.data.data() + row * row_bytes, columns, out);
}

}  // namespace

void Weights::Embed(TokenId token, float* out) const {
  const auto row = static_cast<std::uint64_t>(token);
  const kernels::PackedMatrix& head = lm_head_.w;
  if (embedding_ != nullptr) {
    TableRow(*embedding_, row, out);
  } else if (head.data != nullptr) {
    kernels::UnpackRow(head, row, out);
  } else {
    kernels::DequantizeRow(head.dtype, head.rows + row * *RowBytes(head.dtype, head.k), head.k,
                           out);
  }
}

void Weights::PositionEmbedding(std::uint64_t position, float* out) const {
  ASHLAR_CHECK(position < positions_->dims[1], "position {} of {}", position, positions_->dims[1]);
  TableRow(*positions_, position, out);
}

}  // namespace ashlar::model
