// How each quantised format's blocks are read: block_format.h's ReadBlock, with the format known
// when it is compiled. Included where blocks are read by the million; others call ReadBlock.
//
// Loops run over neighbouring bytes, so that compilers make vectors of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "kernels/block_format.h"

namespace ashlar::kernels {

inline std::uint8_t ByteAt(const std::byte* bytes, std::size_t index) {
  return std::to_integer<std::uint8_t>(bytes[index]);
}

inline std::uint16_t HalfAt(const std::byte* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

// 32 nibbles in 16 bytes: the low halves are elements 0..15, the high halves 16..31.
inline void ReadNibbles(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t i = 0; i < 16; ++i) code[i] = ByteAt(bytes, i) & 0xF;
  for (std::size_t i = 0; i < 16; ++i) code[i + 16] = ByteAt(bytes, i) >> 4;
}

// Bit i of a little-endian 32-bit word is bit 4 of element i.
inline void AddFifthBits(const std::byte* bytes, std::uint8_t* code) {
  std::uint32_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  for (std::size_t i = 0; i < 32; i += 4) {
    // Four bits to bit 0 of four bytes: the factor moves bit j to bit 8 j, and nothing else there.
    const std::uint32_t ones = (bits >> i & 0xF) * 0x00204081u & 0x01010101u;
    std::uint32_t four;
    std::memcpy(&four, code + i, sizeof four);
    four |= ones << 4;
    std::memcpy(code + i, &four, sizeof four);
  }
}

// Q4_K, Q5_K: eight 6-bit scales and eight 6-bit minimums in 12 bytes. Sub-blocks 0..3 keep theirs
// in the low six bits of bytes 0..3 (scales) and 4..7 (minimums); 4..7 keep the low four bits in
// the halves of bytes 8..11 and the high two in the top bits of the earlier bytes.
inline void ReadSixBitScales(const std::byte* bytes, BlockFields* fields) {
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
inline void ReadKNibbles(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t pairs = 0; pairs < 4; ++pairs) {
    const std::byte* const from = bytes + 32 * pairs;
    std::uint8_t* const out = code + 64 * pairs;
    for (std::size_t i = 0; i < 32; ++i) out[i] = ByteAt(from, i) & 0xF;
    for (std::size_t i = 0; i < 32; ++i) out[32 + i] = ByteAt(from, i) >> 4;
  }
}

inline void ReadQ4K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 16, fields->code);
}

inline void ReadQ5K(const std::byte* block, BlockFields* fields) {
  fields->m = HalfAt(block + 2);
  ReadSixBitScales(block + 4, fields);
  ReadKNibbles(block + 48, fields->code);
  for (std::size_t bit = 0; bit < 8; ++bit) {
    std::uint8_t* const out = fields->code + 32 * bit;
    for (std::size_t i = 0; i < 32; ++i) {
      out[i] |= static_cast<std::uint8_t>((ByteAt(block + 16, i) >> bit & 1) << 4);
    }
  }
}

// 128 columns share 64 bytes of nibbles and 32 bytes of bit pairs; 16 scale bytes; d comes last.
inline void ReadQ6K(const std::byte* block, BlockFields* fields) {
  for (std::size_t part = 0; part < 8; ++part) {
    const std::size_t half = part / 4;
    const std::size_t quarter = part % 4;
    const std::byte* const nibbles = block + 64 * half + 32 * (quarter % 2);
    const std::byte* const pairs = block + 128 + 32 * half;
    std::uint8_t* const out = fields->code + 32 * part;
    for (std::size_t i = 0; i < 32; ++i) {
      const int low = ByteAt(nibbles, i) >> 4 * (quarter / 2) & 0xF;
      const int high = ByteAt(pairs, i) >> 2 * quarter & 3;
      out[i] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
  std::memcpy(fields->scales, block + 192, 16);
  fields->d = HalfAt(block + 208);
}

// 128 columns share 32 bytes of bit pairs: the lowest ones are the first 32 columns.
inline void ReadBitPairs(const std::byte* bytes, std::uint8_t* code) {
  for (std::size_t part = 0; part < 8; ++part) {
    const std::byte* const pairs = bytes + 32 * (part / 4);
    std::uint8_t* const out = code + 32 * part;
    for (std::size_t i = 0; i < 32; ++i) out[i] = ByteAt(pairs, i) >> 2 * (part % 4) & 3;
  }
}

// 16 bytes of a scale (low half) and a minimum; bit pairs; d and m last.
inline void ReadQ2K(const std::byte* block, BlockFields* fields) {
  for (std::size_t i = 0; i < 16; ++i) {
    fields->scales[i] = static_cast<std::int8_t>(ByteAt(block, i) & 0xF);
    fields->minimums[i] = ByteAt(block, i) >> 4;
  }
  ReadBitPairs(block + 16, fields->code);
  fields->d = HalfAt(block + 80);
  fields->m = HalfAt(block + 82);
}

// Third bits: bit i of 32 bytes has columns 32 i ..; then bit pairs as in Q2_K; 12 bytes of scales:
// low four bits in the halves of the first eight, high two in the last four; d.
inline void ReadQ3K(const std::byte* block, BlockFields* fields) {
  const std::byte* const scales = block + 96;
  for (std::size_t i = 0; i < 16; ++i) {
    const int low = ByteAt(scales, i % 8) >> (i / 8 * 4) & 0xF;
    const int high = ByteAt(scales, 8 + i % 4) >> (i / 4 * 2) & 3;
    fields->scales[i] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  ReadBitPairs(block + 32, fields->code);
  for (std::size_t bit = 0; bit < 8; ++bit) {
    std::uint8_t* const out = fields->code + 32 * bit;
    for (std::size_t i = 0; i < 32; ++i) {
      out[i] |= static_cast<std::uint8_t>((ByteAt(block, i) >> bit & 1) << 2);
    }
  }
  fields->d = HalfAt(block + 108);
}

// A byte of exponent: 2^(e - 128) in bf16, whose two least ones are below its normal range.
inline std::uint16_t PowerOfTwo(std::uint8_t exponent) {
  if (exponent < 2) return exponent == 0 ? 0x0020 : 0x0040;
  return static_cast<std::uint16_t>((exponent - 1) << 7);
}

template <DType Type>
void ReadBlockOf(const std::byte* block, BlockFields* fields) {
  static_assert(IsQuantised(Type));
  fields->d = HalfAt(block);  // first in most formats
  fields->m = 0;
  if constexpr (Type == DType::kQ4_0 || Type == DType::kIQ4_NL) {
    ReadNibbles(block + 2, fields->code);
  } else if constexpr (Type == DType::kQ4_1) {
    fields->m = HalfAt(block + 2);
    ReadNibbles(block + 4, fields->code);
  } else if constexpr (Type == DType::kQ5_0) {
    ReadNibbles(block + 6, fields->code);
    AddFifthBits(block + 2, fields->code);
  } else if constexpr (Type == DType::kQ5_1) {
    fields->m = HalfAt(block + 2);
    ReadNibbles(block + 8, fields->code);
    AddFifthBits(block + 4, fields->code);
  } else if constexpr (Type == DType::kQ8_0) {
    for (std::size_t i = 0; i < 32; ++i) fields->code[i] = ByteAt(block, i + 2) ^ 0x80;
  } else if constexpr (Type == DType::kQ4_K) {
    ReadQ4K(block, fields);
  } else if constexpr (Type == DType::kQ5_K) {
    ReadQ5K(block, fields);
  } else if constexpr (Type == DType::kQ6_K) {
    ReadQ6K(block, fields);
  } else if constexpr (Type == DType::kQ2_K) {
    ReadQ2K(block, fields);
  } else if constexpr (Type == DType::kQ3_K) {
    ReadQ3K(block, fields);
  } else {
    static_assert(Type == DType::kMXFP4);
    fields->d = PowerOfTwo(ByteAt(block, 0));
    ReadNibbles(block + 1, fields->code);
  }
}

// Calls with_type.template operator()<dtype>() for the one that `dtype` is. Precondition:
// IsQuantised(dtype).
template <typename WithType>
void ForQuantisedType(DType dtype, WithType with_type) {
  switch (dtype) {
    case DType::kQ4_0:
      return with_type.template operator()<DType::kQ4_0>();
    case DType::kQ4_1:
      return with_type.template operator()<DType::kQ4_1>();
    case DType::kQ5_0:
      return with_type.template operator()<DType::kQ5_0>();
    case DType::kQ5_1:
      return with_type.template operator()<DType::kQ5_1>();
    case DType::kQ8_0:
      return with_type.template operator()<DType::kQ8_0>();
    case DType::kQ4_K:
      return with_type.template operator()<DType::kQ4_K>();
    case DType::kQ5_K:
      return with_type.template operator()<DType::kQ5_K>();
    case DType::kQ6_K:
      return with_type.template operator()<DType::kQ6_K>();
    case DType::kQ2_K:
      return with_type.template operator()<DType::kQ2_K>();
    case DType::kQ3_K:
      return with_type.template operator()<DType::kQ3_K>();
    case DType::kIQ4_NL:
      return with_type.template operator()<DType::kIQ4_NL>();
    case DType::kMXFP4:
      return with_type.template operator()<DType::kMXFP4>();
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
}

}  // namespace ashlar::kernels
