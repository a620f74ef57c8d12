// What the scheduler knows of one sequence. Its own: nobody else includes this.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "sched/fair_share.h"

namespace ashlar::sched {

struct Sequence {
  enum class Place : std::uint8_t { kWaiting, kParked, kRunning };

  SequenceId id;
  Order order;
  Tenant* tenant = nullptr;
  std::uint64_t known = 0;     // prompt and generated tokens
  std::uint32_t guesses = 0;   // of those, the last ones: dropped when it is preempted
  std::uint64_t computed = 0;  // of those, with K and V in their blocks; 0 unless running
  Place place = Place::kWaiting;
  bool is_decoding = false;   // running, and all that was known at admission is computed
  bool is_preempted = false;  // waits to be resumed
  bool is_ahead = false;      // waits, and goes before new ones of its priority (waiting_line.h)
  std::uint64_t known_at_resume = 0;  // 0: never resumed since it was first admitted

  std::uint64_t planned_step = 0;    // the last one that it has an item in, or was looked at for
  std::uint64_t preempted_step = 0;  // the last one it was preempted in
  std::uint64_t refused_step = 0;    // the last one in which there was no memory for it
  std::uint64_t refused_epoch = 0;   // how often memory had been given back by then
  std::uint64_t wake_at = 0;         // kParked: computed tokens after which to ask again
  std::uint64_t patience_end = 0;    // computed tokens after which it waits for no prefix; 0: unset
  std::uint32_t passed = 0;          // how often a cached prompt went before it

  // Nothing was gained yet by resuming it.
  bool is_fresh() const { return known == known_at_resume; }
};

}  // namespace ashlar::sched
