#include "sched/testing/plan_checker.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace ashlar::sched::testing {

void PlanChecker::OnSubmit(const ScenarioRequest& request) {
  sequences_[request.id] = {.request = &request,
                            .order = {.priority = request.priority, .arrival = arrivals_++},
                            .known = request.prompt.size()};
}

void PlanChecker::OnPlan(const StepPlan& plan) {
  plans.push_back(plan);
  ASHLAR_CHECK(!plan.stuck, "sequence {} is stuck", plan.stuck->value());
  ASHLAR_CHECK(!plan.items.empty(), "a step without progress");
  const Sequence* const first = FirstRunning();
  CheckAdmitted(plan);
  CheckPreempted(plan, first);
  CheckItems(plan);
  CheckDelay(plan);
  EndStep(plan);
}

const PlanChecker::Sequence* PlanChecker::FirstRunning() const {
  const Sequence* first = nullptr;
  for (const auto& [id, sequence] : sequences_) {
    if (!sequence.is_running) continue;
    if (first == nullptr || sequence.order < first->order) first = &sequence;
  }
  return first;
}

void PlanChecker::CheckAdmitted(const StepPlan& plan) {
  for (const AdmittedSequence& admitted : plan.admitted) {
    Sequence& sequence = sequences_.at(admitted.id);
    ASHLAR_CHECK(!sequence.is_running && admitted.is_resumed == sequence.was_preempted &&
                     admitted.cached_tokens < sequence.known,
                 "sequence {} admitted with {} of {} tokens", admitted.id.value(),
                 admitted.cached_tokens, sequence.known);
    sequence.is_running = true;
    sequence.is_decoding = false;
    sequence.computed = admitted.cached_tokens;
    sequence.known_at_resume = admitted.is_resumed ? sequence.known : 0;
  }
}

// For somebody before them, and not while another of their priority had gained something.
void PlanChecker::CheckPreempted(const StepPlan& plan, const Sequence* first_before) {
  preemptions += plan.preempted.size();
  const Sequence* const first = FirstRunning();
  for (const SequenceId id : plan.preempted) {
    Sequence& sequence = sequences_.at(id);
    ASHLAR_CHECK(sequence.is_running && &sequence != first, "sequence {} gave way for nobody",
                 id.value());
    if (sequence.known == sequence.known_at_resume) {
      for (const auto& [other_id, other] : sequences_) {
        const bool was_asked =
            other.is_running && &other != first && &other != first_before && other_id != id &&
            other.order.priority == sequence.order.priority &&
            std::ranges::find(plan.preempted, other_id) == plan.preempted.end() &&
            std::ranges::find(plan.admitted, other_id, &AdmittedSequence::id) ==
                plan.admitted.end();
        ASHLAR_CHECK(!was_asked || other.known == other.known_at_resume,
                     "sequence {} gave way again before it gained, and {} did not", id.value(),
                     other_id.value());
      }
    }
  }
  for (const SequenceId id : plan.preempted) {
    Sequence& sequence = sequences_.at(id);
    sequence.is_running = sequence.is_decoding = false;
    sequence.computed = 0;
    sequence.was_preempted = true;
  }
}

void PlanChecker::CheckItems(const StepPlan& plan) {
  std::uint64_t running = 0;
  for (const auto& [id, sequence] : sequences_) running += sequence.is_running ? 1 : 0;
  ASHLAR_CHECK(running <= scenario_.limits.max_running, "{} run", running);
  std::uint32_t tokens = 0;
  std::uint32_t decodes = 0;
  std::uint64_t pairs = 0;
  std::set<SequenceId> ids;
  for (const StepItem& item : plan.items) {
    const Sequence& sequence = sequences_.at(item.id);
    ASHLAR_CHECK(sequence.is_running && ids.insert(item.id).second, "sequence {} is planned twice",
                 item.id.value());
    ASHLAR_CHECK(item.position == sequence.computed && item.tokens > 0 &&
                     item.is_decode == sequence.is_decoding &&
                     item.reaches_end == (item.position + item.tokens == sequence.known),
                 "sequence {}: {} tokens at {}, {} computed, {} known", item.id.value(),
                 item.tokens, item.position, sequence.computed, sequence.known);
    ASHLAR_CHECK(item.is_decode ? tokens == decodes : item.tokens <= scenario_.limits.prefill_chunk,
                 "sequence {} is out of its turn, or a chunk of {}", item.id.value(), item.tokens);
    tokens += item.tokens;
    decodes += item.is_decode ? item.tokens : 0;
    pairs += AttendedPairs(item.position, item.tokens);
  }
  ASHLAR_CHECK(tokens == plan.tokens && decodes == plan.decode_tokens &&
                   pairs == plan.attended_pairs && tokens <= scenario_.limits.max_step_tokens,
               "{} tokens, {} of decodes", tokens, decodes);
  for (const auto& [id, sequence] : sequences_) {
    ASHLAR_CHECK(!sequence.is_running || !sequence.is_decoding || ids.contains(id),
                 "sequence {} missed a step", id.value());
  }
}

void PlanChecker::CheckDelay(const StepPlan& plan) {
  const std::uint32_t prefill = plan.tokens - plan.decode_tokens;
  if (scenario_.limits.itl_target_ns == 0 || plan.decode_tokens == 0) return;
  const double predicted_ns = scenario_.cost.PredictNs(plan.tokens, plan.attended_pairs);
  const auto target_ns = static_cast<double>(scenario_.limits.itl_target_ns);
  ASHLAR_CHECK(prefill <= Scheduler::kPrefillFloor || predicted_ns <= target_ns * (1 + 1e-9),
               "{} prefill tokens in a step of {} ns", prefill, predicted_ns);
  bool is_any_waiting = false;
  for (const auto& [id, sequence] : sequences_) {
    is_any_waiting = is_any_waiting || (sequence.is_running && !sequence.is_decoding);
  }
  const bool has_budget = plan.tokens < scenario_.limits.max_step_tokens;
  bounded += is_any_waiting && has_budget && predicted_ns > 0.9 * target_ns ? 1 : 0;
}

void PlanChecker::EndStep(const StepPlan& plan) {
  for (const StepItem& item : plan.items) {
    Sequence& sequence = sequences_.at(item.id);
    const std::uint64_t end = item.position + item.tokens;
    recomputed +=
        std::min(end, sequence.computed_once) - std::min(item.position, sequence.computed_once);
    sequence.computed = end;
    sequence.computed_once = std::max(sequence.computed_once, end);
    if (!item.reaches_end) continue;
    sequence.is_decoding = true;
    ++sequence.known;
    const ScenarioRequest& request = *sequence.request;
    if (sequence.known == request.prompt.size() + request.generate) sequences_.erase(item.id);
  }
}

}  // namespace ashlar::sched::testing
