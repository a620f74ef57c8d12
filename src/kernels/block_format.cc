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
void ReadNibbles(const std::byte* bytes, std::uint8_t* q) {
  for (std::size_t i = 0; i < 16; ++i) {
    q[i] = ByteAt(bytes, i) & 0xF;
    q[i + 16] = ByteAt(bytes, i) >> 4;
  }
}

// Bit i of a little-endian 32-bit word is bit 4 of element i.
void AddFifthBits(const std::byte* bytes, std::uint8_t* q) {
  for (std::size_t i = 0; i < 32; ++i) {
    q[i] |= static_cast<std::uint8_t>(((ByteAt(bytes, i / 8) >> (i % 8)) & 1) << 4);
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
void ReadKNibbles(const std::byte* bytes, std::uint8_t* q) {
  for (std::size_t c = 0; c < 256; ++c) {
    const std::uint8_t pair = ByteAt(bytes, c / 64 * 32 + c % 32);
    q[c] = c % 64 < 32 ? pair & 0xF : pair >> 4;
  }
}

void ReadQ4K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 16, fields->q);
}

void ReadQ5K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 48, fields->q);
  for (std::size_t c = 0; c < 256; ++c) {
    const int high = (ByteAt(block + 16, c % 32) >> (c / 32)) & 1;
    fields->q[c] |= static_cast<std::uint8_t>(high << 4);
  }
}

// 128 columns share 64 bytes of nibbles and 32 bytes of bit pairs; 16 scale bytes; d comes last.
void ReadQ6K(const std::byte* block, BlockFields* fields) {
  for (std::size_t c = 0; c < 256; ++c) {
    const std::size_t half = c / 128;
    const std::uint8_t pair = ByteAt(block, half * 64 + c % 64);
    const int low = c % 128 < 64 ? pair & 0xF : pair >> 4;
    const int high = (ByteAt(block + 128, half * 32 + c % 32) >> (c % 128 / 32 * 2)) & 3;
    fields->q[c] = static_cast<std::uint8_t>(low | (high << 4));
  }
  std::memcpy(fields->scales, block + 192, 16);
  fields->d = HalfAt(block + 208);
}

}  // namespace

void ReadBlock(DType dtype, const std::byte* block, BlockFields* fields) {
  fields->d = HalfAt(block);  // first in every format but Q6_K
  fields->m = 0;
  switch (dtype) {
    case DType::kQ4_0:
      ReadNibbles(block + 2, fields->q);
      return;
    case DType::kQ4_1:
      fields->m = HalfAt(block + 2);
      ReadNibbles(block + 4, fields->q);
      return;
    case DType::kQ5_0:
      ReadNibbles(block + 6, fields->q);
      AddFifthBits(block + 2, fields->q);
      return;
    case DType::kQ5_1:
      fields->m = HalfAt(block + 2);
      ReadNibbles(block + 8, fields->q);
      AddFifthBits(block + 4, fields->q);
      return;
    case DType::kQ8_0:
      for (std::size_t i = 0; i < 32; ++i) fields->q[i] = ByteAt(block, i + 2) ^ 0x80;
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
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
}

SubScale SubScaleOf(const BlockShape& shape, const BlockFields& fields, std::size_t sub) {
  float d = F16ToF32(fields.d);
  if (shape.has_sub_scales) d *= static_cast<float>(fields.scales[sub]);
  if (!shape.has_minimum) return {d, -(static_cast<float>(shape.offset) * d)};
  const float m = F16ToF32(fields.m);
  if (!shape.has_sub_scales) return {d, m};
  return {d, -(m * static_cast<float>(fields.minimums[sub]))};
}

}  // namespace ashlar::kernels
