// How a config.json stretches rotary embeddings, in GGUF's words.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "hf/builder.h"
#include "hf/config.h"

namespace ashlar::hf {

struct RopeShape {
  std::uint64_t head_dim = 0;
  std::uint64_t rotated = 0;  // channels of a head
  std::uint64_t context = 0;
};

// The share of a head's channels that rotates, where it is told.
Result<std::optional<double>> RotatedPart(const Config& config);

// Writes rope.* keys and, for Llama 3 and LongRoPE, the tensors of divisors. Errors: kUnsupported
// (a kind we do not know, named), kCorrupt.
Status ReadRope(const Config& config, const RopeShape& shape, Builder& builder);

}  // namespace ashlar::hf
