#include "sched/waiting_line.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::sched {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

bool IsMostlyCached(const Sequence& sequence, Memory& memory) {
  return memory.CachedTokens(sequence.id) >= sequence.known - sequence.known / 2;
}

}  // namespace

void WaitingLine::Add(Sequence& sequence) {
  ++size_;
  sequence.is_ahead = sequence.is_preempted;
  Enter(sequence);
}

void WaitingLine::Remove(Sequence& sequence) {
  --size_;
  if (sequence.place == Sequence::Place::kParked) {
    std::erase(parked_, &sequence);
  } else {
    Leave(sequence);
  }
}

void WaitingLine::Enter(Sequence& sequence) {
  sequence.place = Sequence::Place::kWaiting;
  if (sequence.is_ahead) {
    ahead_.emplace(sequence.order, &sequence);
    return;
  }
  Tenant& tenant = *sequence.tenant;
  if (tenant.waiting.empty()) tenants_.push_back(&tenant);
  tenant.waiting.emplace(sequence.order, &sequence);
}

void WaitingLine::Leave(Sequence& sequence) {
  Tenant& tenant = *sequence.tenant;
  std::map<Order, Sequence*>& line = sequence.is_ahead ? ahead_ : tenant.waiting;
  const bool was_there = line.erase(sequence.order) == 1;
  ASHLAR_CHECK(was_there, "sequence {} does not wait", sequence.id.value());
  if (!sequence.is_ahead && line.empty()) std::erase(tenants_, &tenant);
}

void WaitingLine::Refuse(Sequence& sequence) {
  if (sequence.is_ahead) return;
  Leave(sequence);
  sequence.is_ahead = true;
  Enter(sequence);
}

Sequence* WaitingLine::Peek() const {
  Sequence* best = ahead_.empty() ? nullptr : ahead_.begin()->second;
  for (const Tenant* const tenant : tenants_) {
    Sequence& first = *tenant->waiting.begin()->second;
    if (best == nullptr || first.order.priority < best->order.priority) {
      best = &first;
    } else if (!best->is_ahead && first.order.priority == best->order.priority) {
      const std::uint64_t used = best->tenant->used;
      if (tenant->used < used || (tenant->used == used && first.order < best->order)) best = &first;
    }
  }
  return best;
}

Sequence& WaitingLine::Choose(Sequence& next, Memory& memory) {
  const std::map<Order, Sequence*>& line = next.tenant->waiting;
  if (next.is_ahead || line.size() == 1 || next.passed == kMaxPassed ||
      IsMostlyCached(next, memory)) {
    return next;
  }
  std::size_t seen = 1;
  for (auto it = std::next(line.begin()); it != line.end() && seen < kMaxWindow; ++it, ++seen) {
    if (it->first.priority != next.order.priority) break;
    if (!IsMostlyCached(*it->second, memory)) continue;
    ++next.passed;
    return *it->second;
  }
  return next;
}

void WaitingLine::Park(Sequence& sequence, std::uint64_t wake_at) {
  Leave(sequence);
  sequence.place = Sequence::Place::kParked;
  sequence.wake_at = wake_at;
  parked_.push_back(&sequence);
  next_wake_ = std::min(next_wake_, wake_at);
}

void WaitingLine::Wake(std::uint64_t computed_tokens) {
  if (next_wake_ > computed_tokens) return;
  next_wake_ = kNever;
  std::erase_if(parked_, [&](Sequence* sequence) {
    if (sequence->wake_at > computed_tokens) {
      next_wake_ = std::min(next_wake_, sequence->wake_at);
      return false;
    }
    Enter(*sequence);
    return true;
  });
}

void WaitingLine::WakeAll() { Wake(kNever); }

}  // namespace ashlar::sched
