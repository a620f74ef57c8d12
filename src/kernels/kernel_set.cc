#include "kernels/kernel_set.h"

#include "base/check.h"
#include "kernels/reference/kernels.h"

namespace ashlar::kernels {

const KernelSet& KernelsFor(Isa isa) {
  ASHLAR_CHECK(isa == Isa::kReference, "{} does not run here", NameOf(isa));
  return reference::Kernels();
}

}  // namespace ashlar::kernels
