// Elements of tiles, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "base/kv_codec.h"

namespace ashlar::kernels {

// What DecodeRow gives for one element.
float DecodeValue(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim,
                  std::size_t block_tokens, std::size_t token, std::size_t channel);
// The code of one element, of a kind that is in units.
int CodeAt(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim, std::size_t token,
           std::size_t channel);

namespace reference {

inline float LoadRaw(KvCodecKind kind, const std::byte* tile, std::size_t index) {
  if (kind == KvCodecKind::kF32) {
    float value;
    std::memcpy(&value, tile + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, tile + index * sizeof bits, sizeof bits);
  return kind == KvCodecKind::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
}

// The value as it was stored.
inline float StoreRaw(KvCodecKind kind, float value, std::byte* tile, std::size_t index) {
  if (kind == KvCodecKind::kF32) {
    std::memcpy(tile + index * sizeof value, &value, sizeof value);
    return value;
  }
  const std::uint16_t bits = kind == KvCodecKind::kF16 ? F32ToF16(value) : F32ToBf16(value);
  std::memcpy(tile + index * sizeof bits, &bits, sizeof bits);
  return LoadRaw(kind, tile, index);
}

}  // namespace reference
}  // namespace ashlar::kernels
