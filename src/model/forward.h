// The forward pass: a step's tokens through all layers, reading and writing K and V in blocks.
//
// A step is a ragged batch: from each sequence a chunk of consecutive tokens (a piece of a prompt,
// or the one token that extends the text). Every row of it is computed as if it were alone
// (kernel_set.h), so the logits of a token are the same bits in any batch, chunking and number of
// threads.
//
// All memory is taken at construction, for at most `max_tokens` rows a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_array.h"
#include "base/ids.h"
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "kv/layout.h"
#include "model/attention.h"
#include "model/model.h"

namespace ashlar::model {

// Which rows of a chunk need logits.
enum class LogitRows : std::uint8_t { kNone, kLast, kAll };

// One sequence's part of a step.
struct Chunk {
  std::span<const TokenId> tokens;  // at least one
  std::uint64_t position = 0;       // of tokens[0]; the sequence's earlier tokens are in its blocks
  std::span<const GroupBlocks> groups;  // by lane group; they cover position + tokens
  LogitRows logits = LogitRows::kLast;
  // A tree of tokens, as AttentionChunk has it; empty: they follow each other. Each one's logits
  // are those that follow its path.
  std::span<const std::int32_t> parents = {};
};

class ForwardPass {
 public:
  // All references must outlive the pass. Precondition: the layout was made for this model.
  ForwardPass(const Model& model, const kv::KvLayout& layout, const kernels::KernelSet& kernels,
              ThreadPool& pool, std::size_t max_tokens);

  // Called for each row asked for, in order of chunk and token; `logits` [vocab] f32 is valid
  // during the call only.
  using OnLogits =
      FunctionRef<void(std::size_t chunk, std::size_t token, std::span<const float> logits)>;

  // Computes the step: writes K and V of all its tokens into the blocks and reports logits.
  // Preconditions: 1 to max_tokens tokens in all; token ids below vocab.
  void Run(std::span<const Chunk> chunks, OnLogits on_logits);

  // Whether, in the last Run, a chunk's K or V was not finite in the format of its blocks. Its
  // blocks and logits mean nothing then, and it must not be committed; the others are not touched
  // by it.
  bool IsRefused(std::size_t chunk) const { return attention_.IsRefused(chunk); }

  std::uint64_t workspace_bytes() const;

 private:
  struct Product {  // one matrix of a group computed in one parallel region
    const Linear* linear;
    float* y;
  };

  void GatherChunks(std::span<const Chunk> chunks);
  void RunLayer(std::size_t layer);
  void Multiply(const float* x, std::size_t rows, std::span<const Product> products);
  void Norm(const float* weight, const float* x, std::size_t rows, float* y);
  void Rotate();
  void ReportLogits(std::span<const Chunk> chunks, OnLogits on_logits);
  void ForEachRow(std::size_t rows, FunctionRef<void(std::size_t row)> body);

  const Model& model_;
  const ModelConfig& config_;
  const kv::KvLayout& layout_;
  const kernels::KernelSet& kernels_;
  ThreadPool& pool_;
  std::size_t max_tokens_;
  std::size_t logit_rows_;  // rows of logits computed at a time
  Attention attention_;

  std::size_t rows_ = 0;                  // of this step
  std::vector<AttentionChunk> chunks_;    // of this step
  std::vector<std::uint32_t> row_chunk_;  // [rows] index into chunks_

  // [max_tokens, width] f32 each.
  AlignedArray<float> residual_, normed_, q_, k_, v_, attended_, projected_, gate_, up_;
  AlignedArray<float> cosine_, sine_;   // [max_tokens, rope pairs]
  AlignedArray<float> logits_;          // [logit_rows, vocab]
  AlignedArray<float> matmul_scratch_;  // per worker
  std::size_t matmul_scratch_floats_ = 0;
};

}  // namespace ashlar::model
