// Scores of a tile of rows, of every kind of K.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/score_tiles.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/tiles-inl.h"
#include "kernels/simd/unit_scores-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

template <std::size_t kRows>
void ScoreRowsOf(KvCodecKind kind, const ScoreRowsArgs& rows, const std::byte* prepared,
                 float* scratch, ReadAhead& ahead) {
  const ScoreUnitsArgs units = {.rows = rows, .prepared = prepared, .scratch = scratch};
  const auto by_channel = [&]<KvCodecKind kKind>() HWY_ATTR {
    for (std::size_t r = 0; r < kRows; ++r) {
      ScoreRowsArgs row = rows;
      row.q += r * rows.q_stride;
      row.logits += r * kSegmentTokens;
      ScoreChannelScaled<kKind>(row, scratch);
    }
  };
  switch (kind) {
    case KvCodecKind::kF32:
      return ScoreRaw<KvCodecKind::kF32, kRows>(rows, ahead);
    case KvCodecKind::kF16:
      return ScoreRaw<KvCodecKind::kF16, kRows>(rows, ahead);
    case KvCodecKind::kBF16:
      return ScoreRaw<KvCodecKind::kBF16, kRows>(rows, ahead);
    case KvCodecKind::kFp8:
      return ScoreRaw<KvCodecKind::kFp8, kRows>(rows, ahead);
    case KvCodecKind::kQ8:
      return ScoreUnits<KvCodecKind::kQ8, kRows>(units, ahead);
    case KvCodecKind::kQ6:
      return ScoreUnits<KvCodecKind::kQ6, kRows>(units, ahead);
    case KvCodecKind::kQ5:
      return ScoreUnits<KvCodecKind::kQ5, kRows>(units, ahead);
    case KvCodecKind::kQ4:
      return ScoreUnits<KvCodecKind::kQ4, kRows>(units, ahead);
    case KvCodecKind::kKc4:
      return by_channel.template operator()<KvCodecKind::kKc4>();
    case KvCodecKind::kKc2:
      return by_channel.template operator()<KvCodecKind::kKc2>();
    case KvCodecKind::kLm4:
      return ScoreUnits<KvCodecKind::kLm4, kRows>(units, ahead);
    case KvCodecKind::kLm3:
      return ScoreUnits<KvCodecKind::kLm3, kRows>(units, ahead);
  }
}

// ScoreRowsOf<count> for a number of rows known only now.
template <std::size_t kRows = kTileRows>
HWY_INLINE void ScoreCount(std::size_t count, KvCodecKind kind, const ScoreRowsArgs& rows,
                           const std::byte* prepared, float* scratch, ReadAhead& ahead) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      return ScoreCount<kRows - 1>(count, kind, rows, prepared, scratch, ahead);
    }
  }
  ScoreRowsOf<kRows>(kind, rows, prepared, scratch, ahead);
}

}  // namespace

void ScoreTiles(KvCodecKind kind, std::size_t count, const ScoreRowsArgs& rows,
                const std::byte* prepared, float* scratch, ReadAhead& ahead) {
  ScoreCount(count, kind, rows, prepared, scratch, ahead);
}

std::size_t ScoreAsks(KvCodecKind kind, std::size_t count, std::size_t tokens,
                      std::size_t head_dim) {
  if (!InUnits(kind)) return ScoreCalls(count, tokens, head_dim);
  return ScoreUnitCalls(kind, count, tokens, head_dim);
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
