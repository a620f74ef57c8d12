// Where a code and its scale lie in an encoded tile (codec.h), for the reference and the SIMD code.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "base/kv_codec.h"
#include "kernels/codec.h"

namespace ashlar::kernels {

inline constexpr std::size_t kUnitRows = 8;
inline constexpr std::size_t kUnitRowCodes = 64;

constexpr bool InUnits(KvCodecKind kind) { return !IsRaw(kind) && kind != KvCodecKind::kFp8; }
constexpr bool IsAsymmetric(KvCodecKind kind) {
  return kind == KvCodecKind::kKc4 || kind == KvCodecKind::kKc2;
}
constexpr bool IsCodebook(KvCodecKind kind) {
  return kind == KvCodecKind::kLm4 || kind == KvCodecKind::kLm3;
}

// Whether a scale may be negative: where it is an extreme value over the least code.
constexpr bool HasSignedScales(KvCodecKind kind) {
  return kind == KvCodecKind::kQ6 || kind == KvCodecKind::kQ5 || kind == KvCodecKind::kQ4;
}

// Units beside each other: 32 channels each.
constexpr std::size_t ChannelUnits(std::size_t dim) {
  return (dim + kUnitChannels - 1) / kUnitChannels;
}

constexpr std::size_t UnitBytes(KvCodecKind kind) {
  switch (kind) {
    case KvCodecKind::kQ8:
      return 512;
    case KvCodecKind::kQ6:
      return 384;
    case KvCodecKind::kQ5:
      return 320;
    case KvCodecKind::kQ4:
    case KvCodecKind::kKc4:
    case KvCodecKind::kLm4:
      return 256;
    case KvCodecKind::kLm3:
      return 192;
    case KvCodecKind::kKc2:
      return 128;
    default:
      return 0;
  }
}

// What is subtracted from a code (for a codebook: from its level).
constexpr int ZeroOf(KvCodecKind kind) {
  switch (kind) {
    case KvCodecKind::kQ8:
    case KvCodecKind::kLm4:
    case KvCodecKind::kLm3:
      return 128;
    case KvCodecKind::kQ6:
      return 32;
    case KvCodecKind::kQ5:
      return 16;
    case KvCodecKind::kQ4:
      return 8;
    default:
      return 0;
  }
}

// Greatest code.
constexpr int GreatestCode(KvCodecKind kind) {
  switch (kind) {
    case KvCodecKind::kQ8:
      return 255;
    case KvCodecKind::kQ6:
      return 63;
    case KvCodecKind::kQ5:
      return 31;
    case KvCodecKind::kKc2:
      return 3;
    case KvCodecKind::kLm3:
      return 7;
    default:
      return 15;
  }
}

// Levels of a codebook, excess 128, by code; repeated so that every table lookup fits. code 0 is
// the lowest level.
template <std::size_t kHalf>
constexpr std::array<std::uint8_t, 16> LevelsOf(const std::array<float, kHalf>& half) {
  std::array<std::uint8_t, 16> levels = {};
  for (std::size_t i = 0; i < kHalf; ++i) {
    const int level = static_cast<int>(half[i] / half[kHalf - 1] * 127.0f + 0.5f);
    levels[kHalf + i] = static_cast<std::uint8_t>(128 + level);
    levels[kHalf - 1 - i] = static_cast<std::uint8_t>(128 - level);
  }
  return levels;
}
inline constexpr std::array<std::uint8_t, 16> kLevels16 = LevelsOf(kLloydMax16);
inline constexpr std::array<std::uint8_t, 16> kLevels8 = LevelsOf(kLloydMax8);

constexpr int LevelOf(KvCodecKind kind, int code) {
  if (kind == KvCodecKind::kLm4) return kLevels16[static_cast<std::size_t>(code)];
  if (kind == KvCodecKind::kLm3) return kLevels8[static_cast<std::size_t>(code)];
  return code;
}

struct CodePlace {
  std::size_t unit;
  std::size_t row;
  std::size_t index;
};
constexpr CodePlace PlaceOf(KvRole role, std::size_t dim, std::size_t token, std::size_t channel) {
  const std::size_t unit = token / kUnitTokens * ChannelUnits(dim) + channel / kUnitChannels;
  const std::size_t t = token % kUnitTokens;
  const std::size_t c = channel % kUnitChannels;
  if (role == KvRole::kKey) return {unit, c / 4, t * 4 + c % 4};
  return {unit, c / 16 * 4 + t / 4, c % 16 * 4 + t % 4};
}

// Index of the f16 scale among a tile's f16 numbers that follow the codes; the minimum of an
// asymmetric codec lies MinOffset further on.
constexpr std::size_t ScaleIndex(KvCodecKind kind, KvRole role, std::size_t dim, std::size_t token,
                                 std::size_t channel) {
  if (IsCodebook(kind)) return token;
  if (IsAsymmetric(kind) && role == KvRole::kKey) return channel;
  const std::size_t unit = token / kUnitTokens * ChannelUnits(dim) + channel / kUnitChannels;
  return unit * (IsAsymmetric(kind) ? 2 : 1) * kUnitTokens + token % kUnitTokens;
}
constexpr std::size_t MinOffset(KvRole role, std::size_t dim) {
  return role == KvRole::kKey ? ChannelUnits(dim) * kUnitChannels : kUnitTokens;
}

inline float LoadHalf(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return F16ToF32(bits);
}

}  // namespace ashlar::kernels
