// Which idle block gives up its memory next.
//
// A block is *idle* when nobody reads it and the prefix index still knows it. A ReplacementQueue
// orders the idle blocks of one owner; the cache asks it for a victim when memory is short. What a
// queue may know of a block is in its BlockTraits; it never sees tokens or bytes.
//
//            OnIdle                 OnUse
//   (new) ---------->  idle  <-------------------> in use        (again and again)
//                        |          OnIdle           |
//                        +---------- OnDrop ---------+--------> (forgotten)
//
// Two rules hold for every policy:
//   - only an idle block is a victim;
//   - tails leave before heads: a block with children (blocks that continue its prefix) is never a
//     victim. One whose turn comes while it has children is set aside; it is the next victim once
//     its last child has gone.
// Blocks of a released sequence become idle tail first, so that under lru the rule costs nothing.
//
// Everything is O(1) amortised per call (a call may set several blocks aside, each at most once per
// idle period); nothing allocates after construction.
//
// Thread: the owner's only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/ids.h"

namespace ashlar::kv {

enum class ReplacementKind : std::uint8_t {
  kLru,        // longest idle first
  kFifo,       // first become idle first, however often it was used since
  kLfu,        // used least often first; ties: longest idle first
  kSlru,       // segmented LRU: blocks that were used again outlive those that never were
  kS3Fifo,     // Yang et al., SOSP 2023: small and main FIFO queues and a ghost of what left
  kSieve,      // Zhang et al., NSDI 2024: one FIFO, a moving hand, a visited bit
  kCostAware,  // GreedyDual with quantised costs: a deep block costs more to recompute
};

inline constexpr std::array kReplacementKinds = {
    ReplacementKind::kLru,      ReplacementKind::kFifo,   ReplacementKind::kLfu,
    ReplacementKind::kSlru,     ReplacementKind::kS3Fifo, ReplacementKind::kSieve,
    ReplacementKind::kCostAware};

// "lru", "fifo", "lfu", "slru", "s3fifo", "sieve", "cost-aware".
std::string_view NameOf(ReplacementKind kind);
// Errors: kInvalidArgument listing the names.
Result<ReplacementKind> ParseReplacementKind(std::string_view name);

struct BlockTraits {
  std::uint64_t content = 0;       // a hash of the block's whole prefix, its own tokens included
  std::uint32_t depth_tokens = 0;  // tokens before the block: what a miss recomputes attends to
};

// What the queues of one cache share: one record per block, and s3fifo's memory of what left.
class ReplacementRecords;
struct ReplacementRecordsDelete {
  void operator()(ReplacementRecords* records) const;
};
using ReplacementRecordsPtr = std::unique_ptr<ReplacementRecords, ReplacementRecordsDelete>;

// Records for blocks 0 .. blocks - 1. All memory is taken here.
ReplacementRecordsPtr MakeReplacementRecords(std::uint32_t blocks);

class ReplacementQueue {
 public:
  virtual ~ReplacementQueue() = default;

  // The block became idle. Precondition: not idle; in no other queue.
  virtual void OnIdle(BlockId block, const BlockTraits& traits) = 0;
  // An idle block of this queue is read again: no victim until OnIdle. Counts as a hit.
  virtual void OnUse(BlockId block) = 0;
  // The block leaves this queue for good, idle or in use: it was replaced, invalidated or handed to
  // another queue. Precondition: known to this queue (OnIdle was called since the last OnDrop).
  virtual void OnDrop(BlockId block) = 0;
  // The block has children from now on; it has none any more. For blocks in any state, also ones
  // this queue does not know yet: the record outlives OnDrop until the children are gone.
  virtual void OnFirstChild(BlockId block) = 0;
  virtual void OnLastChildGone(BlockId block) = 0;

  // The block to replace next, still in the queue; nullopt when no idle block may leave. The same
  // answer until something changes.
  virtual std::optional<BlockId> Victim() = 0;

  // Idle blocks, those with children included.
  virtual std::uint64_t idle_blocks() const = 0;

  // Recounts from scratch and CHECKs. O(blocks).
  virtual void CheckInvariants() const = 0;
};

// `records` must outlive the queue.
std::unique_ptr<ReplacementQueue> MakeReplacementQueue(ReplacementKind kind,
                                                       ReplacementRecords& records);

}  // namespace ashlar::kv
