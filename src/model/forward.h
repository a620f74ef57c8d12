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
#include "model/activations.h"
#include "model/attention.h"
#include "model/expert_choice.h"
#include "model/model.h"
#include "model/workspace.h"

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
              ThreadPool& pool, std::size_t max_tokens, Activations activations);

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
  // One matrix of those computed in one parallel region: y [rows, n] = x [rows, k] W^T + bias.
  struct Product {
    const Linear* linear;
    const float* x;
    std::size_t x_stride;
    float* y;
    std::size_t y_stride;
    std::size_t rows;
  };

  // Panels of one, or of a part of its matrix that begins at `bias` and `y`.
  struct PanelProduct {
    const Product* product;
    const kernels::ActivationBlock* x;  // null: product->x as it is
    const kernels::PackedMatrix* w;
    const float* bias;
    float* y;
    std::size_t panel_begin;
    std::size_t panel_end;
  };

  void GatherChunks(std::span<const Chunk> chunks);
  void EmbedRow(TokenId token, std::uint64_t position, std::size_t row);
  void RunLayer(std::size_t layer);
  // All rows of the step, rows of x and y lying side by side.
  Product Whole(const Linear& linear, const float* x, float* y) const {
    return {&linear, x, linear.w.k, y, linear.w.n, rows_};
  }
  void NormRow(const NormWeights& norm, const float* x, std::size_t n, float* y) const;
  void Norm(const NormWeights& norm);
  void AddToResidual(const NormWeights& post, const NormWeights& next);
  void ReportLogits(std::span<const Chunk> chunks, OnLogits on_logits);
  void ForEachRow(std::size_t rows, FunctionRef<void(std::size_t row)> body);

  // --- forward_products.cc
  void Multiply(std::span<const Product> products);
  std::span<const Product> InColumnOrder(std::span<const Product> products);
  void EncodeInputs(std::span<const Product> products);
  void EncodeRow(std::span<const Product> products, std::size_t row);
  void MultiplyPacked(const PanelProduct& part, std::size_t worker);
  void MultiplyMapped(const PanelProduct& part, std::size_t worker);

  // --- forward_attention.cc: normed_ to projected_
  void RunAttention(std::size_t layer);
  void ComputeHeads(std::size_t layer);
  void ComputeLatents(std::size_t layer);
  void PrepareHeads(std::size_t layer, float* heads, std::size_t count, const NormWeights& norm,
                    std::size_t row) const;
  void Rotate(std::size_t layer, std::size_t row, float* head) const;

  // --- forward_feed_forward.cc: normed_ to projected_
  void RunFeedForward(std::size_t layer);
  void RunDense(const FeedForwardWeights& weights, float* out);
  void RunExperts(const ExpertsWeights& weights);
  void ChooseAndGather(const ExpertsWeights& weights);
  void MultiplyExperts(const ExpertsWeights& weights);
  void AddSharedExpert(const ExpertsWeights& weights);
  void Activate(const float* gate, const float* up, std::size_t n, float* out) const;

  // Of a matrix that stays in the file, packed at a time: kernels work on pairs of panels.
  static constexpr std::size_t kMappedPanels = 2;

  const Model& model_;
  const ModelConfig& config_;
  const kv::KvLayout& layout_;
  const kernels::KernelSet& kernels_;
  ThreadPool& pool_;
  std::size_t max_tokens_;
  Activations activations_;
  ForwardSizes sizes_;
  Attention attention_;

  std::size_t rows_ = 0;                  // of this step
  std::vector<AttentionChunk> chunks_;    // of this step
  std::vector<std::uint32_t> row_chunk_;  // [rows] index into chunks_
  std::vector<Product> products_;         // of the region at hand
  std::vector<Product> ordered_;          // the same, reading gathered_ where columns have an order
  // [products of a region]: x as codes, or null; and the products whose x was encoded, with the
  // first row of each among all rows that are.
  std::vector<const kernels::ActivationBlock*> inputs_;
  struct Encoding {
    std::size_t product;
    std::size_t first_row;
    kernels::ActivationBlock* out;
  };
  std::vector<Encoding> encodings_;

  // [max_tokens, width] f32 each.
  AlignedArray<float> residual_, normed_, q_, k_, v_, attended_, projected_, gate_, up_;
  AlignedArray<float> cosine_, sine_;  // [ropes, max_tokens, pairs]
  AlignedArray<float> logits_;         // [logit_rows, vocab]
  // With a latent: queries before they are in its space, those before that, and heads' outputs.
  AlignedArray<float> wide_q_, low_q_, values_;
  // With experts: router logits [max_tokens, count]; and for each token and expert it uses, sorted
  // by expert, [max_tokens * used, width].
  AlignedArray<float> router_, expert_in_, expert_gate_, expert_up_, expert_out_, shared_out_;
  std::vector<ExpertChoice> choices_;             // [max_tokens, used]
  std::vector<std::uint32_t> expert_rows_;        // [max_tokens, used]: where the choice's row is
  std::vector<std::uint32_t> expert_begins_;      // [count + 1]: an expert's first row
  AlignedArray<float> gathered_;                  // of the region at hand
  AlignedArray<float> matmul_scratch_;            // per worker
  AlignedArray<kernels::ActivationBlock> codes_;  // of the region at hand
  AlignedArray<std::byte> panels_;                // per worker, of matrices that stay in the file
};

}  // namespace ashlar::model
