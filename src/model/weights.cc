#include "model/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "kernels/dequantize.h"

namespace ashlar::model {

// Finds and checks every tensor first, so that sizes are known and errors come before the long
// copy.
class Weights::Loader {
 public:
  Loader(const gguf::ModelFile& file, const ModelConfig& config) : file_(file), config_(config) {}

  Result<Weights> Load(ThreadPool& pool, const LoadProgress& progress);

 private:
  // A matrix to pack and where the view of it goes.
  struct PendingMatrix {
    const gguf::Tensor* tensor;
    kernels::PackedMatrix* view;
    std::size_t offset;  // in the packed buffer
  };
  // A vector to convert to f32 and where the pointer to it goes.
  struct PendingVector {
    const gguf::Tensor* tensor;
    const float** view;
    std::size_t offset;  // in vectors_
  };

  Status Matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns,
                kernels::PackedMatrix& view);
  Status Vector(const std::string& name, std::uint64_t size, const float*& view);
  Status OptionalVector(const std::string& name, std::uint64_t size, const float*& view);
  Status Layer(std::size_t index, LayerWeights& layer);
  Status Globals();
  Status CheckAllUsed() const;
  void PackMatrices(ThreadPool& pool, const LoadProgress& progress);
  void ConvertVectors();

  const gguf::ModelFile& file_;
  const ModelConfig& config_;
  Weights weights_;
  std::set<std::string_view> used_;
  std::vector<PendingMatrix> matrices_;
  std::vector<PendingVector> vectors_;
  std::size_t packed_bytes_ = 0;
  std::size_t vector_floats_ = 0;
  const float* divisors_ = nullptr;
};

Result<Weights> Weights::Load(const gguf::ModelFile& file, const ModelConfig& config,
                              ThreadPool& pool, const LoadProgress& progress) {
  return Loader(file, config).Load(pool, progress);
}

Result<Weights> Weights::Loader::Load(ThreadPool& pool, const LoadProgress& progress) {
  weights_.layers_.resize(config_.layers);
  ASHLAR_TRY(Globals());
  for (std::size_t i = 0; i < config_.layers; ++i) ASHLAR_TRY(Layer(i, weights_.layers_[i]));
  ASHLAR_TRY(CheckAllUsed());
  PackMatrices(pool, progress);
  ConvertVectors();
  return std::move(weights_);
}

Status Weights::Loader::Globals() {
  const std::uint64_t table_dims[] = {config_.hidden, config_.vocab};
  ASHLAR_ASSIGN(weights_.embedding_, file_.RequireTensor("token_embd.weight", table_dims));
  used_.insert("token_embd.weight");
  weights_.embedding_row_bytes_ = *RowBytes(weights_.embedding_->dtype, config_.hidden);
  ASHLAR_TRY(Vector("output_norm.weight", config_.hidden, weights_.final_norm_));
  // Tied embeddings: without an output matrix the embedding table is the output matrix.
  const bool is_tied = file_.FindTensor("output.weight") == nullptr;
  ASHLAR_TRY(Matrix(is_tied ? "token_embd.weight" : "output.weight", config_.vocab, config_.hidden,
                    weights_.lm_head_.w));
  ASHLAR_TRY(OptionalVector("output.bias", config_.vocab, weights_.lm_head_.bias));
  return OptionalVector("rope_freqs.weight", config_.rope_dims / 2, divisors_);
}

Status Weights::Loader::Layer(std::size_t index, LayerWeights& layer) {
  const std::uint64_t hidden = config_.hidden;
  const std::uint64_t query = std::uint64_t{config_.heads} * config_.head_dim;
  const std::uint64_t key_value = std::uint64_t{config_.kv_heads} * config_.head_dim;
  const std::uint64_t wide = config_.feed_forward;
  const std::string prefix = fmt::format("blk.{}.", index);
  struct Row {
    const char* name;
    std::uint64_t rows, columns;
    Linear* linear;
  };
  const std::array<Row, 7> rows = {{{"attn_q", query, hidden, &layer.q},
                                    {"attn_k", key_value, hidden, &layer.k},
                                    {"attn_v", key_value, hidden, &layer.v},
                                    {"attn_output", hidden, query, &layer.output},
                                    {"ffn_gate", wide, hidden, &layer.gate},
                                    {"ffn_up", wide, hidden, &layer.up},
                                    {"ffn_down", hidden, wide, &layer.down}}};
  ASHLAR_TRY(Vector(prefix + "attn_norm.weight", hidden, layer.attention_norm));
  ASHLAR_TRY(Vector(prefix + "ffn_norm.weight", hidden, layer.feed_forward_norm));
  for (const Row& row : rows) {
    ASHLAR_TRY(Matrix(prefix + row.name + ".weight", row.rows, row.columns, row.linear->w));
    ASHLAR_TRY(OptionalVector(prefix + row.name + ".bias", row.rows, row.linear->bias));
  }
  return {};
}

Status Weights::Loader::Matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns,
                               kernels::PackedMatrix& view) {
  const std::uint64_t dims[] = {columns, rows};
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, file_.RequireTensor(name, dims));
  used_.insert(tensor->name);
  view.dtype = tensor->dtype;
  view.n = rows;
  view.k = columns;
  matrices_.push_back({tensor, &view, packed_bytes_});
  packed_bytes_ += kernels::PackedBytes(tensor->dtype, rows, columns);
  return {};
}

Status Weights::Loader::Vector(const std::string& name, std::uint64_t size, const float*& view) {
  const std::uint64_t dims[] = {size};
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, file_.RequireTensor(name, dims));
  used_.insert(tensor->name);
  vectors_.push_back({tensor, &view, vector_floats_});
  vector_floats_ += size;
  return {};
}

Status Weights::Loader::OptionalVector(const std::string& name, std::uint64_t size,
                                       const float*& view) {
  if (file_.FindTensor(name) == nullptr) return {};
  return Vector(name, size, view);
}

Status Weights::Loader::CheckAllUsed() const {
  for (const gguf::Tensor& tensor : file_.tensors()) {
    // Rotary frequencies that early converters stored although every reader computes them.
    if (tensor.name.ends_with(".attn_rot_embd") || tensor.name.ends_with(".rot_embd")) continue;
    if (!used_.contains(tensor.name)) {
      return MakeError(
          ErrorCode::kUnsupported,
          "tensor '{}' is not part of the architecture '{}' as this build knows it; running "
          "without it would give wrong answers",
          tensor.name, config_.architecture);
    }
  }
  return {};
}

void Weights::Loader::PackMatrices(ThreadPool& pool, const LoadProgress& progress) {
  weights_.packed_ = AlignedArray<std::byte>(packed_bytes_);
  constexpr std::size_t kPanelsPerItem = 16;
  std::size_t done = 0;
  for (const PendingMatrix& pending : matrices_) {
    std::byte* const packed = weights_.packed_.data() + pending.offset;
    kernels::PackedMatrix& view = *pending.view;
    view.data = packed;
    const std::size_t panels = view.panels();
    pool.ParallelFor(
        (panels + kPanelsPerItem - 1) / kPanelsPerItem, [&](std::size_t item, std::size_t) {
          kernels::PackPanels({.dtype = view.dtype,
                               .n = view.n,
                               .k = view.k,
                               .rows = pending.tensor->data.data(),
                               .packed = packed,
                               .panel_begin = item * kPanelsPerItem,
                               .panel_end = std::min(panels, (item + 1) * kPanelsPerItem)});
        });
    file_.DropPages(*pending.tensor);
    done += kernels::PackedBytes(view.dtype, view.n, view.k);
    if (progress) progress(done, packed_bytes_);
  }
}

void Weights::Loader::ConvertVectors() {
  weights_.vectors_.resize(vector_floats_);
  for (const PendingVector& pending : vectors_) {
    float* const out = weights_.vectors_.data() + pending.offset;
    kernels::DequantizeRow(pending.tensor->dtype, pending.tensor->data.data(),
                           pending.tensor->dims[0], out);
    *pending.view = out;
  }
  if (divisors_ != nullptr) weights_.rope_divisors_ = {divisors_, config_.rope_dims / 2};
}

void Weights::Embed(TokenId token, float* out) const {
  const std::byte* const row =
      embedding_->data.data() + static_cast<std::size_t>(token) * embedding_row_bytes_;
  kernels::DequantizeRow(embedding_->dtype, row, embedding_->dims[0], out);
}

}  // namespace ashlar::model
