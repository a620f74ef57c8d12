#include "kernels/isa.h"

#include "kernels/simd/kernel_tables.h"
#include "kernels/simd/targets.h"
// After targets.h:
#include "hwy/targets.h"

namespace ashlar::kernels {
namespace {

// The AVX-512 tables use it (simd/dot-inl.h), but Highway's target does not ask for it.
bool HasVnni() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

// Does the processor, and the operating system's saving of registers, allow it?
bool RunsHere(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return true;
    case Isa::kAvx2:
      return (HWY_SUPPORTED_TARGETS & HWY_AVX2) != 0;
    case Isa::kAvx512:
      return (HWY_SUPPORTED_TARGETS & HWY_AVX3) != 0 && HasVnni();
    case Isa::kNeon:
      return true;  // part of AArch64: a build that contains it runs on nothing else
  }
  return false;
}

}  // namespace

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

std::vector<Isa> RunnableIsas() {
  // Asked of the processor once: under a hypervisor each question costs tens of microseconds.
  static const std::vector<Isa> kIsas = [] {
    std::vector<Isa> isas = {Isa::kReference};
    for (const KernelSet* table : BuiltSimdTables()) {
      if (RunsHere(table->isa)) isas.push_back(table->isa);
    }
    return isas;
  }();
  return kIsas;
}

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
