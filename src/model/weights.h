// A model's weights, packed for the kernels in their stored number of bits.
//
// Matrices are copied once, at load, from the mapped file into one aligned buffer in the layout of
// kernels/packed_matrix.h, and the file's pages are given back as it goes: resident memory stays
// about the size of the file. With WeightAccess::kMmap they stay in the mapping instead, and
// loading reads none of them. An embedding table of its own is read row by row from the mapping;
// one that is the output matrix as well, from there. Norms and biases become f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/aligned_array.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/model_file.h"
#include "model/config.h"
#include "model/linear.h"
#include "model/weight_access.h"

namespace ashlar::model {

// `bias` only in NormKind::kLayer; `weight` null where there is no such norm.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

// y = down(activation(gate x) * up x), or without a gate down(activation(up x)).
struct FeedForwardWeights {
  Linear gate, up;  // [width, hidden]
  Linear down;      // [hidden, width]
};

// Of LatentConfig's attention; per head h of the query:
//   [plain | rotated]_h = query x (through query_a and a norm where there is query_rank)
//   latent | rotated key = key_value_a x, the latent then normed
//   query in the latent space = key_b[h] plain_h;  output_h = value_b[h] (weighted latents)
struct LatentWeights {
  Linear query_a;               // [query_rank, hidden]
  NormWeights query_norm;       // [query_rank]
  Linear key_value_a;           // [rank + rope_dims, hidden]
  NormWeights latent_norm;      // [rank]
  std::vector<Linear> key_b;    // [heads] of [rank, plain_dim]
  std::vector<Linear> value_b;  // [heads] of [value_dim, rank]
};

struct ExpertsWeights {
  Linear router;                            // [count, hidden]
  const float* selection_bias = nullptr;    // [count]: added to choose by, not to weigh by
  std::vector<FeedForwardWeights> experts;  // [count]
  FeedForwardWeights shared;
  Linear shared_gate;  // [1, hidden]
};

struct LayerWeights {
  NormWeights attention_norm;  // [hidden]
  Linear q, k, v;  // [heads * head_dim, hidden], [kv_heads * head_dim, hidden]; with a latent q is
                   // [heads * (plain_dim + rope_dims), query_rank or hidden] and there is no k, v
  NormWeights q_norm, k_norm;  // [head_dim]
  LatentWeights latent;
  Linear output;                       // [hidden, heads * value channels]
  NormWeights attention_post_norm;     // [hidden]
  NormWeights feed_forward_norm;       // [hidden]; none: reads what attention reads
  NormWeights feed_forward_post_norm;  // [hidden]
  FeedForwardWeights feed_forward;     // of layers without experts
  ExpertsWeights experts;
};

// Bytes packed so far and in all; called on the loading thread.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Weights {
 public:
  // Errors: kCorrupt (a tensor is missing or has the wrong shape; named), kUnsupported (the file
  // has a tensor this architecture does not use: ignoring it would give wrong answers; named).
  // `file` must outlive the weights.
  static Result<Weights> Load(const gguf::ModelFile& file, const ModelConfig& config,
                              ThreadPool& pool, const LoadProgress& progress,
                              WeightAccess access = WeightAccess::kCopy);
  // What bytes() + mapped_bytes() would be, of a copy, without loading anything. Errors: as Load.
  static Result<std::uint64_t> BytesOf(const gguf::ModelFile& file, const ModelConfig& config);

  std::span<const LayerWeights> layers() const { return layers_; }
  const NormWeights& final_norm() const { return final_norm_; }
  const Linear& lm_head() const { return lm_head_; }
  // [rope_dims / 2] each; empty when the model has none. Those of a model with two sets are for
  // contexts up to and beyond its original one.
  std::span<const float> rope_divisors() const { return rope_divisors_; }
  std::span<const float> long_rope_divisors() const { return long_rope_divisors_; }
  // [layers, heads]; empty when the model has none.
  std::span<const float> sink_logits() const { return sink_logits_; }
  // Owned bytes: packed matrices plus f32 vectors.
  std::uint64_t bytes() const { return packed_.bytes() + vectors_.size() * sizeof(float); }
  // In the file's mapping, of matrices and of tables that are read by the row: what of them is in
  // memory is the system's to say.
  std::uint64_t mapped_bytes() const { return mapped_bytes_; }
  // The largest packed panel of a matrix that stays in the file; 0: none does.
  std::size_t mapped_panel_bytes() const { return mapped_panel_bytes_; }

  // Row `token` of the embedding table as f32 [hidden]. Precondition: token < vocab.
  void Embed(TokenId token, float* out) const;
  // What learned positions add, f32 [hidden]. Precondition: the model has them; position < context.
  void PositionEmbedding(std::uint64_t position, float* out) const;

 private:
  friend class WeightsLoader;

  std::vector<LayerWeights> layers_;
  NormWeights final_norm_;
  Linear lm_head_;
  std::span<const float> rope_divisors_;
  std::span<const float> long_rope_divisors_;
  std::span<const float> sink_logits_;
  const gguf::Tensor* embedding_ = nullptr;  // null: rows of lm_head_
  const gguf::Tensor* positions_ = nullptr;
  std::vector<float> vectors_;  // norms, biases, divisors; sized before any pointer is taken
  AlignedArray<std::byte> packed_;
  std::uint64_t mapped_bytes_ = 0;
  std::size_t mapped_panel_bytes_ = 0;
};

}  // namespace ashlar::model
