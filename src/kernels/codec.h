// What the bytes of an encoded tile mean, and how they are made: the arithmetic of the codecs that
// base/kv_codec.h names.
//
// A tile is block_tokens rows of one lane's K or V. But for fp8 its codes lie in units of 16 tokens
// x 32 channels (dims that are no multiple of 32 are filled up with zeros), ordered [tokens / 16]
// [channels / 32]; all scales follow the codes. A unit is 8 rows of 64 codes, so that a row is the
// 16 lanes x 4 bytes that a dot product instruction takes:
//
//   K: row = channel / 4,                     lane = token,   byte = channel % 4
//   V: row = channel / 16 * 4 + token / 4,    lane = channel % 16,  byte = token % 4
//
// A code of row i, index j = 4 * lane + byte, in a unit; the bytes of a unit come last:
//   8 bits  byte 64 i + j                                                              512
//   6 bits  low 4 as those of 4, high 2 in byte 256 + 64 (i / 4) + j at bit 2 (i % 4)  384
//   5 bits  low 4 as those of 4, high 1 in byte 256 + j at bit i                       320
//   4 bits  byte 64 (i / 2) + j, the low half when i is even                           256
//   3 bits  low 2 as those of 2, high 1 in byte 128 + j at bit i                       192
//   2 bits  byte 64 (i / 4) + j at bit 2 (i % 4)                                       128
//
// Values, and how codes are chosen (rounding is to nearest even, in f32; scales are rounded to f16
// first and codes are chosen for the rounded ones; a scale that rounds to 0 makes zeros):
//   q8         x = (code - 128) s(t, b);  s = max |x| / 127
//   q6 q5 q4   x = (code - z) s(t, b), z = 32, 16, 8;  s = m / -z, m the extreme value that is
//              largest in magnitude, the negative one of two: m itself is then exact but for s
//   kc4 kc2    x = code s + min;  s = (max - min) / 15 or 3; of a channel (K), or of a token's 32
//              channels (V); x is cut to +-65504, codes are chosen for the s that is not rounded,
//              halves go up
//                                                                 [KIVI, arXiv 2402.02750]
//   lm4 lm3    x = (level[code] - 128) s(t): levels of the Lloyd-Max quantiser of N(0, 1), as
//              multiples of 1/127 of the outermost; codes nearest to x / rms(row), s by least
//              squares                                            [TurboQuant's scalar part]
//   fp8        x = e4m3(code) s, s = max |x| / 448 of the tile, f32; K [dim][tokens], V
//              [tokens][dim]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/kv_codec.h"

namespace ashlar::kernels {

struct EncodeArgs {
  KvCodecKind kind;  // not raw
  KvRole role;
  KvCodecKind raw_kind;  // of `raw`
  const std::byte* raw;  // tile as StoreKvArgs writes it; every value finite
  std::size_t dim;
  std::size_t block_tokens;
  std::byte* tile;  // [TileBytes], all of it written
};

// Row t of `tile`, any kind, to out [dim].
void DecodeRow(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim,
               std::size_t block_tokens, std::size_t token, float* out);

// Least and greatest value of each channel over all tokens of a K tile: bounds[0..dim) and
// [dim..2 dim). For policies that bound q . k over a block (Quest, arXiv 2406.10774): the bound
// holds for the keys as stored.
void KeyBounds(KvCodecKind kind, const std::byte* tile, std::size_t dim, std::size_t block_tokens,
               float* bounds);

// Positive halves of the Lloyd-Max quantisers of N(0, 1), outermost last; by fixed-point iteration
// (a test repeats it).
inline constexpr std::array<float, 4> kLloydMax8 = {0.24509f, 0.75601f, 1.34391f, 2.15195f};
inline constexpr std::array<float, 8> kLloydMax16 = {0.12840f, 0.38805f, 0.65676f, 0.94234f,
                                                     1.25623f, 1.61805f, 2.06902f, 2.73259f};

// e4m3 (1-4-3, bias 7, no infinity): round to nearest even, saturating at 448; NaN is 0x7F.
std::uint8_t F32ToE4m3(float value);
float E4m3ToF32(std::uint8_t code);

// 2^k, the greatest power of two that divides n. A rotation multiplies each 2^k elements by the
// orthonormal Hadamard matrix (Sylvester's order): stages of a + b, a - b with stride 1, 2, 4, ...,
// then one multiplication by 1 / sqrt(2^k) rounded to f32. Its own inverse.
std::size_t HadamardSize(std::size_t n);

}  // namespace ashlar::kernels
