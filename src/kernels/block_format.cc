#include "kernels/block_format.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"

namespace ashlar::kernels {
namespace {

std::uint8_t ByteAt(const std::byte* bytes, std::size_t index) {
  return std::to_integer<std::uint8_t>(bytes[index]);
}

std::uint16_t HalfAt(const std::byte* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

// 32 nibbles in 16 bytes: the low halves are elements 0..15, the high halves 16..31.
void ReadNibbles(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t i = 0; i < 16; ++i) {
    code[i] = ByteAt(bytes, i) & 0xF;
    code[i + 16] = ByteAt(bytes, i) >> 4;
  }
}

// Bit i of a little-endian 32-bit word is bit 4 of element i.
void AddFifthBits(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t i = 0; i < 32; ++i) {
    code[i] |= static_cast<std::uint8_t>(((ByteAt(bytes, i / 8) >> (i % 8)) & 1) << 4);
  }
}

// Q4_K, Q5_K: eight 6-bit scales and eight 6-bit minimums in 12 bytes. Sub-blocks 0..3 keep theirs
// in the low six bits of bytes 0..3 (scales) and 4..7 (minimums); 4..7 keep the low four bits in
// the halves of bytes 8..11 and the high two in the top bits of the earlier bytes.
void ReadSixBitScales(const std::byte* bytes, BlockFields* fields) {
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint8_t scale = ByteAt(bytes, i);
    const std::uint8_t minimum = ByteAt(bytes, i + 4);
    const std::uint8_t low = ByteAt(bytes, i + 8);
    fields->scales[i] = static_cast<std::int8_t>(scale & 0x3F);
    fields->minimums[i] = minimum & 0x3F;
    fields->scales[i + 4] = static_cast<std::int8_t>((low & 0xF) | ((scale >> 6) << 4));
    fields->minimums[i + 4] = static_cast<std::uint8_t>((low >> 4) | ((minimum >> 6) << 4));
  }
}

// 64 columns share 32 bytes: low nibbles first, then high nibbles.
void ReadKNibbles(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t c = 0; c < 256; ++c) {
    const std::uint8_t pair = ByteAt(bytes, c / 64 * 32 + c % 32);
    code[c] = c % 64 < 32 ? pair & 0xF : pair >> 4;
  }
}

void ReadQ4K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 16, fields->code);
}

void ReadQ5K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 48, fields->code);
  for (std::size_t c = 0; c < 256; ++c) {
    const int high = (ByteAt(block + 16, c % 32) >> (c / 32)) & 1;
    fields->code[c] |= static_cast<std::uint8_t>(high << 4);
  }
}

// 128 columns share 64 bytes of nibbles and 32 bytes of bit pairs; 16 scale bytes; d comes last.
void ReadQ6K(const std::byte* block, BlockFields* fields) {
  for (std::size_t c = 0; c < 256; ++c) {
    const std::size_t half = c / 128;
    const std::uint8_t pair = ByteAt(block, half * 64 + c % 64);
    const int low = c % 128 < 64 ? pair & 0xF : pair >> 4;
    const int high = (ByteAt(block + 128, half * 32 + c % 32) >> (c % 128 / 32 * 2)) & 3;
    fields->code[c] = static_cast<std::uint8_t>(low | (high << 4));
  }
  std::memcpy(fields->scales, block + 192, 16);
  fields->d = HalfAt(block + 208);
}

// 16 bytes of a scale (low half) and a minimum; 128 columns share 32 bytes of bit pairs; d and m
// last.
void ReadQ2K(const std::byte* block, BlockFields* fields) {
  for (std::size_t i = 0; i < 16; ++i) {
    fields->scales[i] = static_cast<std::int8_t>(ByteAt(block, i) & 0xF);
    fields->minimums[i] = ByteAt(block, i) >> 4;
  }
  for (std::size_t c = 0; c < 256; ++c) {
    fields->code[c] = ByteAt(block + 16, c / 128 * 32 + c % 32) >> (c % 128 / 32 * 2) & 3;
  }
  fields->d = HalfAt(block + 80);
  fields->m = HalfAt(block + 82);
}

// Third bits: bit i of 32 bytes has columns 32 i ..; then bit pairs as in Q2_K; 12 bytes of scales:
// low four bits in the halves of the first eight, high two in the last four; d.
void ReadQ3K(const std::byte* block, BlockFields* fields) {
  const std::byte* const scales = block + 96;
  for (std::size_t i = 0; i < 16; ++i) {
    const int low = ByteAt(scales, i % 8) >> (i / 8 * 4) & 0xF;
    const int high = ByteAt(scales, 8 + i % 4) >> (i / 4 * 2) & 3;
    fields->scales[i] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  for (std::size_t c = 0; c < 256; ++c) {
    const int low = ByteAt(block + 32, c / 128 * 32 + c % 32) >> (c % 128 / 32 * 2) & 3;
    const int high = ByteAt(block, c % 32) >> (c / 32) & 1;
    fields->code[c] = static_cast<std::uint8_t>(low | high << 2);
  }
  fields->d = HalfAt(block + 108);
}

// A byte of exponent: 2^(e - 128) in bf16, whose two least ones are below its normal range.
std::uint16_t PowerOfTwo(std::uint8_t exponent) {
  if (exponent < 2) return exponent == 0 ? 0x0020 : 0x0040;
  return static_cast<std::uint16_t>((exponent - 1) << 7);
}

}  // namespace

void ReadBlock(DType dtype, const std::byte* block, BlockFields* fields) {
  fields->d = HalfAt(block);  // first in most formats
  fields->m = 0;
  switch (dtype) {
    case DType::kQ4_0:
      ReadNibbles(block + 2, fields->code);
      return;
    case DType::kQ4_1:
      fields->m = HalfAt(block + 2);
      ReadNibbles(block + 4, fields->code);
      return;
    case DType::kQ5_0:
      ReadNibbles(block + 6, fields->code);
      AddFifthBits(block + 2, fields->code);
      return;
    case DType::kQ5_1:
      fields->m = HalfAt(block + 2);
      ReadNibbles(block + 8, fields->code);
      AddFifthBits(block + 4, fields->code);
      return;
    case DType::kQ8_0:
      for (std::size_t i = 0; i < 32; ++i) fields->code[i] = ByteAt(block, i + 2) ^ 0x80;
      return;
    case DType::kQ4_K:
      ReadQ4K(block, fields);
      return;
    case DType::kQ5_K:
      ReadQ5K(block, fields);
      return;
    case DType::kQ6_K:
      ReadQ6K(block, fields);
      return;
    case DType::kQ2_K:
      ReadQ2K(block, fields);
      return;
    case DType::kQ3_K:
      ReadQ3K(block, fields);
      return;
    case DType::kIQ4_NL:
      ReadNibbles(block + 2, fields->code);
      return;
    case DType::kMXFP4:
      fields->d = PowerOfTwo(ByteAt(block, 0));
      ReadNibbles(block + 1, fields->code);
      return;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
}

SubScale SubScaleOf(const BlockShape& shape, const BlockFields& fields, std::size_t sub) {
  float d = shape.has_bf16_scale ? Bf16ToF32(fields.d) : F16ToF32(fields.d);
  if (shape.has_sub_scales) d *= static_cast<float>(fields.scales[sub]);
  if (!shape.has_minimum) return {d, -(static_cast<float>(shape.offset) * d)};
  const float m = F16ToF32(fields.m);
  if (!shape.has_sub_scales) return {d, m};
  return {d, -(m * static_cast<float>(fields.minimums[sub]))};
}

}  // namespace ashlar::kernels
