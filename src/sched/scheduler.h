// Decides who computes what in the next step. Pure: no threads, no clock, no memory of its own
// beyond the list of sequences; the same calls give the same plans.
//
//            Add              Plan admits              Remove
//   (new) --------> waiting ---------------> running ---------> (gone)
//
// A step has a budget of tokens. Running sequences that only extend their text take one token each,
// first; prompts being computed share the rest in order of admission, at most `prefill_chunk`
// tokens each; then waiting sequences are admitted in order of arrival while blocks, places and
// budget last.
//
// Admission asks the owner of the memory (an Admitter, the engine or a simulator), which answers
// for one sequence at a time:
//   admitted   the memory of its whole possible length is promised; tokens that are in the cache
//              already are not computed again
//   no memory  it waits, and all behind it: the first that needs memory is never overtaken, so it
//              is admitted as soon as enough running ones have ended
//   wait       a running sequence is computing a part of its prompt; those behind it may go first
// A running sequence never waits for memory, and whoever waits for a prefix waits for a running
// sequence: so there is always progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace ashlar::sched {

struct SchedulerLimits {
  std::uint32_t max_step_tokens = 512;  // rows of one forward pass
  std::uint32_t prefill_chunk = 256;    // prompt tokens of one sequence in one step
  std::uint32_t max_running = 64;       // sequences; at most max_step_tokens
};

// Errors: kInvalidArgument naming the limit, its value and what is allowed.
Status Validate(const SchedulerLimits& limits);

struct SequenceSpec {
  SequenceId id;
  std::uint64_t tokens = 0;  // known now: the prompt; at least 1
};

struct Admission {
  enum class Answer : std::uint8_t { kAdmitted, kNoMemory, kWait };
  Answer answer = Answer::kNoMemory;
  std::uint64_t cached_tokens = 0;  // kAdmitted: computed already; less than the sequence's tokens
};
using Admitter = FunctionRef<Admission(SequenceId)>;

// How many sequences that wait for a prefix are asked about in one step.
inline constexpr std::size_t kMaxPrefixWaiters = 64;

struct StepItem {
  SequenceId id;
  std::uint64_t position = 0;  // of the first token to compute
  std::uint32_t tokens = 0;
  bool reaches_end = false;  // the last known token is among them: its logits give the next one
};

struct StepPlan {
  std::vector<SequenceId> admitted;
  std::vector<StepItem> items;  // empty: nothing to do
  std::uint32_t tokens = 0;     // sum over items
};

class Scheduler {
 public:
  // Precondition: the limits are valid.
  explicit Scheduler(const SchedulerLimits& limits);

  // Puts a sequence at the end of the queue.
  void Add(const SequenceSpec& spec);
  // Takes a sequence out, waiting or running. False when it is neither.
  bool Remove(SequenceId id);

  // Plans the next step; asks `admit` for waiting sequences while places and budget last. Call once
  // per step, Commit after it: the plan is valid until the next call, which forgets who was
  // admitted.
  const StepPlan& Plan(Admitter admit);

  // The plan's items have been computed. Once per plan.
  void Commit();
  // A token was appended to the sequence: there is one more to compute. Precondition: running, all
  // its known tokens computed.
  void Append(SequenceId id);

  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Running {
    SequenceId id;
    std::uint64_t known = 0;     // prompt and generated tokens
    std::uint64_t computed = 0;  // of those, with K and V in their blocks
  };

  void AdmitWaiting(Admitter admit);
  Running* Find(SequenceId id);
  void PlanItem(const Running& sequence, std::uint32_t limit);

  SchedulerLimits limits_;
  std::deque<SequenceSpec> waiting_;  // bounded by the engine's queue limit
  std::vector<Running> running_;      // in order of admission
  StepPlan plan_;
};

}  // namespace ashlar::sched
