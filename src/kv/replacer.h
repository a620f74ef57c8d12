// Chooses the block that is replaced, over all owners: joins one replacement queue per account,
// retention level and lane group.
//
// The order between queues, first to leave:
//   1. what can never be found again (MarkAllStale);
//   2. the lowest retention level;
//   3. the block that has been idle longest.
// Within a queue its policy decides. Which accounts may lose blocks is the caller's rule.
//
// Retention. A level from 0 (leaves first) to 7 (leaves last); a level above or below the default
// may end at a deadline, after which the block counts as default. Deadlines sit in a timing wheel:
// O(1) to set and to clear; Advance costs what expires, and looks at each waiting deadline once per
// turn of the wheel.
//
// Cost: O(1) per call, plus O(queues) per Victim; queues exist once something was put in them.
//
// Thread: the owner's only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "kv/ids.h"
#include "kv/replacement.h"

namespace ashlar::kv {

inline constexpr std::uint8_t kRetentionLevels = 8;
inline constexpr std::uint8_t kDefaultRetentionLevel = 3;

struct IdleBlock {
  AccountId account;
  std::uint32_t group = 0;
  std::uint8_t level = kDefaultRetentionLevel;
  std::int64_t deadline_ns = 0;  // when the level ends; 0: never
  bool is_stale = false;         // can never be found again
  BlockTraits traits;
};

class Replacer {
 public:
  Replacer(ReplacementKind kind, std::uint32_t max_blocks, std::uint32_t groups);

  void OnIdle(BlockId block, const IdleBlock& idle);
  void OnUse(BlockId block);
  // Forgets the block. No effect when it is not known.
  void OnDrop(BlockId block);
  void OnFirstChild(BlockId block);
  void OnLastChildGone(BlockId block);

  // Levels whose deadlines have passed end. Times never decrease.
  void Advance(std::int64_t now_ns);

  // All blocks known now are replaced before any that comes later.
  void MarkAllStale();
  // Queues that still hold what was known then.
  std::size_t stale_queues() const;

  struct Victim {
    BlockId block = kNoBlock;
    std::uint32_t group = 0;
  };
  using MayLose = FunctionRef<bool(AccountId)>;
  // The next block to leave of the accounts that `may_lose`, of one group or of any. Not removed:
  // OnDrop does that. nullopt when there is none.
  std::optional<Victim> FindVictim(std::optional<std::uint32_t> group, MayLose may_lose);

  std::uint64_t idle_blocks() const { return idle_; }
  void CheckInvariants() const;

 private:
  static constexpr std::uint32_t kNil = 0xFFFFFFFF;
  static constexpr std::uint32_t kWheelSlots = 1024;
  static constexpr std::int64_t kWheelTickNs = 100'000'000;

  struct Queue {
    std::unique_ptr<ReplacementQueue> order;
    AccountId account;
    std::uint32_t group = 0;
    std::uint8_t level = 0;
    bool is_stale = false;
    bool is_orphan = false;   // takes no new blocks
    std::uint64_t known = 0;  // blocks, idle or in use
  };
  struct Entry {
    std::uint64_t since = 0;     // when it became idle last, in calls
    std::uint32_t queue = kNil;  // that knows it
    std::uint32_t timer_prev = kNil, timer_next = kNil;
    std::uint32_t timer_slot = kNil;  // kNil: no deadline
    std::uint32_t depth_tokens = 0;
    bool is_idle = false;
    std::int64_t deadline_ns = 0;
    std::uint64_t content = 0;
  };

  std::uint32_t QueueFor(const IdleBlock& idle);
  void Move(BlockId block, std::uint32_t queue);
  ReplacementQueue& QueueOf(BlockId block);
  void SetTimer(BlockId block, std::int64_t deadline_ns);
  void ClearTimer(BlockId block);
  void Expire(BlockId block);

  ReplacementKind kind_;
  std::uint32_t groups_;
  ReplacementRecordsPtr records_;
  std::vector<Queue> queues_;
  std::vector<std::uint32_t> by_owner_;  // [account, level, stale, group] -> queue; grows on demand
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> wheel_;
  std::int64_t wheel_tick_ = 0;
  std::uint64_t timers_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t idle_ = 0;
};

}  // namespace ashlar::kv
