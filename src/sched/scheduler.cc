#include "sched/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::sched {

Status Validate(const SchedulerLimits& limits) {
  const auto bad = [](std::string_view name, std::uint64_t value, std::string_view right) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is {}; it must be {}", name, value, right);
  };
  constexpr std::uint32_t kMaxStepTokens = 64u << 10;
  if (limits.max_step_tokens < 1 || limits.max_step_tokens > kMaxStepTokens) {
    return bad("max-step-tokens", limits.max_step_tokens, "1 to 65536");
  }
  if (limits.prefill_chunk < 1 || limits.prefill_chunk > kMaxStepTokens) {
    return bad("prefill-chunk", limits.prefill_chunk, "1 to 65536");
  }
  if (limits.max_running < 1 || limits.max_running > limits.max_step_tokens) {
    return bad(
        "max-sequences", limits.max_running,
        fmt::format("1 to max-step-tokens ({}), so that every running sequence gets a token in "
                    "every step",
                    limits.max_step_tokens));
  }
  return {};
}

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits) {
  ASHLAR_CHECK(Validate(limits).ok(), "scheduler limits");
  running_.reserve(limits.max_running);
  plan_.items.reserve(limits.max_running);
  plan_.admitted.reserve(limits.max_running);
}

void Scheduler::Add(const SequenceSpec& spec) {
  ASHLAR_CHECK(spec.tokens > 0, "sequence {} has no tokens", spec.id.value());
  waiting_.push_back(spec);
}

bool Scheduler::Remove(SequenceId id) {
  const auto is_it = [id](const auto& sequence) { return sequence.id == id; };
  return std::erase_if(running_, is_it) + std::erase_if(waiting_, is_it) > 0;
}

const StepPlan& Scheduler::Plan(Admitter admit) {
  plan_.admitted.clear();
  plan_.items.clear();
  plan_.tokens = 0;
  for (const Running& sequence : running_) {
    if (sequence.known - sequence.computed == 1) PlanItem(sequence, 1);
  }
  for (const Running& sequence : running_) {
    if (sequence.known - sequence.computed > 1) PlanItem(sequence, limits_.prefill_chunk);
  }
  AdmitWaiting(admit);
  return plan_;
}

void Scheduler::AdmitWaiting(Admitter admit) {
  std::size_t waiters = 0;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (running_.size() == limits_.max_running || plan_.tokens == limits_.max_step_tokens) return;
    const Admission admission = admit(it->id);
    if (admission.answer == Admission::Answer::kNoMemory) return;
    if (admission.answer == Admission::Answer::kWait) {
      if (++waiters == kMaxPrefixWaiters) return;
      ++it;
      continue;
    }
    ASHLAR_CHECK(admission.cached_tokens < it->tokens, "sequence {} has nothing left to compute",
                 it->id.value());
    plan_.admitted.push_back(it->id);
    running_.push_back({.id = it->id, .known = it->tokens, .computed = admission.cached_tokens});
    it = waiting_.erase(it);
    PlanItem(running_.back(), limits_.prefill_chunk);
  }
}

void Scheduler::PlanItem(const Running& sequence, std::uint32_t limit) {
  const std::uint64_t rest = sequence.known - sequence.computed;
  const std::uint32_t budget = std::min(limit, limits_.max_step_tokens - plan_.tokens);
  const auto tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(rest, budget));
  if (tokens == 0) return;
  plan_.items.push_back({.id = sequence.id,
                         .position = sequence.computed,
                         .tokens = tokens,
                         .reaches_end = tokens == rest});
  plan_.tokens += tokens;
}

void Scheduler::Commit() {
  for (const StepItem& item : plan_.items) {
    if (Running* const sequence = Find(item.id)) sequence->computed += item.tokens;
  }
}

void Scheduler::Append(SequenceId id) {
  Running* const sequence = Find(id);
  ASHLAR_CHECK(sequence != nullptr && sequence->known == sequence->computed,
               "sequence {} cannot be extended now", id.value());
  ++sequence->known;
}

Scheduler::Running* Scheduler::Find(SequenceId id) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [id](const Running& sequence) { return sequence.id == id; });
  return it == running_.end() ? nullptr : &*it;
}

}  // namespace ashlar::sched
