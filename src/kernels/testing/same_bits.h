// Bitwise comparison of results.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace ashlar::kernels::testing {

// Equal bits; any two NaNs count as equal (kernel_set.h).
inline bool SameBits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

inline ::testing::AssertionResult SameBits(std::span<const float> got,
                                           std::span<const float> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, not " << want.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!SameBits(got[i], want[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << std::hexfloat << got[i] << " is not " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ashlar::kernels::testing
