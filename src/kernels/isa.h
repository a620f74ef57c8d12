// The instruction sets the kernels are built for. An Isa is an object that can be listed, forced
// and tested. Every Isa gives the same bits (docs/decisions/0002): choosing one changes time only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::kernels {

enum class Isa {
  kReference,  // plain C++, one element at a time: the definition the others must equal
  kAvx2,       // x86-64 with AVX2, FMA and F16C
  kAvx512,     // x86-64 with AVX-512 F, BW, DQ, VL, CD and VNNI (Cascade Lake, Zen 4 and later)
  kNeon,       // AArch64
};

std::string_view NameOf(Isa isa);  // "reference", "avx2", "avx512", "neon"

// Those this build contains and this processor can run, slowest first; kReference always is one.
std::vector<Isa> RunnableIsas();

// The last of RunnableIsas().
Isa BestIsa();

// "auto" or a name of RunnableIsas(). Errors: kInvalidArgument, listing the names that would run
// here.
Result<Isa> ParseIsa(std::string_view name);

}  // namespace ashlar::kernels
