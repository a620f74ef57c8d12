// A model's weights, packed for the kernels in their stored number of bits.
//
// Matrices are copied once, at load, from the mapped file into one aligned buffer in the layout of
// kernels/packed_matrix.h, and the file's pages are given back: resident memory stays about the
// size of the file. The embedding table is read row by row from the mapping itself. Norms and
// biases become f32.
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
#include "kernels/packed_matrix.h"
#include "model/config.h"

namespace ashlar::model {

// A linear layer y = W x + bias. `bias` is null when there is none.
struct Linear {
  kernels::PackedMatrix w;
  const float* bias = nullptr;
};

struct LayerWeights {
  const float* attention_norm = nullptr;  // [hidden]
  Linear q, k, v;  // [heads * head_dim, hidden], [kv_heads * head_dim, hidden]
  Linear output;   // [hidden, heads * head_dim]
  const float* feed_forward_norm = nullptr;  // [hidden]
  Linear gate, up;                           // [feed_forward, hidden]
  Linear down;                               // [hidden, feed_forward]
};

// Bytes packed so far and in all; called on the loading thread.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Weights {
 public:
  // Errors: kCorrupt (a tensor is missing or has the wrong shape; named), kUnsupported (the file
  // has a tensor this architecture does not use: ignoring it would give wrong answers; named).
  // `file` must outlive the weights.
  static Result<Weights> Load(const gguf::ModelFile& file, const ModelConfig& config,
                              ThreadPool& pool, const LoadProgress& progress);

  std::span<const LayerWeights> layers() const { return layers_; }
  const float* final_norm() const { return final_norm_; }
  const Linear& lm_head() const { return lm_head_; }
  std::span<const float> rope_divisors() const { return rope_divisors_; }
  // Owned bytes: packed matrices plus f32 vectors.
  std::uint64_t bytes() const { return packed_.bytes() + vectors_.size() * sizeof(float); }

  // Row `token` of the embedding table as f32 [hidden]. Precondition: token < vocab.
  void Embed(TokenId token, float* out) const;

 private:
  class Loader;

  std::vector<LayerWeights> layers_;
  const float* final_norm_ = nullptr;
  Linear lm_head_;
  std::span<const float> rope_divisors_;
  const gguf::Tensor* embedding_ = nullptr;
  std::size_t embedding_row_bytes_ = 0;
  std::vector<float> vectors_;  // norms, biases, divisors; sized before any pointer is taken
  AlignedArray<std::byte> packed_;
};

}  // namespace ashlar::model
