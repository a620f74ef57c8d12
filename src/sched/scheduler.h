// Decides who computes what in the next step. Pure: no threads, no clock, no tokens, no bytes; the
// same calls give the same plans.
//
//                            +------------- preempted -------------+
//                            v                                     |
//            Add          waiting ------- Plan admits ------> running --- Remove ---> (gone)
//   (new) ------------>  (WaitingLine)
//
// A step has a budget of tokens, and is planned in this order:
//
//   1. Decodes: running sequences that extend their text, one token each (more where more are known
//      already). Room for them is made first, in order of urgency (priority, then age). Where there
//      is none, a victim gives its memory up.
//   2. Prefills share what is left of the budget, at most prefill_chunk tokens each: by priority,
//      then whose tenant has been served least, then running ones before waiting ones, then age. A
//      waiting one is admitted when its turn comes, if there is a place and memory. While decodes
//      run, an ITL target bounds the time that prefills add to the step as StepCost predicts it;
//      but kPrefillFloor tokens of them always go, so that prefills do not starve.
//
// Memory. Admission promises the known tokens and some headroom; decodes grow on demand. The
// victim is the least urgent (never more urgent than who asks; it may be the one that asks); of
// equal priority one that has gained something since it was resumed; then the one with the least
// work at stake; then the youngest. Never the first of all running ones by (priority, age). A
// waiting sequence makes only strictly less urgent ones give way, for memory or a place, and the
// first of all only when it comes before it itself.
//
// Why everything ends. The first running sequence (by priority, age) can always go on: it may take
// everybody else's memory, and alone it fits. It has a token in every step while it decodes and
// its tenant's share while it prefills; it is overtaken only by one that is more urgent or older.
// Whoever was preempted, or refused memory, goes before new ones of its priority, the oldest first,
// and all behind it wait: so memory comes together. Whoever waits for a prefix waits for a running
// sequence, is asked again when that goes, and has patience: when all together have computed
// kPatience times as much as it lacks, and a step, it computes the prefix itself. (The other may be
// kept from its turn by some that are less urgent than who waits.) Only priorities may starve
// somebody, as they are meant to: by strictly more urgent ones that keep coming.
//
// Cost: a plan is O(running + admitted x (running + tenants that wait)), and O(running) more for
// each victim. Decode steps allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sched/fair_share.h"
#include "sched/memory.h"
#include "sched/sequence.h"
#include "sched/step_cost.h"
#include "sched/step_plan.h"
#include "sched/waiting_line.h"

namespace ashlar::sched {

struct SchedulerLimits {
  std::uint32_t max_step_tokens = 512;  // rows of one forward pass
  std::uint32_t prefill_chunk = 256;    // prompt tokens of one sequence in one step
  std::uint32_t max_running = 64;       // sequences; at most max_step_tokens
  // While decodes run, prefills join a step only as far as it lasts no longer; 0: no target.
  std::int64_t itl_target_ns = 0;
};

// Errors: kInvalidArgument naming the limit, its value and what is allowed.
Status Validate(const SchedulerLimits& limits);

struct SequenceSpec {
  SequenceId id;
  std::uint64_t tokens = 0;      // known now: the prompt; at least 1
  std::int32_t priority = 0;     // lower is more urgent
  std::string_view tenant = {};  // whose share of the computed tokens it takes
  std::uint32_t weight = 1;      // of that tenant: FairShare::Join
};

class Scheduler {
 public:
  // Prefill tokens in a step whatever the ITL target says.
  static constexpr std::uint32_t kPrefillFloor = 16;
  // How many sequences may turn out to wait for a prefix in one step.
  static constexpr std::uint32_t kMaxParkedPerStep = 64;
  // A sequence waits for a prefix for as long as whoever computes it gets this part of the work.
  static constexpr std::uint64_t kPatience = 16;
  // Steps after which a sequence that memory was refused is asked about again though none was given
  // back: what it shares may have changed.
  static constexpr std::uint64_t kAskAgainSteps = 16;

  // Precondition: the limits are valid.
  explicit Scheduler(const SchedulerLimits& limits);

  void SetCost(const StepCost& cost) { cost_ = cost; }
  const StepCost& cost() const { return cost_; }

  // Puts a new sequence in line.
  void Add(const SequenceSpec& spec);
  // Takes a sequence out, waiting or running. False when it is neither. Its memory is its owner's
  // business.
  bool Remove(SequenceId id);

  // Plans the next step. Call once per step, Commit after it: the plan is valid until the next
  // call, which forgets who was admitted.
  const StepPlan& Plan(Memory& memory);
  // The plan's items have been computed. Once per plan.
  void Commit();
  // One more token of the sequence is known, and so many guesses of those after it, to be computed.
  // A preemption drops guesses; others stay known. Precondition: running, all those known before
  // are computed.
  void Append(SequenceId id, std::uint32_t guesses = 0);
  // The last ones known were wrong guesses. Precondition: running, all that is known is computed.
  void Forget(SequenceId id, std::uint32_t guesses);
  // The sequence goes on as another text of so many tokens, to be computed from its beginning, and
  // waits for that in its old place in line. Its memory is its owner's business. Precondition:
  // running.
  void Restart(SequenceId id, std::uint64_t tokens);

  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return line_.size(); }
  std::size_t tenants() const { return shares_.tenants(); }

  // CHECKs that running and waiting sequences are what they should be. O(sequences).
  void CheckInvariants() const;

 private:
  enum class Try : std::uint8_t { kAdmitted, kParked, kRefused };

  void PlanDecodes(Memory& memory);
  void PlanPrefills(Memory& memory);
  Sequence* NextPrefill() const;
  void PlanPrefill(Sequence& sequence, Memory& memory);
  std::uint32_t PrefillRoom(std::uint64_t position) const;
  void PlanItem(Sequence& sequence, std::uint32_t tokens);
  void Unplan(const Sequence& sequence);

  Try TryAdmit(Sequence& next, Memory& memory);
  bool MayAskAbout(const Sequence& sequence) const;
  void StartRunning(Sequence& sequence, std::uint64_t cached_tokens);
  bool MakeRoom(Sequence& sequence, std::uint32_t tokens, Memory& memory);
  // The one that gives its memory up, of those with a priority value of at least this, but the
  // spared one; null when there is none.
  Sequence* FindVictim(std::int64_t priority, const Sequence* spared, const Memory& memory) const;
  bool PreemptLessUrgent(const Sequence& than, Memory& memory);
  void Preempt(Sequence& sequence, Memory& memory);
  void WaitAgain(Sequence& sequence);
  Sequence& RunningOf(SequenceId id);
  void StopRunning(Sequence& sequence);

  const SchedulerLimits limits_;
  StepCost cost_;
  FairShare shares_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  WaitingLine line_;
  std::vector<Sequence*> running_;  // by order
  std::uint64_t arrivals_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t epoch_ = 1;            // how often a running sequence gave its memory back
  std::uint64_t computed_tokens_ = 0;  // in all steps

  // Of the step being planned.
  StepPlan plan_;
  std::vector<Sequence*> decodes_;
  double prefill_left_ns_ = 0;
  std::uint32_t floor_left_ = 0;
};

}  // namespace ashlar::sched
