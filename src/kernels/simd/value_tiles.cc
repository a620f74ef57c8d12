// Weighted values of a tile of rows, of every kind of V.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/value_tiles.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/latent_tiles-inl.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/tiles-inl.h"
#include "kernels/simd/unit_values-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

template <std::size_t kRows>
void WeighRowsOf(KvCodecKind kind, const AccumulateRowsArgs& rows, float* scales,
                 std::int8_t* digits, ReadAhead& ahead) {
  const AccumulateUnitsArgs units = {.rows = rows, .scales = scales, .digits = digits};
  switch (kind) {
    case KvCodecKind::kF32:
      return AccumulateRaw<KvCodecKind::kF32, kRows>(rows, ahead);
    case KvCodecKind::kF16:
      return AccumulateRaw<KvCodecKind::kF16, kRows>(rows, ahead);
    case KvCodecKind::kBF16:
      return AccumulateRaw<KvCodecKind::kBF16, kRows>(rows, ahead);
    case KvCodecKind::kFp8:
      return AccumulateRaw<KvCodecKind::kFp8, kRows>(rows, ahead);
    case KvCodecKind::kQ8:
      return AccumulateUnits<KvCodecKind::kQ8, kRows>(units, ahead);
    case KvCodecKind::kQ6:
      return AccumulateUnits<KvCodecKind::kQ6, kRows>(units, ahead);
    case KvCodecKind::kQ5:
      return AccumulateUnits<KvCodecKind::kQ5, kRows>(units, ahead);
    case KvCodecKind::kQ4:
      return AccumulateUnits<KvCodecKind::kQ4, kRows>(units, ahead);
    case KvCodecKind::kKc4:
      return AccumulateUnits<KvCodecKind::kKc4, kRows>(units, ahead);
    case KvCodecKind::kKc2:
      return AccumulateUnits<KvCodecKind::kKc2, kRows>(units, ahead);
    case KvCodecKind::kLm4:
      return AccumulateUnits<KvCodecKind::kLm4, kRows>(units, ahead);
    case KvCodecKind::kLm3:
      return AccumulateUnits<KvCodecKind::kLm3, kRows>(units, ahead);
  }
}

// For a number of rows known only now.
template <std::size_t kRows = kTileRows>
HWY_INLINE void WeighCount(std::size_t count, KvCodecKind kind, const AccumulateRowsArgs& rows,
                           float* scales, std::int8_t* digits, ReadAhead& ahead) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      return WeighCount<kRows - 1>(count, kind, rows, scales, digits, ahead);
    }
  }
  WeighRowsOf<kRows>(kind, rows, scales, digits, ahead);
}

template <std::size_t kRows = kTileRows>
HWY_INLINE void WeighLatentCount(std::size_t count, const AttendArgs& args, std::size_t row,
                                 const float* weights) {
  if constexpr (kRows > 1) {
    if (count < kRows) return WeighLatentCount<kRows - 1>(count, args, row, weights);
  }
  AccumulateLatent<kRows>(args, row, weights);
}

}  // namespace

void WeighTiles(KvCodecKind kind, std::size_t count, const AccumulateRowsArgs& rows, float* scales,
                std::int8_t* digits, ReadAhead& ahead) {
  WeighCount(count, kind, rows, scales, digits, ahead);
}

std::size_t WeighAsks(KvCodecKind kind, std::size_t count, std::size_t tokens,
                      std::size_t value_dim) {
  if (!InUnits(kind)) return AccumulateCalls(count, tokens, value_dim);
  return AccumulateUnitCalls(count, tokens, value_dim);
}

void WeighLatent(const AttendArgs& args, std::size_t row, std::size_t count, const float* weights) {
  WeighLatentCount(count, args, row, weights);
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
