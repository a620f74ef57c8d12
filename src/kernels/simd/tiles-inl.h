// A tile of query rows against tiles of K and of V, of any kind: what attention.cc is put together
// from. Defined in score_tiles.cc and value_tiles.cc, the two that take long to compile.
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_TILES_INL_H_
#undef ASHLAR_KERNELS_SIMD_TILES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_TILES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

// The most rows of a tile.
inline constexpr std::size_t kTileRows = ASHLAR_SANITIZED ? 2 : kAttendTileRows;

// `count` rows, 1 to kTileRows, in all that follows. prepared: of the first row, for kinds in units
// that have it; scratch: 4 * kMaxHeadDim floats.
void ScoreTiles(KvCodecKind kind, std::size_t count, const ScoreRowsArgs& rows,
                const std::byte* prepared, float* scratch, ReadAhead& ahead);
// How often that asks its ReadAhead, at least.
std::size_t ScoreAsks(KvCodecKind kind, std::size_t count, std::size_t tokens,
                      std::size_t head_dim);

// Raw kinds and fp8 add to acc, kinds in units overwrite it. scales: 2 * kSegmentTokens floats;
// digits: [count, 2, kSegmentTokens].
void WeighTiles(KvCodecKind kind, std::size_t count, const AccumulateRowsArgs& rows, float* scales,
                std::int8_t* digits, ReadAhead& ahead);
std::size_t WeighAsks(KvCodecKind kind, std::size_t count, std::size_t tokens,
                      std::size_t value_dim);

// V from the latent, sealed and own tokens: acc of rows [row, row + count). weights: [count,
// kSegmentTokens].
void WeighLatent(const AttendArgs& args, std::size_t row, std::size_t count, const float* weights);

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
