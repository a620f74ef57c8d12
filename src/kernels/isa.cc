#include "kernels/isa.h"

#include <algorithm>

namespace ashlar::kernels {

std::string_view NameOf(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return "reference";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kNeon:
      return "neon";
  }
  ASHLAR_CHECK(false, "Isa {}", static_cast<int>(isa));
}

std::vector<Isa> RunnableIsas() { return {Isa::kReference}; }

Isa BestIsa() { return RunnableIsas().back(); }

Result<Isa> ParseIsa(std::string_view name) {
  if (name == "auto") return BestIsa();
  std::string names = "auto";
  for (const Isa isa : RunnableIsas()) {
    if (name == NameOf(isa)) return isa;
    names += fmt::format(", {}", NameOf(isa));
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "instruction set '{}' is unknown or does not run here; use one of: {}", name,
                   names);
}

}  // namespace ashlar::kernels
