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
//     victim. One whose turn comes while it has children is set aside; once its last child has gone
//     it is due: it leaves before all whose turn has not come, the longest due first.
// Blocks of a released sequence become idle tail first, so that under lru the rule costs nothing.
//
// A block in use keeps its place in the order of fifo, s3fifo and sieve, and may have its turn
// there: under fifo it is due as soon as it is idle, under sieve it lines up again behind the hand,
// under s3fifo at the end of its list. The other policies place a block anew when it becomes idle.
//
// Whoever drops the block that Victim() last offered has *replaced* it: s3fifo remembers its
// content, cost-aware lets all others age. Dropping any other block teaches a queue nothing.
//
// Everything is O(1) amortised per call (a search for a victim may set several blocks aside or pass
// them, which an earlier OnIdle or OnUse of each has paid for); nothing allocates after
// construction. A record takes 32 bytes, s3fifo's memory 16 to 32 bytes a block, a queue less than
// 512 bytes.
//
// Thread: the owner's only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

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
  // A hash of all that makes the block's bytes what they are: scope, lane group, and the tokens of
  // the whole prefix, its own included. s3fifo knows by it what returns, in any queue of the cache.
  std::uint64_t content = 0;
  std::uint32_t depth_tokens = 0;  // tokens before the block: what a miss recomputes attends to
};

// What the queues of one cache share: one record per block, and s3fifo's memory of what left last,
// for as many departures as there are blocks.
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

  // The block became idle. Precondition: not idle; in no other queue; the traits are those of the
  // last time unless the block was dropped since.
  virtual void OnIdle(BlockId block, const BlockTraits& traits) = 0;
  // An idle block of this queue is read again: no victim until OnIdle. Counts as a hit.
  virtual void OnUse(BlockId block) = 0;
  // The block leaves this queue for good, idle or in use: it was replaced, invalidated or handed to
  // another queue. Precondition: known to this queue (OnIdle was called since the last OnDrop).
  // Handed to another queue in use, the block is new to that one when it becomes idle.
  virtual void OnDrop(BlockId block) = 0;
  // The block has children from now on; it has none any more. For blocks in any state, also ones
  // that no queue knows (then any queue may be told): the record outlives OnDrop until the children
  // are gone. Precondition: known to no other queue; the two calls alternate.
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

// `records` must outlive the queue. Blocks the queue still knows when it is destroyed can enter no
// other: drop them first, unless the records end as well.
std::unique_ptr<ReplacementQueue> MakeReplacementQueue(ReplacementKind kind,
                                                       ReplacementRecords& records);

}  // namespace ashlar::kv
