// Random numbers as a function: the same (seed, stream, index) gives the same bits in any order, on
// any thread, so that sampling does not depend on what else is in the batch.
#pragma once

#include <cstdint>

namespace ashlar {

// SplitMix64's finaliser (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
// generators").
constexpr std::uint64_t MixBits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return MixBits(MixBits(MixBits(seed) ^ stream) ^ index);
}

// Uniform in [0, 1) with 53 random bits.
constexpr double RandomUnit(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(RandomBits(seed, stream, index) >> 11) * 0x1.0p-53;
}

}  // namespace ashlar
