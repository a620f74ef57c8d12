// The codes of tiles in units (kernels/codec.h), a vector at a time, and their products with bytes.
#include <bit>
#include <cstring>

#include "kernels/simd/dot-inl.h"
#include "kernels/simd/vectors-inl.h"
#include "kernels/tile_layout.h"

#if defined(ASHLAR_KERNELS_SIMD_UNIT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_UNIT_CODES_INL_H_
#undef ASHLAR_KERNELS_SIMD_UNIT_CODES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_UNIT_CODES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

using DU16 = hn::Repartition<std::uint16_t, D>;

// A row of 64 codes is kVectorsPer16 vectors; `part` says which.
inline constexpr std::size_t kPartBytes = 4 * kLanes;

HWY_INLINE VU8 LoadPart(const std::byte* row, std::size_t part) {
  return hn::LoadU(DU8(), reinterpret_cast<const std::uint8_t*>(row) + part * kPartBytes);
}

// Which block a token of a segment lies in, and where. Blocks have a power of two of tokens: a
// division would take longer than a row of products.
struct BlockPlaces {
  int shift;
  std::size_t mask;

  explicit BlockPlaces(std::size_t block_tokens)
      : shift(std::countr_zero(block_tokens)), mask(block_tokens - 1) {}
  HWY_INLINE std::size_t BlockOf(std::size_t token) const { return token >> shift; }
  HWY_INLINE std::size_t SlotOf(std::size_t token) const { return token & mask; }
};

// Bits [kBit, kBit + kBits) of every byte, moved to bits [kTo, kTo + kBits).
template <std::size_t kBit, std::size_t kBits, std::size_t kTo>
HWY_INLINE VU8 Bits(VU8 bytes) {
  const DU8 d;
  const DU16 d16;
  const VU8 mask = hn::Set(d, static_cast<std::uint8_t>(((1u << kBits) - 1) << kTo));
  if constexpr (kBit > kTo) {
    return hn::And(hn::BitCast(d, hn::ShiftRight<kBit - kTo>(hn::BitCast(d16, bytes))), mask);
  } else if constexpr (kBit < kTo) {
    return hn::And(hn::BitCast(d, hn::ShiftLeft<kTo - kBit>(hn::BitCast(d16, bytes))), mask);
  } else {
    return hn::And(bytes, mask);
  }
}

// Row kRow's part of a unit's codes; of a codebook, their levels.
template <KvCodecKind kKind, std::size_t kRow>
HWY_INLINE VU8 LoadCodes(const std::byte* unit, std::size_t part) {
  constexpr std::size_t kNibbles = kRow / 2 * kUnitRowCodes;
  constexpr std::size_t kPairs = kRow / 4 * kUnitRowCodes;
  if constexpr (kKind == KvCodecKind::kQ8) {
    return LoadPart(unit + kRow * kUnitRowCodes, part);
  } else if constexpr (kKind == KvCodecKind::kQ4 || kKind == KvCodecKind::kKc4) {
    return Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part));
  } else if constexpr (kKind == KvCodecKind::kQ6) {
    return hn::Or(Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)),
                  Bits<kRow % 4 * 2, 2, 4>(LoadPart(unit + 256 + kPairs, part)));
  } else if constexpr (kKind == KvCodecKind::kQ5) {
    return hn::Or(Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)),
                  Bits<kRow, 1, 4>(LoadPart(unit + 256, part)));
  } else if constexpr (kKind == KvCodecKind::kKc2) {
    return Bits<kRow % 4 * 2, 2, 0>(LoadPart(unit + kPairs, part));
  } else if constexpr (kKind == KvCodecKind::kLm4) {
    const VU8 table = hn::LoadDup128(DU8(), kLevels16.data());
    return hn::TableLookupBytes(table, Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)));
  } else {
    static_assert(kKind == KvCodecKind::kLm3);
    const VU8 table = hn::LoadDup128(DU8(), kLevels8.data());
    return hn::TableLookupBytes(table,
                                hn::Or(Bits<kRow % 4 * 2, 2, 0>(LoadPart(unit + kPairs, part)),
                                       Bits<kRow, 1, 2>(LoadPart(unit + 128, part))));
  }
}

template <KvCodecKind kKind>
HWY_INLINE VI32 DotCodes(VI32 sum, VU8 codes, VI8 x) {
  if constexpr (kKind == KvCodecKind::kQ8 || IsCodebook(kKind)) {
    return DotU8S8(sum, codes, x);
  } else {
    return DotU7S8(sum, codes, x);
  }
}

// The same four bytes in every lane.
HWY_INLINE VI8 Repeat4(const std::byte* four) {
  std::int32_t word;
  std::memcpy(&word, four, sizeof word);
  return hn::BitCast(DI8(), hn::Set(DI32(), word));
}

HWY_INLINE V LoadHalves(const std::byte* p) { return LoadF16(D(), p); }

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
