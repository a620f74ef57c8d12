// How a sealed block stores K and V: the codecs by name, and the bytes they take. The arithmetic is
// in kernels/codec.h; here are only names and sizes, for those who move bytes without reading them.
//
//   raw      f32 f16 bf16         any token of a block can be used as soon as it is written
//   encoded  all others           a block is encoded as a whole when it is sealed; until then it is
//                                 raw (kOpenKind)
//
//   q8 q6 q5 q4   block-scaled: signed integers of 8, 6, 5, 4 bits, one f16 scale for 32 channels
//                 of a token
//   fp8           e4m3, one scale for a lane's block
//   kc4 kc2       asymmetric integers of 4, 2 bits (KIVI): K with an f16 scale and minimum per
//                 channel of a block, V with one for 32 channels of a token
//   lm4 lm3       Lloyd-Max codebook of 16, 8 levels for a normal distribution, one f16 scale per
//                 token; meant to be rotated
//
// A leading `h` means rotated: vectors are multiplied by the orthonormal Hadamard matrix first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar {

enum class KvCodecKind : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kFp8,
  kQ8,
  kQ6,
  kQ5,
  kQ4,
  kKc4,
  kKc2,
  kLm4,
  kLm3,
};

struct KvCodec {
  KvCodecKind kind = KvCodecKind::kF16;
  bool is_rotated = false;  // only with an encoded kind

  friend bool operator==(const KvCodec&, const KvCodec&) = default;
};

// K and V tiles are laid out differently, and kc4 and kc2 have different scales.
enum class KvRole : std::uint8_t { kKey, kValue };

// How an open block of a lane whose sealed blocks are encoded is stored meanwhile.
inline constexpr KvCodecKind kOpenKind = KvCodecKind::kF16;

// Encoded tiles are made of units of 16 tokens x 32 channels; dims are rounded up to whole units.
inline constexpr std::size_t kUnitTokens = 16;
inline constexpr std::size_t kUnitChannels = 32;

constexpr bool IsRaw(KvCodecKind kind) {
  return kind == KvCodecKind::kF32 || kind == KvCodecKind::kF16 || kind == KvCodecKind::kBF16;
}
constexpr bool IsRaw(KvCodec codec) { return IsRaw(codec.kind); }
// How K or V of this codec is stored in the block that is being filled.
constexpr KvCodecKind OpenKindOf(KvCodec codec) { return IsRaw(codec) ? codec.kind : kOpenKind; }

// "hq8".
std::string NameOf(KvCodec codec);
std::string_view NameOf(KvCodecKind kind);
// All kinds, in the enum's order.
std::span<const KvCodecKind> AllKvCodecKinds();
// Error: kInvalidArgument naming the word and the codecs that exist.
Result<KvCodec> ParseKvCodec(std::string_view name);

// Bytes of one lane's tile of block_tokens rows (a multiple of 16) of `dim` elements (a multiple of
// 8): a multiple of 64, metadata included. 0 for dim 0.
std::size_t TileBytes(KvCodec codec, KvRole role, std::size_t dim, std::size_t block_tokens);
// Of which codes; scales follow them.
std::size_t CodeBytes(KvCodecKind kind, std::size_t dim, std::size_t block_tokens);

}  // namespace ashlar
