// Counts what operator new gives out, for tests of what allocates.
#pragma once

#include <cstdint>

namespace ashlar {

// What operator new has given out in this program so far, over all threads. A program that links
// ashlar_allocation_count has operator new replaced by one that counts: such tests are programs of
// their own.
struct AllocationCount {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};
AllocationCount AllocationsSoFar();

}  // namespace ashlar
