// What the scheduler asks of the owner of the memory: the engine's cache (kv_memory.h), a
// simulator's, a test's.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace ashlar::sched {

struct Admission {
  enum class Answer : std::uint8_t {
    kAdmitted,
    kNoMemory,  // not now
    kWait,      // a running sequence is computing a part of its tokens
  };
  Answer answer = Answer::kNoMemory;
  std::uint64_t cached_tokens = 0;   // kAdmitted: computed already; less than the known ones
  std::uint64_t pending_tokens = 1;  // kWait: at least so many must be computed before it is over
};

class Memory {
 public:
  virtual ~Memory() = default;

  // Promises a waiting sequence room for its known tokens and some more. It is asked again when the
  // answer is no. Rule of progress: a sequence alone is admitted, and can Grow to its end.
  virtual Admission Admit(SequenceId id) = 0;
  // The same, but waits for nobody: what others are computing it computes, too.
  virtual Admission AdmitAtOnce(SequenceId id) = 0;
  // Makes room for the next tokens of a running sequence. False, and nothing changed: not now.
  [[nodiscard]] virtual bool Grow(SequenceId id, std::uint32_t tokens) = 0;
  // Takes a running sequence's memory. What was computed may be found again at its next Admit.
  virtual void Preempt(SequenceId id) = 0;
  // Tokens a running sequence may have to compute again once preempted: those that nobody else
  // holds.
  virtual std::uint64_t TokensAtStake(SequenceId id) const = 0;
  // Tokens of a waiting sequence that would be served now. Changes nothing.
  virtual std::uint64_t CachedTokens(SequenceId id) = 0;
};

}  // namespace ashlar::sched
