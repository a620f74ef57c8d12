#include "model/forward.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/block_format.h"

namespace ashlar::model {
namespace {

// Up to this many rows, row-wise work is cheaper on the calling thread than a parallel region.
constexpr std::size_t kSerialRows = 2;

AttentionSpec AttentionSpecOf(const Model& model) {
  const ModelConfig& config = model.config();
  return {.scale = config.attention_scale,
          .softcap = config.attention_softcap,
          .sink_logits = model.weights().sink_logits(),
          .latent_dim = config.latent ? config.latent->rank : 0};
}

}  // namespace

ForwardPass::ForwardPass(const Model& model, const kv::KvLayout& layout,
                         const kernels::KernelSet& kernels, ThreadPool& pool,
                         std::size_t max_tokens, Activations activations)
    : model_(model),
      config_(model.config()),
      layout_(layout),
      kernels_(kernels),
      pool_(pool),
      max_tokens_(max_tokens),
      activations_(activations),
      sizes_(ForwardSizes::Of(config_, layout, max_tokens, pool.threads(), activations)),
      attention_(config_, layout, kernels, pool, max_tokens, AttentionSpecOf(model)),
      residual_(sizes_.hidden),
      normed_(sizes_.hidden),
      q_(sizes_.queries),
      k_(sizes_.keys),
      v_(sizes_.values),
      attended_(sizes_.attended),
      projected_(sizes_.hidden),
      gate_(sizes_.gate),
      up_(sizes_.up),
      cosine_(sizes_.angles),
      sine_(sizes_.angles),
      logits_(sizes_.logits),
      wide_q_(sizes_.wide_queries),
      low_q_(sizes_.low_queries),
      values_(sizes_.latent_values),
      router_(sizes_.router),
      expert_in_(sizes_.expert_hidden),
      expert_gate_(sizes_.expert_wide),
      expert_up_(sizes_.expert_wide),
      expert_out_(sizes_.expert_hidden),
      shared_out_(sizes_.shared_out),
      choices_(sizes_.expert_rows),
      expert_rows_(sizes_.expert_rows),
      gathered_(sizes_.gathered),
      matmul_scratch_(sizes_.all_scratch),
      codes_(sizes_.activation_blocks),
      panels_(kMappedPanels * model.weights().mapped_panel_bytes() * pool.threads()) {
  ASHLAR_CHECK(max_tokens > 0);
  chunks_.reserve(max_tokens);
  row_chunk_.reserve(max_tokens);
  std::size_t products = 3;
  if (config_.latent) products = std::max<std::size_t>(products, config_.heads);
  if (const auto& experts = config_.experts) {
    expert_begins_.resize(experts->count + 1);
    products = std::max<std::size_t>(products, 2 * experts->count);
  }
  products_.reserve(products);
  ordered_.reserve(products);
  inputs_.reserve(products);
  encodings_.reserve(products);
}

std::uint64_t ForwardPass::workspace_bytes() const {
  std::uint64_t bytes = attention_.workspace_bytes();
  for (const AlignedArray<float>* array : {&residual_,
                                           &normed_,
                                           &q_,
                                           &k_,
                                           &v_,
                                           &attended_,
                                           &projected_,
                                           &gate_,
                                           &up_,
                                           &cosine_,
                                           &sine_,
                                           &logits_,
                                           &wide_q_,
                                           &low_q_,
                                           &values_,
                                           &router_,
                                           &expert_in_,
                                           &expert_gate_,
                                           &expert_up_,
                                           &expert_out_,
                                           &shared_out_,
                                           &gathered_,
                                           &matmul_scratch_}) {
    bytes += array->bytes();
  }
  return bytes + codes_.bytes() + panels_.bytes();
}

void ForwardPass::Run(std::span<const Chunk> chunks, OnLogits on_logits) {
  GatherChunks(chunks);
  for (std::size_t layer = 0; layer < config_.layers; ++layer) RunLayer(layer);
  ReportLogits(chunks, on_logits);
}

// Lays the chunks' tokens out as rows; embeds them and computes their rotary angles.
void ForwardPass::GatherChunks(std::span<const Chunk> chunks) {
  chunks_.clear();
  row_chunk_.clear();
  for (const Chunk& chunk : chunks) {
    ASHLAR_CHECK(!chunk.tokens.empty() && row_chunk_.size() + chunk.tokens.size() <= max_tokens_,
                 "a step of {} tokens or more; it may have 1 to {}",
                 row_chunk_.size() + chunk.tokens.size(), max_tokens_);
    const std::uint64_t end = chunk.position + chunk.tokens.size();
    for (const GroupBlocks& group : chunk.groups) {
      ASHLAR_CHECK(group.blocks.size() >= layout_.BlocksNeeded(end), "{} blocks for {} tokens",
                   group.blocks.size(), end);
    }
    chunks_.push_back({.position = chunk.position,
                       .tokens = chunk.tokens.size(),
                       .first_row = row_chunk_.size(),
                       .groups = chunk.groups,
                       .parents = chunk.parents});
    row_chunk_.insert(row_chunk_.end(), chunk.tokens.size(),
                      static_cast<std::uint32_t>(chunks_.size() - 1));
  }
  rows_ = row_chunk_.size();
  attention_.Plan(chunks_);
  ForEachRow(rows_, [&](std::size_t row) {
    const std::uint32_t index = row_chunk_[row];
    const std::size_t token = row - chunks_[index].first_row;
    const TokenId id = chunks[index].tokens[token];
    ASHLAR_CHECK(id >= 0 && static_cast<std::uint32_t>(id) < config_.vocab, "token {}", id);
    EmbedRow(id, chunks_[index].position + TreeDepth(chunks_[index].parents, token), row);
  });
}

void ForwardPass::EmbedRow(TokenId token, std::uint64_t position, std::size_t row) {
  const std::size_t hidden = config_.hidden;
  float* const x = residual_.data() + row * hidden;
  model_.weights().Embed(token, x);
  if (config_.embedding_scale != 1.0f) kernels_.scale(x, config_.embedding_scale, hidden, x);
  if (config_.has_positions) {
    float* const learned = projected_.data() + row * hidden;
    model_.weights().PositionEmbedding(position, learned);
    kernels_.add(x, learned, hidden);
  }
  for (std::size_t r = 0; r < model_.ropes().size(); ++r) {
    const Rope& rope = model_.ropes()[r];
    const std::size_t at = (r * max_tokens_ + row) * rope.pairs();
    rope.Angles(position, cosine_.data() + at, sine_.data() + at);
  }
}

void ForwardPass::RunLayer(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  Norm(w.attention_norm);
  RunAttention(layer);
  if (config_.is_parallel) {
    // The feed-forward network reads what attention read, or the same by a norm of its own.
    if (w.feed_forward_norm.weight != nullptr) Norm(w.feed_forward_norm);
    AddToResidual(w.attention_post_norm, {});
  } else {
    AddToResidual(w.attention_post_norm, w.feed_forward_norm);
  }
  RunFeedForward(layer);
  AddToResidual(w.feed_forward_post_norm, {});
}

void ForwardPass::NormRow(const NormWeights& norm, const float* x, std::size_t n, float* y) const {
  if (config_.norm == NormKind::kRms) {
    kernels_.rms_norm(x, norm.weight, config_.norm_epsilon, n, y);
  } else {
    kernels_.layer_norm(x, norm.weight, norm.bias, config_.norm_epsilon, n, y);
  }
}

// residual_ to normed_.
void ForwardPass::Norm(const NormWeights& norm) {
  ForEachRow(rows_, [&](std::size_t row) {
    const std::size_t at = row * config_.hidden;
    NormRow(norm, residual_.data() + at, config_.hidden, normed_.data() + at);
  });
}

// Adds projected_, normed by `post` if there is one, and norms the sum by `next` into normed_ if
// there is one.
void ForwardPass::AddToResidual(const NormWeights& post, const NormWeights& next) {
  const std::size_t hidden = config_.hidden;
  ForEachRow(rows_, [&](std::size_t row) {
    const std::size_t at = row * hidden;
    float* const added = projected_.data() + at;
    if (post.weight != nullptr) NormRow(post, added, hidden, added);
    kernels_.add(residual_.data() + at, added, hidden);
    if (next.weight != nullptr) NormRow(next, residual_.data() + at, hidden, normed_.data() + at);
  });
}

void ForwardPass::ReportLogits(std::span<const Chunk> chunks, OnLogits on_logits) {
  std::array<std::pair<std::uint32_t, std::uint32_t>, kLogitRows> waiting;  // (chunk, token)
  std::size_t count = 0;
  const auto flush = [&] {
    const Linear& head = model_.weights().lm_head();
    Multiply(std::array<Product, 1>{
        {{&head, normed_.data(), config_.hidden, logits_.data(), config_.vocab, count}}});
    for (std::size_t i = 0; i < count; ++i) {
      float* const row = logits_.data() + i * config_.vocab;
      if (config_.logit_softcap > 0) kernels_.softcap(row, config_.logit_softcap, config_.vocab);
      on_logits(waiting[i].first, waiting[i].second, {row, config_.vocab});
    }
    count = 0;
  };
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].logits == LogitRows::kNone) continue;
    const auto tokens = static_cast<std::uint32_t>(chunks[c].tokens.size());
    for (std::uint32_t t = chunks[c].logits == LogitRows::kAll ? 0 : tokens - 1; t < tokens; ++t) {
      // Rows are gathered: normed_ is free once the last layer is done.
      NormRow(model_.weights().final_norm(),
              residual_.data() + (chunks_[c].first_row + t) * config_.hidden, config_.hidden,
              normed_.data() + count * config_.hidden);
      waiting[count++] = {c, t};
      if (count == sizes_.logit_rows) flush();
    }
  }
  if (count > 0) flush();
}

void ForwardPass::ForEachRow(std::size_t rows, FunctionRef<void(std::size_t row)> body) {
  if (rows <= kSerialRows) {
    for (std::size_t row = 0; row < rows; ++row) body(row);
    return;
  }
  pool_.ParallelFor(rows, [&](std::size_t row, std::size_t) { body(row); });
}

}  // namespace ashlar::model
