#include "kernels/limits.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/reference/limits.h"
#include "kernels/simd/limit_tables.h"

namespace ashlar::kernels {

const LimitLoops& LimitLoopsFor(Isa isa) {
  const std::vector<Isa> runnable = RunnableIsas();
  ASHLAR_CHECK(std::ranges::find(runnable, isa) != runnable.end(), "{} does not run here",
               NameOf(isa));
  for (const LimitLoops* loops : BuiltLimitLoops()) {
    if (isa == loops->isa) return *loops;
  }
  return reference::Limits();
}

}  // namespace ashlar::kernels
