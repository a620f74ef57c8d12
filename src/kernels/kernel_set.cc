#include "kernels/kernel_set.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/reference/kernels.h"
#include "kernels/simd/kernel_tables.h"

namespace ashlar::kernels {

const KernelSet& KernelsFor(Isa isa) {
  const std::vector<Isa> runnable = RunnableIsas();
  ASHLAR_CHECK(std::ranges::find(runnable, isa) != runnable.end(), "{} does not run here",
               NameOf(isa));
  for (const KernelSet* table : BuiltSimdTables()) {
    if (table->isa == isa) return *table;
  }
  return reference::Kernels();
}

}  // namespace ashlar::kernels
