// One step as a value: who is admitted, who gives its memory up, who computes what.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace ashlar::sched {

struct AdmittedSequence {
  SequenceId id;
  std::uint64_t cached_tokens = 0;  // of those known, computed already
  bool is_resumed = false;          // it had been preempted

  friend bool operator==(const AdmittedSequence&, const AdmittedSequence&) = default;
};

struct StepItem {
  SequenceId id;
  std::uint64_t position = 0;  // of the first token to compute
  std::uint32_t tokens = 0;
  bool is_decode = false;    // extends a text; otherwise a part of a prefill
  bool reaches_end = false;  // the last known token is among them: its logits give the next one

  friend bool operator==(const StepItem&, const StepItem&) = default;
};

// A sequence that was admitted may still be preempted in the same step, never the other way round.
struct StepPlan {
  std::vector<AdmittedSequence> admitted;
  std::vector<SequenceId> preempted;
  std::uint32_t preempted_for_urgent = 0;  // of these: not for the growth of one that runs, but for
                                           // a more urgent one that waits
  std::vector<StepItem> items;             // decodes first
  std::uint32_t tokens = 0;                // sum over items
  std::uint32_t decode_tokens = 0;
  std::uint64_t attended_pairs = 0;  // of all items: step_cost.h
  // It waits, nothing runs, and there is no memory for it: whoever holds that will not give it back
  // by running. It must be removed.
  std::optional<SequenceId> stuck;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

}  // namespace ashlar::sched
