// How PrepareArgs lays out a query row's integers, for the reference and the SIMD code: digits
// [QueryDigits][channels] int8, high first; -zero * sum of x over each 32 channels, int32 (where a
// sum of code * x begins, to end as that of (code - zero) * x); step f32.
// Rows are whole cache lines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/tile_layout.h"

namespace ashlar::kernels {

struct PreparedLayout {
  std::size_t digits;    // planes
  std::size_t channels;  // whole units
  std::size_t units;
  std::size_t row_bytes;

  constexpr PreparedLayout(KvCodecKind kind, std::size_t head_dim)
      : digits(static_cast<std::size_t>(QueryDigits(kind))),
        channels(ChannelUnits(head_dim) * kUnitChannels),
        units(ChannelUnits(head_dim)),
        row_bytes((digits * channels + 4 * units + 4 + 63) / 64 * 64) {}

  constexpr std::size_t starts_at() const { return digits * channels; }
  constexpr std::size_t step_at() const { return starts_at() + 4 * units; }
};

// The two digits of an integer: value == 256 * high + low.
constexpr int HighDigit(int value) { return (value + 128) >> 8; }
constexpr int LowDigit(int value) { return value - 256 * HighDigit(value); }

// Below this a row of numbers is taken for zeros: its step has no finite reciprocal.
inline constexpr float kLeastMagnitude = 0x1p-100f;

}  // namespace ashlar::kernels
