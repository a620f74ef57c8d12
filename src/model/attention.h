// Attention of a batch over blocks: cuts the work into items for the thread pool, runs the kernels
// segment by segment and merges the partial states.
//
// However the work is cut, each query row folds its segments in order of position (kernel_set.h),
// so the bits do not depend on the cut. Two cuts exist, chosen by the amount of work alone:
//   tiles     one item = some tokens of one chunk x one kv head; walks all its segments. Prefill.
//   segments  one item = one (sequence, kv head, segment) of a chunk of one token; states are
//             kept and folded at the end. Lets several threads share one long sequence in decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_array.h"
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "kv/layout.h"
#include "model/config.h"

namespace ashlar::model {

// One sequence's part of a step, as attention sees it.
struct AttentionChunk {
  std::uint64_t position = 0;  // of its first token
  std::size_t tokens = 0;
  std::size_t first_row = 0;           // of its first token in q and out
  std::span<std::byte* const> blocks;  // cover position + tokens
};

class Attention {
 public:
  Attention(const ModelConfig& config, const kv::KvLayout& layout,
            const kernels::KernelSet& kernels, ThreadPool& pool, std::size_t max_tokens);

  // Cuts a step's work into items; the same for all layers of the step. `chunks` have at most
  // max_tokens tokens in all and must stay until the next Plan.
  void Plan(std::span<const AttentionChunk> chunks);

  // out[row] = softmax(q[row] . K / sqrt(head_dim)) V, causal, for every row of the planned chunks.
  // q, out: [rows, heads * head_dim] f32; they must not alias. K and V of all positions up to each
  // row's own must have been stored.
  void Run(std::size_t layer, const float* q, float* out);

  kernels::KvFormat format() const { return format_; }
  // Where the lane's tiles lie in a block.
  const kv::LanePlace& PlaceOf(std::size_t layer, std::size_t kv_head) const {
    return places_[layer * kv_heads_ + kv_head];
  }

  // Bytes of scratch this object owns.
  std::uint64_t workspace_bytes() const;

 private:
  // Query rows of one item: tokens [first, first + count) of a chunk, the query heads of one kv
  // head.
  struct Item {
    std::uint32_t chunk;
    std::uint32_t kv_head;
    std::uint32_t first;
    std::uint32_t count;  // 0: a single token's one segment, `first` being the segment
  };
  // Running state of the rows of one item, on one worker's scratch.
  struct State {
    float* max;
    float* sum;
    float* acc;
  };

  void RunTile(std::size_t layer, const AttentionChunk& chunk, const Item& item, const float* q,
               float* out, std::size_t worker);
  void RunSegment(std::size_t layer, const AttentionChunk& chunk, const Item& item, const float* q,
                  std::size_t worker, State state);
  void FoldSegments(float* out);
  void AttendSegment(std::size_t layer, const AttentionChunk& chunk, std::size_t kv_head,
                     std::uint64_t segment, const float* rows, std::size_t row_count,
                     const std::uint32_t* visible, State state, float* scratch) const;
  void LoadQueries(const AttentionChunk& chunk, std::size_t kv_head, std::size_t first,
                   std::size_t count, const float* q, float* rows) const;

  float* WorkerScratch(std::size_t worker) { return scratch_.data() + worker * worker_floats_; }
  State StateAt(float* base, std::size_t rows) const;

  const kv::KvLayout& layout_;
  const kernels::KernelSet& kernels_;
  ThreadPool& pool_;
  std::size_t heads_;
  std::size_t kv_heads_;
  std::size_t group_;
  std::size_t head_dim_;
  std::size_t tile_tokens_;
  float scale_;
  kernels::KvFormat format_;
  std::vector<kv::LanePlace> places_;  // [layers, kv_heads]
  std::size_t worker_floats_;
  AlignedArray<float> scratch_;   // per worker: queries, two states, kernel scratch
  AlignedArray<float> partials_;  // states of split decode items
  std::span<const AttentionChunk> chunks_;
  std::vector<Item> items_;
  bool is_split_ = false;
};

}  // namespace ashlar::model
