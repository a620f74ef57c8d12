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
// Progress is guaranteed by promising memory at admission: a sequence is admitted only when the
// blocks of its whole possible length can be reserved, so a running sequence never waits for
// memory. The first waiting sequence is never overtaken, so it is admitted as soon as enough
// running ones have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

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
  std::uint64_t blocks = 0;  // to reserve at admission: enough for the whole possible length
};

struct StepItem {
  SequenceId id;
  std::uint64_t position = 0;  // of the first token to compute
  std::uint32_t tokens = 0;
  bool reaches_end = false;  // the last known token is among them: its logits give the next one
};

struct StepPlan {
  std::vector<SequenceId> admitted;  // reserve their blocks before running the items
  std::vector<StepItem> items;       // empty: nothing to do
  std::uint32_t tokens = 0;          // sum over items
};

class Scheduler {
 public:
  // Precondition: the limits are valid.
  explicit Scheduler(const SchedulerLimits& limits);

  // Puts a sequence at the end of the queue.
  void Add(const SequenceSpec& spec);
  // Takes a sequence out, waiting or running. False when it is neither.
  bool Remove(SequenceId id);

  // Plans the next step and admits; `available_blocks` may be promised. Call once per step, Commit
  // after it: the plan is valid until the next call, which forgets who was admitted.
  const StepPlan& Plan(std::uint64_t available_blocks);

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

  Running* Find(SequenceId id);
  void PlanItem(const Running& sequence, std::uint32_t limit);

  SchedulerLimits limits_;
  std::deque<SequenceSpec> waiting_;  // bounded by the engine's queue limit
  std::vector<Running> running_;      // in order of admission
  StepPlan plan_;
};

}  // namespace ashlar::sched
