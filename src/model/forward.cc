#include "model/forward.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ashlar::model {
namespace {

// Rows of logits computed together: enough to reuse the weights, small against the workspace.
constexpr std::size_t kLogitRows = 32;
// Up to this many rows, row-wise work is cheaper on the calling thread than a parallel region.
constexpr std::size_t kSerialRows = 2;

}  // namespace

ForwardPass::ForwardPass(const Model& model, const kv::KvLayout& layout,
                         const kernels::KernelSet& kernels, ThreadPool& pool,
                         std::size_t max_tokens)
    : model_(model),
      config_(model.config()),
      layout_(layout),
      kernels_(kernels),
      pool_(pool),
      max_tokens_(max_tokens),
      logit_rows_(std::min(max_tokens, kLogitRows)),
      attention_(config_, layout, kernels, pool, max_tokens),
      residual_(max_tokens * config_.hidden),
      normed_(max_tokens * config_.hidden),
      q_(max_tokens * config_.heads * config_.head_dim),
      k_(max_tokens * config_.kv_heads * config_.head_dim),
      v_(max_tokens * config_.kv_heads * config_.head_dim),
      attended_(max_tokens * config_.heads * config_.head_dim),
      projected_(max_tokens * config_.hidden),
      gate_(max_tokens * config_.feed_forward),
      up_(max_tokens * config_.feed_forward),
      cosine_(max_tokens * model.rope().pairs()),
      sine_(max_tokens * model.rope().pairs()),
      logits_(logit_rows_ * config_.vocab) {
  ASHLAR_CHECK(max_tokens > 0);
  chunks_.reserve(max_tokens);
  row_chunk_.reserve(max_tokens);
  const std::size_t widest =
      std::max({config_.hidden, config_.feed_forward, config_.heads * config_.head_dim});
  // Rounded so that every worker's part starts on a 64-byte border.
  matmul_scratch_floats_ = (kernels::MatmulScratchFloats(widest) + 15) / 16 * 16;
  matmul_scratch_ = AlignedArray<float>(matmul_scratch_floats_ * pool.threads());
}

std::uint64_t ForwardPass::workspace_bytes() const {
  std::uint64_t bytes = attention_.workspace_bytes();
  for (const AlignedArray<float>* array :
       {&residual_, &normed_, &q_, &k_, &v_, &attended_, &projected_, &gate_, &up_, &cosine_,
        &sine_, &logits_, &matmul_scratch_}) {
    bytes += array->bytes();
  }
  return bytes;
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
  const std::size_t pairs = model_.rope().pairs();
  ForEachRow(rows_, [&](std::size_t row) {
    const std::uint32_t index = row_chunk_[row];
    const std::size_t token = row - chunks_[index].first_row;
    const TokenId id = chunks[index].tokens[token];
    ASHLAR_CHECK(id >= 0 && static_cast<std::uint32_t>(id) < config_.vocab, "token {}", id);
    model_.weights().Embed(id, residual_.data() + row * config_.hidden);
    const std::uint64_t position =
        chunks_[index].position + TreeDepth(chunks_[index].parents, token);
    model_.rope().Angles(position, cosine_.data() + row * pairs, sine_.data() + row * pairs);
  });
}

void ForwardPass::RunLayer(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  Norm(w.attention_norm, residual_.data(), rows_, normed_.data());
  Multiply(normed_.data(), rows_,
           std::array<Product, 3>{{{&w.q, q_.data()}, {&w.k, k_.data()}, {&w.v, v_.data()}}});
  Rotate();
  attention_.Store(layer, q_.data(), k_.data(), v_.data());
  attention_.Run(layer, q_.data(), attended_.data());
  Multiply(attended_.data(), rows_, std::array<Product, 1>{{{&w.output, projected_.data()}}});
  ForEachRow(rows_, [&](std::size_t row) {
    const std::size_t at = row * config_.hidden;
    kernels_.add(residual_.data() + at, projected_.data() + at, config_.hidden);
    kernels_.rms_norm(residual_.data() + at, w.feed_forward_norm, config_.norm_epsilon,
                      config_.hidden, normed_.data() + at);
  });
  Multiply(normed_.data(), rows_,
           std::array<Product, 2>{{{&w.gate, gate_.data()}, {&w.up, up_.data()}}});
  ForEachRow(rows_, [&](std::size_t row) {
    const std::size_t at = row * config_.feed_forward;
    kernels_.silu_mul(gate_.data() + at, up_.data() + at, config_.feed_forward, gate_.data() + at);
  });
  Multiply(gate_.data(), rows_, std::array<Product, 1>{{{&w.down, projected_.data()}}});
  ForEachRow(rows_, [&](std::size_t row) {
    const std::size_t at = row * config_.hidden;
    kernels_.add(residual_.data() + at, projected_.data() + at, config_.hidden);
  });
}

// y = W x + bias for each product; all of them in one parallel region.
void ForwardPass::Multiply(const float* x, std::size_t rows, std::span<const Product> products) {
  std::size_t panels = 0;
  for (const Product& product : products) panels += product.linear->w.panels();
  // Items of an even number of panels (kernels work on pairs), small enough to share out evenly.
  // The cut cannot change the bits: a panel's outputs depend on nothing but its weights and x.
  const std::size_t wanted = std::max<std::size_t>(1, panels / (8 * pool_.threads()));
  const std::size_t item_panels = std::min<std::size_t>((wanted + 3) / 4 * 4, 64);
  std::size_t items = 0;
  for (const Product& product : products) {
    items += (product.linear->w.panels() + item_panels - 1) / item_panels;
  }
  pool_.ParallelFor(items, [&](std::size_t item, std::size_t worker) {
    std::size_t rest = item;
    const Product* product = products.data();
    for (;; ++product) {
      const std::size_t own = (product->linear->w.panels() + item_panels - 1) / item_panels;
      if (rest < own) break;
      rest -= own;
    }
    const kernels::PackedMatrix& w = product->linear->w;
    kernels_.matmul({.w = &w,
                     .x = x,
                     .rows = rows,
                     .x_stride = w.k,
                     .bias = product->linear->bias,
                     .y = product->y,
                     .y_stride = w.n,
                     .panel_begin = rest * item_panels,
                     .panel_end = std::min(w.panels(), (rest + 1) * item_panels),
                     .scratch = matmul_scratch_.data() + worker * matmul_scratch_floats_});
  });
}

void ForwardPass::Norm(const float* weight, const float* x, std::size_t rows, float* y) {
  ForEachRow(rows, [&](std::size_t row) {
    kernels_.rms_norm(x + row * config_.hidden, weight, config_.norm_epsilon, config_.hidden,
                      y + row * config_.hidden);
  });
}

// Rotary positions of q and k.
void ForwardPass::Rotate() {
  const std::size_t head_dim = config_.head_dim;
  const std::size_t pairs = model_.rope().pairs();
  const auto rotate = config_.rope_pairs == RopePairs::kInterleaved ? kernels_.rope_interleaved
                                                                    : kernels_.rope_half_split;
  ForEachRow(rows_, [&](std::size_t row) {
    const float* const cosine = cosine_.data() + row * pairs;
    const float* const sine = sine_.data() + row * pairs;
    float* const q = q_.data() + row * config_.heads * head_dim;
    float* const k = k_.data() + row * config_.kv_heads * head_dim;
    for (std::size_t head = 0; head < config_.heads; ++head) {
      rotate(q + head * head_dim, cosine, sine, pairs);
    }
    for (std::size_t head = 0; head < config_.kv_heads; ++head) {
      rotate(k + head * head_dim, cosine, sine, pairs);
    }
  });
}

void ForwardPass::ReportLogits(std::span<const Chunk> chunks, OnLogits on_logits) {
  std::array<std::pair<std::uint32_t, std::uint32_t>, kLogitRows> waiting;  // (chunk, token)
  std::size_t count = 0;
  const auto flush = [&] {
    Multiply(normed_.data(), count,
             std::array<Product, 1>{{{&model_.weights().lm_head(), logits_.data()}}});
    for (std::size_t i = 0; i < count; ++i) {
      on_logits(waiting[i].first, waiting[i].second,
                {logits_.data() + i * config_.vocab, config_.vocab});
    }
    count = 0;
  };
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].logits == LogitRows::kNone) continue;
    const auto tokens = static_cast<std::uint32_t>(chunks[c].tokens.size());
    for (std::uint32_t t = chunks[c].logits == LogitRows::kAll ? 0 : tokens - 1; t < tokens; ++t) {
      // Rows are gathered: normed_ is free once the last layer is done.
      kernels_.rms_norm(residual_.data() + (chunks_[c].first_row + t) * config_.hidden,
                        model_.weights().final_norm(), config_.norm_epsilon, config_.hidden,
                        normed_.data() + count * config_.hidden);
      waiting[count++] = {c, t};
      if (count == logit_rows_) flush();
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
