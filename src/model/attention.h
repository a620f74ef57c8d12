// Attention of a batch over blocks: cuts the work into items for the thread pool, runs the kernels
// segment by segment and merges the partial states.
//
// However the work is cut, each query row folds its segments into spans and its spans into a
// result, in order of position (kernels/attention.h), so the bits do not depend on the cut. Two
// kinds of items exist, chosen by the amount of work alone:
//   tiles   some tokens of one chunk that lie in one block, for one kv head: walks all segments.
//   spans   one span (1,024 positions), for one kv head, of the single tokens of one or several
//           chunks that have the same blocks there: states are kept and folded at the end. Lets
//           several threads share one long sequence, and reads a shared prefix once for all
//           sequences that have it.
//
// What a row sees, in every lane group: the blocks before its own as they are sealed, its own raw
// ("seal semantics"). A group with a window: the last `window` tokens, and `sinks` first ones,
// which make a partial state of their own, folded first. A learned sink logit is folded last.
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
#include "model/workspace.h"

namespace ashlar::model {

// What a step reads and writes of a sequence's blocks in one lane group.
struct GroupBlocks {
  std::span<std::byte* const> blocks;  // by number; null where a window has passed
  // Encoded groups: block number n is raw in open[n % open.size()] for the last so many numbers
  // that the step touches, and the first one it goes on in. Empty in a raw group.
  std::span<std::byte* const> open;
};

// One sequence's part of a step, as attention sees it.
struct AttentionChunk {
  std::uint64_t position = 0;  // of its first token
  std::size_t tokens = 0;
  std::size_t first_row = 0;            // of its first token in q, k, v and out
  std::span<const GroupBlocks> groups;  // blocks cover position + tokens
  // Empty: the tokens follow each other. Or a tree, for speculative verification: token i goes on
  // from token parents[i] < i, or from the text before the chunk for -1. Token i is stored in slot
  // position + i, its place in its text is position + TreeDepth, and its result is the one it has
  // in a plain sequence along its path, bit by bit. Nothing is sealed: the caller truncates to
  // `position` and stores again what is accepted. At most kMaxTreeTokens; no group with a window;
  // in encoded groups as many open blocks as the slots touch.
  std::span<const std::int32_t> parents = {};
};
inline constexpr std::size_t kMaxTreeTokens = 64;

// Tokens before `token` on its path within the chunk; `token` itself without a tree. O(depth).
std::size_t TreeDepth(std::span<const std::int32_t> parents, std::size_t token);

// What differs from plain scaled dot products.
struct AttentionSpec {
  float scale = 0.0f;                    // of logits; 0: 1 / sqrt(head_dim)
  float softcap = 0.0f;                  // 0: none
  std::span<const float> sink_logits{};  // [layers, heads], learned; empty: none
  std::uint32_t latent_dim = 0;          // MLA: V is the first latent_dim channels of K; 0: not so
};

// What a policy may ask of one chunk in one layer; nothing of it is computed unless asked for.
struct AttentionTap {
  std::size_t chunk = 0;
  std::size_t last_tokens = 1;  // of the chunk
  // [last_tokens, heads, stride]: logits at every position that is read, untouched elsewhere.
  // Probabilities are exp(logit - lse).
  float* logits = nullptr;
  std::size_t stride = 0;  // at least position + tokens, rounded up to a multiple of 256
  float* lse = nullptr;    // [last_tokens, heads]: log of the sum of exponentials
};

class Attention {
 public:
  // All references must outlive it. CHECKs that the layout has a lane for every layer and head, all
  // heads of a layer in one group, of dims that the kernels can do.
  Attention(const ModelConfig& config, const kv::KvLayout& layout,
            const kernels::KernelSet& kernels, ThreadPool& pool, std::size_t max_tokens,
            const AttentionSpec& spec = {});

  // Cuts a step's work into items; the same for all layers of a group. `chunks` have at most
  // max_tokens tokens in all and must stay until the next Plan.
  void Plan(std::span<const AttentionChunk> chunks);

  // Writes K and V of the planned rows into the blocks, and encodes those that become full. q, k
  // and v are rotated in place where the codec asks for it. q: [rows, heads * head_dim], k:
  // [rows, kv_heads * head_dim], v: [rows, kv_heads * value_dim] f32 (no v in MLA).
  void Store(std::size_t layer, float* q, float* k, float* v);

  // out[row] = softmax(scale q[row] . K) V, causal, for every row of the planned chunks, after
  // Store. out: [rows, heads * value_dim] f32; it must not alias q.
  void Run(std::size_t layer, const float* q, float* out, const AttentionTap* tap = nullptr);

  // Whether a row of this chunk could not be stored: not finite in the block's format. Its results
  // mean nothing, and it must not be committed. Of the layers since Plan.
  bool IsRefused(std::size_t chunk) const { return refused_[chunk] != 0; }

  // Where the lane's tiles lie in a block.
  const kv::LanePlace& PlaceOf(std::size_t layer, std::size_t kv_head) const {
    return places_[layer * kv_heads_ + kv_head];
  }
  // Bytes of K and V in sealed blocks that Run reads in a layer of this group, as planned: those of
  // every item once. So a shared block is counted once for single tokens that share its whole span,
  // and once for all others that share its whole segment; and again for each tile of a prefill.
  std::uint64_t planned_bytes(std::size_t group) const { return plans_[group].bytes; }

  // Into how many items a layer of this group was cut.
  std::size_t planned_items(std::size_t group) const { return plans_[group].items.size(); }

  // Bytes of scratch this object owns.
  std::uint64_t workspace_bytes() const;

 private:
  static constexpr std::uint64_t kAllSegments = ~std::uint64_t{0};
  static constexpr std::size_t kNotSplit = ~std::size_t{0};

  // Query rows: tokens [first, first + count) of one chunk, or the only token of each of several;
  // times the query heads of one kv head.
  struct Item {
    std::uint32_t kv_head = 0;
    std::uint32_t member = 0;  // index of the first in GroupPlan::members
    std::uint32_t members = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    // Segments [begin, end) of one span, to a partial state; kAllSegments: to the result.
    std::uint64_t begin = kAllSegments;
    std::uint64_t end = 0;

    // A span of one chunk.
    bool is_alone() const { return begin != kAllSegments && members == 1; }
  };
  struct GroupPlan {
    std::vector<Item> items;
    std::vector<std::uint32_t> members;  // chunks
    std::vector<std::uint32_t> split;    // chunks whose spans are items
    // By split chunk and segment: whether a partial state begins there.
    std::vector<std::uint8_t> pieces;
    // Items that one worker runs, a divisor of kv_heads: of spans, kv heads of one, whose tiles lie
    // side by side.
    std::size_t batch = 1;
    std::uint64_t bytes = 0;
  };
  // Where a split chunk's partial states are.
  struct Split {
    std::size_t first_piece = kNotSplit;  // in GroupPlan::pieces; times kv_heads: the states
    std::uint64_t segments = 0;
  };
  // Partial states of rows.
  struct State {
    float* max;
    float* sum;
    float* acc;

    State At(std::size_t row, std::size_t dim) const {
      return {max + row, sum + row, acc + row * dim};
    }
  };
  struct Work;  // an item's rows, ready to be run
  using Sharers = std::span<std::pair<const std::byte*, std::uint32_t>>;

  // --- attention_plan.cc
  void PlanGroup(std::uint32_t group);
  void PlanTiles(std::uint32_t group, std::uint32_t chunk);
  bool WantsSplit() const;
  std::size_t BatchOf(std::uint32_t group) const;
  void SplitChunks(std::uint32_t group, bool splits_all);
  void PlanSpan(std::uint32_t group, std::uint64_t span);
  void PlanRange(std::uint32_t group, Sharers chunks, std::uint64_t begin, std::uint64_t end,
                 std::vector<std::uint32_t>* rest);
  void AddSpanItems(std::uint32_t group, Sharers members, std::uint64_t begin, std::uint64_t end);
  bool SameBlocks(std::uint32_t group, std::uint32_t a, std::uint32_t b, std::uint64_t begin,
                  std::uint64_t end) const;
  std::uint64_t SealedTokens(const AttentionChunk& chunk) const {
    return chunk.position / block_tokens_ * block_tokens_;
  }
  std::uint64_t FirstSegment(std::uint32_t group, std::uint64_t position) const;
  std::uint64_t BlocksRead(std::uint32_t group, std::uint64_t position) const;
  std::uint64_t TileBytes(std::uint32_t group) const;

  // --- attention_tree.cc
  void CheckTree(const AttentionChunk& chunk) const;
  void LoadPath(Work& work) const;
  void CopyPathRows(const Work& work, std::span<const std::uint32_t> path) const;
  void SealPath(Work& work, std::size_t blocks) const;
  // Of block j of a path, in the worker's memory: raw tiles, and those it is seen as when sealed.
  struct PathTiles;
  PathTiles PathTilesOf(const Work& work, std::size_t j) const;
  static std::uint64_t TextPosition(const AttentionChunk& chunk, std::size_t token) {
    return chunk.position + TreeDepth(chunk.parents, token);
  }

  // --- attention_store.cc
  // The raw tiles of a block's lane while the step runs.
  struct RawTiles {
    std::byte* k;
    std::byte* v;
  };
  RawTiles RawTilesOf(std::size_t layer, std::uint32_t chunk, std::uint64_t number,
                      std::size_t kv_head) const;
  void PlaceKeptTiles();
  std::uint64_t FullBlocks(const AttentionChunk& chunk) const;
  void KeepOpenRows(std::size_t layer);
  void StoreRow(std::size_t layer, std::size_t row, float* q, float* k, float* v);
  void SealBlock(std::size_t layer, std::uint32_t chunk, std::uint64_t number,
                 std::size_t kv_head) const;
  void PrepareRow(std::size_t layer, std::size_t row, const float* q);
  void ForEachRow(FunctionRef<void(std::size_t row)> body);

  // --- attention.cc
  void CheckLanes(const kv::LaneGroup& group) const;
  void RunBatch(std::span<const Item> items, std::size_t worker, float* out);
  void RunTogether(std::span<const Item> items, std::size_t worker);
  void RunItem(const Item& item, std::size_t worker, float* out);
  void UseMemoryOf(std::size_t worker, Work& work);
  void LoadRows(const Item& item, Work& work);
  void RunTile(Work& work, float* out);
  void RunSegments(Work& work, std::uint64_t begin, std::uint64_t end, State into);
  void AttendSinks(Work& work, State into);
  void AttendSegment(Work& work, std::uint64_t segment, State into);
  void RunKernel(Work& work, kernels::AttendArgs& args, std::uint64_t segment, State into);
  void AskForFirstSegment(std::span<const Item> items) const;
  void LookAhead(Work& work, std::uint64_t segment, kernels::AttendArgs& args) const;
  std::size_t FirstTilesOf(const Item& item, std::uint64_t segment, const std::byte** tiles) const;
  void TapLogits(const Work& work, std::uint64_t segment, const kernels::AttendArgs& args) const;
  void Merge(std::size_t rows, State into, State from) const;
  void Finish(std::uint32_t chunk, std::size_t token, std::uint32_t kv_head, State state,
              float* out) const;
  void FoldSplit(float* out);
  State PartialOf(std::uint32_t chunk, std::uint64_t segment, std::size_t kv_head);

  const GroupPlan& plan() const { return plans_[PlaceOf(layer_, 0).group]; }
  const kv::LaneGroup& lane_group() const { return layout_.group(PlaceOf(layer_, 0).group); }
  // Rows of queries_ and prepared_: [kv_heads, max_tokens, group].
  std::size_t QueryRow(std::size_t row, std::size_t kv_head) const {
    return (kv_head * max_tokens_ + row) * group_;
  }
  std::size_t StateFloats(std::size_t rows) const { return rows * (value_dim_ + 2); }
  State StateAt(float* base, std::size_t rows) const {
    return {.max = base, .sum = base + rows, .acc = base + 2 * rows};
  }

  const kv::KvLayout& layout_;
  const kernels::KernelSet& kernels_;
  ThreadPool& pool_;
  AttentionSpec spec_;
  std::size_t heads_;
  std::size_t kv_heads_;
  std::size_t group_;  // query heads of a kv head
  std::size_t head_dim_;
  std::size_t value_dim_;
  std::size_t block_tokens_;
  std::size_t max_tokens_;
  std::vector<kv::LanePlace> places_;  // [layers, kv_heads]
  bool heads_are_in_a_row_ = true;     // the tiles of a layer's kv heads, in all layers

  // Of the step.
  std::span<const AttentionChunk> chunks_;
  std::size_t rows_ = 0;
  std::vector<std::uint32_t> row_chunk_;  // [rows] index into chunks_
  std::vector<GroupPlan> plans_;          // by lane group
  std::vector<Split> splits_;             // by lane group and chunk: [groups, max_tokens]
  std::vector<std::uint8_t> refused_;     // by chunk
  std::vector<std::size_t> kept_base_;    // by chunk: its first kept block
  std::vector<std::pair<const std::byte*, std::uint32_t>> sharers_;
  std::vector<std::uint32_t> rest_;

  // Of the layer at hand.
  std::size_t layer_ = 0;
  const AttentionTap* tap_ = nullptr;

  AttentionSizes sizes_;
  AlignedArray<float> queries_;       // scaled, [kv_heads, max_tokens, group, head_dim]
  AlignedArray<std::byte> prepared_;  // the same rows as integers
  AlignedArray<std::byte> kept_;      // raw tiles of one layer that lie in no open block
  AlignedArray<std::byte> paths_;     // blocks along a tree token's path, per worker
  AlignedArray<float> scratch_;       // per worker
  AlignedArray<float> partials_;      // states of split chunks
};

}  // namespace ashlar::model
