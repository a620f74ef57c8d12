// What fits: sequences and contexts in an arena of so many bytes, as admission counts them, and the
// arena that a machine's memory leaves room for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "plan/kv_need.h"

namespace ashlar::plan {

// Sequences of the workload's context that are admitted at once into an arena of `arena_bytes`,
// sharing nothing; 0 also where the arena is too small for the layout at all.
std::uint64_t SequencesThatFit(const kv::KvLayout& layout, std::uint64_t arena_bytes,
                               const Workload& workload);

// The longest context, up to `limit`, of which the workload's sequences fit at once.
std::uint64_t ContextThatFits(const kv::KvLayout& layout, std::uint64_t arena_bytes,
                              const Workload& workload, std::uint64_t limit);

// An arena in which the workload fits, in whole MiB, the least or little more: an arena's page size
// depends on its size. nullopt when it has more blocks than can be numbered. Precondition: KvNeedOf
// is ok.
std::optional<std::uint64_t> ArenaFor(const kv::KvLayout& layout, const Workload& workload);

// Where a machine's memory goes.
struct MemoryBudget {
  std::uint64_t memory_bytes = 0;
  std::uint64_t margin_bytes = 0;     // left alone
  std::uint64_t weights_bytes = 0;    // as the engine holds them
  std::uint64_t workspace_bytes = 0;  // of the forward pass
  // What the cache keeps of its blocks and sequences: an estimate, never less than it is.
  std::uint64_t bookkeeping_bytes = 0;
  std::uint64_t arena_bytes = 0;    // what is left: --kv-memory
  std::uint64_t missing_bytes = 0;  // of what comes before the arena; then there is none
};

struct MemoryQuestion {
  std::uint64_t memory_bytes = 0;
  std::uint64_t margin_bytes = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t workspace_bytes = 0;
};
MemoryBudget BudgetOf(const kv::KvLayout& layout, const MemoryQuestion& question);

// What the cache keeps beside the blocks of an arena: states, the prefix tree with its tokens,
// replacement. capacity_test.cc compares it with what the cache allocates.
std::uint64_t BookkeepingBytes(const kv::KvLayout& layout, std::uint64_t arena_bytes);

}  // namespace ashlar::plan
