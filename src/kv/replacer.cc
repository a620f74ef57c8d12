#include "kv/replacer.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace ashlar::kv {

Replacer::Replacer(ReplacementKind kind, std::uint32_t max_blocks, std::uint32_t groups)
    : kind_(kind),
      groups_(groups),
      records_(MakeReplacementRecords(max_blocks)),
      entries_(max_blocks),
      wheel_(kWheelSlots, kNil) {
  (void)QueueFor({});
}

std::uint32_t Replacer::QueueFor(const IdleBlock& idle) {
  // kSharedAccount, the last number, comes first.
  const std::size_t account = static_cast<std::uint16_t>(idle.account.value() + 1);
  const std::size_t level = account * kRetentionLevels + idle.level;
  const std::size_t owner = (level * 2 + (idle.is_stale ? 1 : 0)) * groups_ + idle.group;
  if (owner >= by_owner_.size()) by_owner_.resize(owner + 1, kNil);
  if (by_owner_[owner] == kNil) {
    // A queue that went stale and has run empty serves again.
    const auto unused = std::ranges::find_if(
        queues_, [](const Queue& queue) { return queue.is_orphan && queue.known == 0; });
    by_owner_[owner] = static_cast<std::uint32_t>(unused - queues_.begin());
    if (unused == queues_.end()) queues_.emplace_back();
    queues_[by_owner_[owner]] = {.order = MakeReplacementQueue(kind_, *records_),
                                 .account = idle.account,
                                 .group = idle.group,
                                 .level = idle.level,
                                 .is_stale = idle.is_stale};
  }
  return by_owner_[owner];
}

void Replacer::Move(BlockId block, std::uint32_t queue) {
  Entry& entry = entries_[block.value()];
  if (entry.queue == queue) return;
  if (entry.queue != kNil) {
    queues_[entry.queue].order->OnDrop(block);
    --queues_[entry.queue].known;
  }
  entry.queue = queue;
  if (queue != kNil) ++queues_[queue].known;
}

// The children of a block are kept in the records, whichever queue is told of them.
ReplacementQueue& Replacer::QueueOf(BlockId block) {
  const std::uint32_t queue = entries_[block.value()].queue;
  return *queues_[queue == kNil ? 0 : queue].order;
}

void Replacer::OnIdle(BlockId block, const IdleBlock& idle) {
  Entry& entry = entries_[block.value()];
  Move(block, QueueFor(idle));
  entry.since = ++calls_;
  entry.is_idle = true;
  entry.content = idle.traits.content;
  entry.depth_tokens = idle.traits.depth_tokens;
  ++idle_;
  QueueOf(block).OnIdle(block, idle.traits);
  if (idle.deadline_ns != 0) SetTimer(block, idle.deadline_ns);
}

void Replacer::OnUse(BlockId block) {
  Entry& entry = entries_[block.value()];
  ClearTimer(block);
  entry.is_idle = false;
  --idle_;
  QueueOf(block).OnUse(block);
}

void Replacer::OnDrop(BlockId block) {
  Entry& entry = entries_[block.value()];
  if (entry.queue == kNil) return;
  ClearTimer(block);
  if (entry.is_idle) --idle_;
  entry.is_idle = false;
  Move(block, kNil);
}

void Replacer::OnFirstChild(BlockId block) { QueueOf(block).OnFirstChild(block); }

void Replacer::OnLastChildGone(BlockId block) { QueueOf(block).OnLastChildGone(block); }

std::optional<Replacer::Victim> Replacer::FindVictim(std::optional<std::uint32_t> group,
                                                     MayLose may_lose) {
  std::optional<Victim> best;
  std::tuple<bool, std::uint8_t, std::uint64_t> best_rank;
  for (Queue& queue : queues_) {
    if (queue.order->idle_blocks() == 0) continue;
    if (group && queue.group != *group) continue;
    if (!queue.is_stale && !may_lose(queue.account)) continue;
    const std::optional<BlockId> victim = queue.order->Victim();
    if (!victim) continue;
    const std::tuple rank(!queue.is_stale, queue.level, entries_[victim->value()].since);
    if (!best || rank < best_rank) {
      best = Victim{.block = *victim, .group = queue.group};
      best_rank = rank;
    }
  }
  return best;
}

void Replacer::MarkAllStale() {
  for (std::uint32_t& queue : by_owner_) {
    // An empty queue has nothing to mark.
    if (queue == kNil || queues_[queue].known == 0) continue;
    queues_[queue].is_stale = queues_[queue].is_orphan = true;
    queue = kNil;
  }
}

std::size_t Replacer::stale_queues() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      queues_, [](const Queue& queue) { return queue.is_orphan && queue.known > 0; }));
}

void Replacer::SetTimer(BlockId block, std::int64_t deadline_ns) {
  ClearTimer(block);
  Entry& entry = entries_[block.value()];
  entry.deadline_ns = deadline_ns;
  // At the next tick at the earliest, so that Advance never meets what it is putting in.
  const std::int64_t tick = std::max(deadline_ns / kWheelTickNs + 1, wheel_tick_ + 1);
  entry.timer_slot = static_cast<std::uint32_t>(tick % kWheelSlots);
  std::uint32_t& head = wheel_[entry.timer_slot];
  entry.timer_prev = kNil;
  entry.timer_next = head;
  if (head != kNil) entries_[head].timer_prev = block.value();
  head = block.value();
  ++timers_;
}

void Replacer::ClearTimer(BlockId block) {
  Entry& entry = entries_[block.value()];
  if (entry.timer_slot == kNil) return;
  if (entry.timer_next != kNil) entries_[entry.timer_next].timer_prev = entry.timer_prev;
  if (entry.timer_prev != kNil) {
    entries_[entry.timer_prev].timer_next = entry.timer_next;
  } else {
    wheel_[entry.timer_slot] = entry.timer_next;
  }
  entry.timer_slot = kNil;
  --timers_;
}

void Replacer::Advance(std::int64_t now_ns) {
  const std::int64_t tick = now_ns / kWheelTickNs;
  if (timers_ == 0) wheel_tick_ = std::max(wheel_tick_, tick);
  // After a long pause one turn visits every slot.
  wheel_tick_ = std::max(wheel_tick_, tick - kWheelSlots);
  while (wheel_tick_ < tick) {
    ++wheel_tick_;
    for (std::uint32_t id = wheel_[wheel_tick_ % kWheelSlots]; id != kNil;) {
      const std::uint32_t next = entries_[id].timer_next;
      if (entries_[id].deadline_ns <= now_ns) Expire(BlockId(id));
      id = next;
    }
  }
}

// From now on it counts as default. Between queues it counts as idle for as long as it was; in the
// default queue it takes its place behind those that became idle before now.
void Replacer::Expire(BlockId block) {
  Entry& entry = entries_[block.value()];
  ClearTimer(block);
  const Queue& from = queues_[entry.queue];
  if (from.level == kDefaultRetentionLevel || from.is_stale) return;
  const IdleBlock idle = {.account = from.account,
                          .group = from.group,
                          .traits = {.content = entry.content, .depth_tokens = entry.depth_tokens}};
  Move(block, QueueFor(idle));
  QueueOf(block).OnIdle(block, idle.traits);
}

void Replacer::CheckInvariants() const {
  std::uint64_t idle = 0;
  for (const Queue& queue : queues_) {
    queue.order->CheckInvariants();
    idle += queue.order->idle_blocks();
  }
  const auto marked = static_cast<std::uint64_t>(
      std::ranges::count_if(entries_, [](const Entry& entry) { return entry.is_idle; }));
  const auto timed = static_cast<std::uint64_t>(
      std::ranges::count_if(entries_, [](const Entry& entry) { return entry.timer_slot != kNil; }));
  ASHLAR_CHECK(idle == idle_ && marked == idle_, "{} idle, {} queued, {} marked", idle_, idle,
               marked);
  ASHLAR_CHECK(timed == timers_, "{} deadlines, {} counted", timers_, timed);
}

}  // namespace ashlar::kv
