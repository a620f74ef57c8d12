#include <algorithm>
#include <array>

#include "model/forward.h"

namespace ashlar::model {

void ForwardPass::RunAttention(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  if (!config_.latent) {
    ComputeHeads(layer);
    attention_.Store(layer, q_.data(), k_.data(), v_.data());
    attention_.Run(layer, q_.data(), attended_.data());
    Multiply(std::array{Whole(w.output, attended_.data(), projected_.data())});
    return;
  }
  ComputeLatents(layer);
  attention_.Store(layer, q_.data(), k_.data(), nullptr);
  attention_.Run(layer, q_.data(), attended_.data());
  // Each head's weighted latent to its output.
  const std::size_t rank = config_.latent->rank;
  const std::size_t value_dim = config_.latent->value_dim;
  products_.clear();
  for (std::size_t head = 0; head < config_.heads; ++head) {
    products_.push_back({&w.latent.value_b[head], attended_.data() + head * rank,
                         config_.heads * rank, values_.data() + head * value_dim,
                         config_.heads * value_dim, rows_});
  }
  Multiply(products_);
  Multiply(std::array{Whole(w.output, values_.data(), projected_.data())});
}

void ForwardPass::ComputeHeads(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  Multiply(std::array{Whole(w.q, normed_.data(), q_.data()), Whole(w.k, normed_.data(), k_.data()),
                      Whole(w.v, normed_.data(), v_.data())});
  if (!config_.has_qk_norm && !config_.LayerAt(layer).rope) return;
  ForEachRow(rows_, [&](std::size_t row) {
    PrepareHeads(layer, q_.data() + row * config_.heads * config_.head_dim, config_.heads, w.q_norm,
                 row);
    PrepareHeads(layer, k_.data() + row * config_.kv_heads * config_.head_dim, config_.kv_heads,
                 w.k_norm, row);
  });
}

// Norms and rotates one row's heads.
void ForwardPass::PrepareHeads(std::size_t layer, float* heads, std::size_t count,
                               const NormWeights& norm, std::size_t row) const {
  for (std::size_t i = 0; i < count; ++i) {
    float* const head = heads + i * config_.head_dim;
    if (norm.weight != nullptr) NormRow(norm, head, config_.head_dim, head);
    Rotate(layer, row, head);
  }
}

// Rotates the channels that begin at `head` to the row's position.
void ForwardPass::Rotate(std::size_t layer, std::size_t row, float* head) const {
  const std::optional<std::uint32_t> rope = config_.LayerAt(layer).rope;
  if (!rope) return;
  const std::size_t pairs = config_.rope_dims / 2;
  const std::size_t at = (*rope * max_tokens_ + row) * pairs;
  const auto rotate = config_.rope_pairs == RopePairs::kInterleaved ? kernels_.rope_interleaved
                                                                    : kernels_.rope_half_split;
  rotate(head, cosine_.data() + at, sine_.data() + at, pairs);
}

// weights.h, LatentWeights: k_ is latent and rotated key, q_ the queries in that space.
void ForwardPass::ComputeLatents(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  const LatentConfig& latent = *config_.latent;
  const std::size_t wide = latent.plain_dim + config_.rope_dims;  // of a query head
  if (latent.query_rank == 0) {
    Multiply(std::array{Whole(w.q, normed_.data(), wide_q_.data()),
                        Whole(w.latent.key_value_a, normed_.data(), k_.data())});
  } else {
    Multiply(std::array{Whole(w.latent.query_a, normed_.data(), low_q_.data()),
                        Whole(w.latent.key_value_a, normed_.data(), k_.data())});
    ForEachRow(rows_, [&](std::size_t row) {
      float* const low = low_q_.data() + row * latent.query_rank;
      NormRow(w.latent.query_norm, low, latent.query_rank, low);
    });
    Multiply(std::array{Whole(w.q, low_q_.data(), wide_q_.data())});
  }
  ForEachRow(rows_, [&](std::size_t row) {
    float* const key = k_.data() + row * config_.head_dim;
    NormRow(w.latent.latent_norm, key, latent.rank, key);
    Rotate(layer, row, key + latent.rank);
    for (std::size_t head = 0; head < config_.heads; ++head) {
      const float* const plain = wide_q_.data() + (row * config_.heads + head) * wide;
      float* const rotated =
          q_.data() + (row * config_.heads + head) * config_.head_dim + latent.rank;
      std::copy_n(plain + latent.plain_dim, config_.rope_dims, rotated);
      Rotate(layer, row, rotated);
    }
  });
  products_.clear();
  for (std::size_t head = 0; head < config_.heads; ++head) {
    products_.push_back({&w.latent.key_b[head], wide_q_.data() + head * wide, config_.heads * wide,
                         q_.data() + head * config_.head_dim, config_.heads * config_.head_dim,
                         rows_});
  }
  Multiply(products_);
}

}  // namespace ashlar::model
