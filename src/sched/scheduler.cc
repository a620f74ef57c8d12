#include "sched/scheduler.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace ashlar::sched {

Status Validate(const SchedulerLimits& limits) {
  const auto bad = [](std::string_view name, std::int64_t value, std::string_view right) {
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
  if (limits.itl_target_ns < 0) return bad("itl-target-ns", limits.itl_target_ns, "0 or more");
  return {};
}

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits) {
  ASHLAR_CHECK(Validate(limits).ok(), "scheduler limits");
  running_.reserve(limits.max_running);
  decodes_.reserve(limits.max_running);
  plan_.items.reserve(limits.max_running);
  plan_.admitted.reserve(limits.max_running);
  plan_.preempted.reserve(limits.max_running);
}

void Scheduler::Add(const SequenceSpec& spec) {
  ASHLAR_CHECK(spec.tokens > 0, "sequence {} has no tokens", spec.id.value());
  const auto [it, is_new] = sequences_.try_emplace(spec.id);
  ASHLAR_CHECK(is_new, "sequence {} is there already", spec.id.value());
  Sequence& sequence = it->second;
  sequence.id = spec.id;
  sequence.order = {.priority = spec.priority, .arrival = arrivals_++};
  sequence.tenant = &shares_.Join(spec.tenant, spec.weight);
  sequence.known = spec.tokens;
  line_.Add(sequence);
}

bool Scheduler::Remove(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return false;
  Sequence& sequence = it->second;
  if (sequence.place == Sequence::Place::kRunning) {
    StopRunning(sequence);
  } else {
    line_.Remove(sequence);
  }
  shares_.Leave(*sequence.tenant);
  sequences_.erase(it);
  return true;
}

// Its memory comes back; what it was going to compute, somebody who waits for that may have to.
void Scheduler::StopRunning(Sequence& sequence) {
  std::erase(running_, &sequence);
  ++epoch_;
  if (!sequence.is_decoding) line_.WakeAll();
}

const StepPlan& Scheduler::Plan(Memory& memory) {
  ++step_;
  plan_.admitted.clear();
  plan_.preempted.clear();
  plan_.preempted_for_urgent = 0;
  plan_.items.clear();
  plan_.tokens = 0;
  plan_.decode_tokens = 0;
  plan_.attended_pairs = 0;
  plan_.stuck.reset();
  if (running_.empty()) line_.WakeAll();
  line_.Wake(computed_tokens_);
  PlanDecodes(memory);
  PlanPrefills(memory);
  return plan_;
}

// --- Decodes ---

void Scheduler::PlanDecodes(Memory& memory) {
  decodes_.clear();
  for (Sequence* const sequence : running_) {
    if (sequence->is_decoding && sequence->known > sequence->computed) decodes_.push_back(sequence);
  }
  // Room is made for all before any is planned: a later one may take the memory of an earlier one.
  std::uint64_t spare = limits_.max_step_tokens - decodes_.size();
  const auto tokens_of = [](const Sequence& sequence, std::uint64_t more) {
    return static_cast<std::uint32_t>(std::min(sequence.known - sequence.computed, 1 + more));
  };
  for (Sequence* const sequence : decodes_) {
    if (sequence->place != Sequence::Place::kRunning) continue;
    const std::uint32_t tokens = tokens_of(*sequence, spare);
    if (MakeRoom(*sequence, tokens, memory)) spare -= tokens - 1;
  }
  spare = limits_.max_step_tokens - decodes_.size();
  for (Sequence* const sequence : decodes_) {
    if (sequence->place != Sequence::Place::kRunning) continue;
    const std::uint32_t tokens = tokens_of(*sequence, spare);
    spare -= tokens - 1;
    PlanItem(*sequence, tokens);
  }
  plan_.decode_tokens = plan_.tokens;
}

// --- Prefills ---

void Scheduler::PlanPrefills(Memory& memory) {
  const bool is_bounded = limits_.itl_target_ns > 0 && plan_.decode_tokens > 0;
  prefill_left_ns_ = is_bounded ? static_cast<double>(limits_.itl_target_ns) -
                                      cost_.PredictNs(plan_.tokens, plan_.attended_pairs)
                                : std::numeric_limits<double>::infinity();
  floor_left_ = kPrefillFloor;
  // Memory that decodes have just taken from somebody is not given to somebody else.
  bool may_admit = plan_.preempted.empty();
  std::uint32_t parked = 0;
  while (PrefillRoom(0) > 0) {
    Sequence* const waiting = may_admit ? line_.Peek() : nullptr;
    Sequence* const running = NextPrefill();
    const auto rank = [](const Sequence& sequence) {
      return std::tuple(sequence.order.priority, sequence.tenant->used);
    };
    if (waiting != nullptr && (running == nullptr || rank(*waiting) < rank(*running))) {
      const Try result = TryAdmit(*waiting, memory);
      if (result == Try::kParked) ++parked;
      may_admit = result != Try::kRefused && parked < kMaxParkedPerStep;
    } else if (running != nullptr) {
      PlanPrefill(*running, memory);
    } else {
      return;
    }
  }
}

Sequence* Scheduler::NextPrefill() const {
  Sequence* best = nullptr;
  for (Sequence* const sequence : running_) {
    if (sequence->is_decoding || sequence->planned_step == step_) continue;
    if (sequence->known == sequence->computed) continue;
    if (best != nullptr && best->order.priority < sequence->order.priority) break;
    if (best == nullptr || sequence->tenant->used < best->tenant->used) best = sequence;
  }
  return best;
}

// Tokens that a prefill at this position may add to the step.
std::uint32_t Scheduler::PrefillRoom(std::uint64_t position) const {
  const std::uint32_t budget =
      std::min(limits_.prefill_chunk, limits_.max_step_tokens - plan_.tokens);
  if (prefill_left_ns_ == std::numeric_limits<double>::infinity()) return budget;
  return std::min(budget,
                  std::max(floor_left_, cost_.TokensWithin(prefill_left_ns_, position, budget)));
}

void Scheduler::PlanPrefill(Sequence& sequence, Memory& memory) {
  sequence.planned_step = step_;
  const std::uint64_t position = sequence.computed;
  const auto tokens = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(sequence.known - position, PrefillRoom(position)));
  if (tokens == 0) prefill_left_ns_ = 0;  // not enough for one here: enough for this step
  if (tokens == 0 || !MakeRoom(sequence, tokens, memory)) return;
  const std::uint64_t pairs = AttendedPairs(position, tokens);
  prefill_left_ns_ -= cost_.PredictNs(tokens, pairs) - cost_.fixed_ns;
  floor_left_ -= std::min(floor_left_, tokens);
  PlanItem(sequence, tokens);
}

void Scheduler::PlanItem(Sequence& sequence, std::uint32_t tokens) {
  plan_.items.push_back({.id = sequence.id,
                         .position = sequence.computed,
                         .tokens = tokens,
                         .is_decode = sequence.is_decoding,
                         .reaches_end = sequence.computed + tokens == sequence.known});
  plan_.tokens += tokens;
  plan_.attended_pairs += AttendedPairs(sequence.computed, tokens);
  FairShare::Charge(*sequence.tenant, tokens);
}

void Scheduler::Unplan(const Sequence& sequence) {
  const auto item = std::ranges::find(plan_.items, sequence.id, &StepItem::id);
  if (item == plan_.items.end()) return;
  plan_.tokens -= item->tokens;
  if (item->is_decode) plan_.decode_tokens -= item->tokens;
  plan_.attended_pairs -= AttendedPairs(item->position, item->tokens);
  FairShare::Refund(*sequence.tenant, item->tokens);
  plan_.items.erase(item);
}

// --- Admission ---

Scheduler::Try Scheduler::TryAdmit(Sequence& next, Memory& memory) {
  // Who gave way in this step does not come back in it.
  if (next.preempted_step == step_ || !MayAskAbout(next)) return Try::kRefused;
  if (running_.size() == limits_.max_running && !PreemptLessUrgent(next, memory)) {
    return Try::kRefused;
  }
  Sequence& sequence = line_.Choose(next, memory);
  const bool waits = sequence.patience_end == 0 || computed_tokens_ < sequence.patience_end;
  const auto admit = [&] {
    return waits ? memory.Admit(sequence.id) : memory.AdmitAtOnce(sequence.id);
  };
  Admission admission = admit();
  while (admission.answer == Admission::Answer::kNoMemory && PreemptLessUrgent(sequence, memory)) {
    admission = admit();
  }
  switch (admission.answer) {
    case Admission::Answer::kAdmitted:
      StartRunning(sequence, admission.cached_tokens);
      return Try::kAdmitted;
    case Admission::Answer::kWait:
      ASHLAR_CHECK(waits && !running_.empty(), "sequence {} waits for a prefix, and nothing runs",
                   sequence.id.value());
      if (sequence.patience_end == 0) {
        sequence.patience_end =
            computed_tokens_ + kPatience * (admission.pending_tokens + limits_.max_step_tokens);
      }
      line_.Park(sequence, computed_tokens_ + admission.pending_tokens);
      return Try::kParked;
    case Admission::Answer::kNoMemory:
      break;
  }
  line_.Refuse(sequence);
  sequence.refused_step = step_;
  sequence.refused_epoch = epoch_;
  if (running_.empty()) plan_.stuck = sequence.id;
  return Try::kRefused;
}

// Not while nothing has changed since memory was refused.
bool Scheduler::MayAskAbout(const Sequence& sequence) const {
  return sequence.refused_epoch != epoch_ || step_ - sequence.refused_step >= kAskAgainSteps ||
         running_.empty();
}

void Scheduler::StartRunning(Sequence& sequence, std::uint64_t cached_tokens) {
  ASHLAR_CHECK(cached_tokens < sequence.known, "sequence {} has nothing left to compute",
               sequence.id.value());
  line_.Remove(sequence);
  plan_.admitted.push_back(
      {.id = sequence.id, .cached_tokens = cached_tokens, .is_resumed = sequence.is_preempted});
  sequence.place = Sequence::Place::kRunning;
  sequence.computed = cached_tokens;
  sequence.known_at_resume = sequence.is_preempted ? sequence.known : 0;
  sequence.is_preempted = sequence.is_ahead = false;
  sequence.patience_end = 0;
  const auto behind = [](const Sequence* a, const Sequence* b) { return a->order < b->order; };
  running_.insert(std::ranges::upper_bound(running_, &sequence, behind), &sequence);
}

// --- Preemption ---

// False when the sequence itself had to give way.
bool Scheduler::MakeRoom(Sequence& sequence, std::uint32_t tokens, Memory& memory) {
  while (!memory.Grow(sequence.id, tokens)) {
    Sequence* victim = FindVictim(sequence.order.priority, running_.front(), memory);
    if (victim == nullptr) victim = &sequence;
    Preempt(*victim, memory);
    if (victim == &sequence) return false;
  }
  return true;
}

Sequence* Scheduler::FindVictim(std::int64_t priority, const Sequence* spared,
                                const Memory& memory) const {
  Sequence* victim = nullptr;
  std::uint64_t victim_stake = 0;
  for (Sequence* const sequence : running_) {  // older ones first
    if (sequence->order.priority < priority || sequence == spared) continue;
    const std::uint64_t stake = memory.TokensAtStake(sequence->id);
    if (victim != nullptr && victim->order.priority == sequence->order.priority) {
      if (victim->is_fresh() < sequence->is_fresh()) continue;
      if (victim->is_fresh() == sequence->is_fresh() && victim_stake < stake) continue;
    }
    victim = sequence;
    victim_stake = stake;
  }
  return victim;
}

bool Scheduler::PreemptLessUrgent(const Sequence& than, Memory& memory) {
  const std::int64_t priority = std::int64_t{than.order.priority} + 1;
  if (running_.empty()) return false;
  Sequence* victim = FindVictim(priority, running_.front(), memory);
  if (victim == nullptr) victim = FindVictim(priority, /*spared=*/nullptr, memory);
  if (victim == nullptr) return false;
  Preempt(*victim, memory);
  ++plan_.preempted_for_urgent;
  return true;
}

void Scheduler::Preempt(Sequence& sequence, Memory& memory) {
  memory.Preempt(sequence.id);
  Unplan(sequence);
  sequence.known -= sequence.guesses;
  sequence.preempted_step = step_;
  WaitAgain(sequence);
  plan_.preempted.push_back(sequence.id);
}

void Scheduler::WaitAgain(Sequence& sequence) {
  StopRunning(sequence);
  sequence.guesses = 0;
  sequence.computed = 0;
  sequence.is_decoding = false;
  sequence.is_preempted = true;
  sequence.passed = 0;
  line_.Add(sequence);
}

// --- After the step ---

void Scheduler::Commit() {
  computed_tokens_ += plan_.tokens;
  for (const StepItem& item : plan_.items) {
    const auto it = sequences_.find(item.id);
    if (it == sequences_.end()) continue;
    it->second.computed += item.tokens;
    it->second.is_decoding = it->second.is_decoding || item.reaches_end;
  }
}

Sequence& Scheduler::RunningOf(SequenceId id) {
  const auto it = sequences_.find(id);
  ASHLAR_CHECK(it != sequences_.end() && it->second.place == Sequence::Place::kRunning,
               "sequence {} does not run", id.value());
  return it->second;
}

void Scheduler::Append(SequenceId id, std::uint32_t guesses) {
  Sequence& sequence = RunningOf(id);
  ASHLAR_CHECK(sequence.is_decoding && sequence.known == sequence.computed,
               "sequence {} cannot be extended now", id.value());
  sequence.known += 1 + guesses;
  sequence.guesses = guesses;
}

void Scheduler::Forget(SequenceId id, std::uint32_t guesses) {
  Sequence& sequence = RunningOf(id);
  ASHLAR_CHECK(guesses <= sequence.guesses && sequence.known == sequence.computed,
               "sequence {} has {} guesses; it cannot forget {}", id.value(), sequence.guesses,
               guesses);
  sequence.known -= guesses;
  sequence.computed -= guesses;
  sequence.guesses = 0;
}

void Scheduler::Restart(SequenceId id, std::uint64_t tokens) {
  ASHLAR_CHECK(tokens > 0, "sequence {} has no tokens", id.value());
  Sequence& sequence = RunningOf(id);
  sequence.known = tokens;
  WaitAgain(sequence);
}

void Scheduler::CheckInvariants() const {
  ASHLAR_CHECK(running_.size() <= limits_.max_running &&
                   std::ranges::is_sorted(running_, {},
                                          [](const Sequence* sequence) { return sequence->order; }),
               "{} running ones, or not in order", running_.size());
  std::size_t running = 0;
  for (const auto& [id, sequence] : sequences_) {
    const bool is_running = sequence.place == Sequence::Place::kRunning;
    running += is_running ? 1 : 0;
    ASHLAR_CHECK(is_running ? sequence.computed <= sequence.known && !sequence.is_ahead
                            : sequence.computed == 0 && !sequence.is_decoding,
                 "sequence {} has {} of {} tokens", id.value(), sequence.computed, sequence.known);
  }
  ASHLAR_CHECK(running == running_.size() && running + line_.size() == sequences_.size(),
               "{} sequences, {} run, {} wait", sequences_.size(), running, line_.size());
}

}  // namespace ashlar::sched
