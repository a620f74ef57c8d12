// All sequences that wait for admission, and which of them goes next.
//
//   by priority; of one priority
//     1. those ahead of the line, the oldest first: the preempted, who have work to lose, and
//        whoever memory was refused, so that it comes together for them;
//     2. the oldest of the tenant that has been served least (fair_share.h). Of its kMaxWindow
//        oldest, one whose prompt is mostly cached may go first, before it is replaced; the same
//        one is passed kMaxPassed times at the most.
//
// Whoever waits for a prefix that another one computes is parked beside the line until it may have
// been computed, or its computing sequence has gone: it is not looked up again meanwhile.
//
// Cost: O(log waiting) for what changes it; Peek is O(tenants that wait).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sched/fair_share.h"
#include "sched/memory.h"
#include "sched/sequence.h"

namespace ashlar::sched {

class WaitingLine {
 public:
  static constexpr std::size_t kMaxWindow = 8;
  static constexpr std::uint32_t kMaxPassed = 8;

  // Puts a new or a preempted one in. Precondition: it is neither here nor running.
  void Add(Sequence& sequence);
  // Takes out a waiting or parked one.
  void Remove(Sequence& sequence);

  // Who goes next, but for the window; null when nobody does.
  Sequence* Peek() const;
  // The same with the window: of the same priority and tenant. Asks the memory what is cached.
  Sequence& Choose(Sequence& next, Memory& memory);
  // There was no memory for a waiting one: from now on it is ahead of the line.
  void Refuse(Sequence& sequence);

  // Precondition: waiting.
  void Park(Sequence& sequence, std::uint64_t wake_at);
  // Of the parked ones, those whose time has come go back to their places. O(1) when it has for
  // none.
  void Wake(std::uint64_t computed_tokens);
  void WakeAll();

  std::size_t size() const { return size_; }  // parked ones included

 private:
  void Enter(Sequence& sequence);
  void Leave(Sequence& sequence);

  std::map<Order, Sequence*> ahead_;
  std::vector<Tenant*> tenants_;  // that have sequences waiting, not ahead
  std::vector<Sequence*> parked_;
  std::uint64_t next_wake_ = ~std::uint64_t{0};  // at or before the earliest of parked_
  std::size_t size_ = 0;
};

}  // namespace ashlar::sched
