// Two ways through the same chains.
//
// Few rows (decode): each weight is decoded in registers and used at once for all rows; the
// weights' bytes stream from memory exactly once.
//
// Many rows (prefill): a tile of panels is decoded once, to f32 in the caller's scratch, a range of
// columns at a time; a register-blocked loop then runs over all rows. The chains pause in y between
// ranges: an f32 stored and loaded again is the same f32, so both ways give the same bits.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/matmul.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/weights-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// Rows up to which decoding in registers wins.
constexpr std::size_t kFusedRows = 3;
// Panels side by side on that way. Sums are chains, so rows * streams must be at least 4 to hide
// their latency; more would spill the 16 registers of AVX2.
constexpr std::size_t FusedPanels(DType dtype, std::size_t rows) {
  if (HWY_TARGET == HWY_AVX2) return rows * (IsQuantised(dtype) ? 2 : 1) <= 2 ? 2 : 1;
  return 4 / kVectorsPer16;
}

// Vectors of weights per column of a tile, and rows of x, that fit the registers as sums: 24 of 32
// (AVX-512, NEON), 12 of 16 (AVX2).
constexpr std::size_t kTileVectors = kVectorsPer16 == 4 ? 4 : 2;
constexpr std::size_t kTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;
constexpr std::size_t kTilePanels = kTileVectors / kVectorsPer16;

// The columns of y that stream s of the panel group starting at `panel` writes: their first index,
// and how many exist.
struct Outputs {
  std::size_t first;
  std::size_t count;
};
HWY_INLINE Outputs OutputsOf(const MatmulArgs& args, std::size_t panel, std::size_t s) {
  const std::size_t first = panel * kPanelRows + s * kLanes;
  const std::size_t left = first < args.w->n ? args.w->n - first : 0;
  return {first, left < kLanes ? left : kLanes};
}

HWY_INLINE V LoadBias(const MatmulArgs& args, const Outputs& outputs) {
  const D d;
  if (args.bias == nullptr || outputs.count == 0) return hn::Zero(d);
  return LoadFirst(d, args.bias + outputs.first, outputs.count);
}

HWY_INLINE void StoreOutputs(const MatmulArgs& args, std::size_t row, const Outputs& outputs, V v) {
  StoreFirst(v, D(), args.y + row * args.y_stride + outputs.first, outputs.count);
}

// --- Few rows ---

template <std::size_t kRows, std::size_t kStreams>
struct FusedSums {
  const float* x;
  std::size_t x_stride;
  V sums[kRows][kStreams];

  HWY_INLINE void Column(std::size_t c, const V (&w)[kStreams]) {
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V xr = hn::Set(D(), x[r * x_stride + c]);
      ASHLAR_UNROLL
      for (std::size_t s = 0; s < kStreams; ++s) sums[r][s] = hn::MulAdd(w[s], xr, sums[r][s]);
    }
  }
};

template <DType kType, std::size_t kRows, std::size_t kPanels>
void FusedGroup(const MatmulArgs& args, std::size_t panel, std::size_t panel_bytes) {
  constexpr std::size_t kStreams = kPanels * kVectorsPer16;
  FusedSums<kRows, kStreams> sink{args.x, args.x_stride, {}};
  ASHLAR_UNROLL
  for (std::size_t s = 0; s < kStreams; ++s) {
    const V bias = LoadBias(args, OutputsOf(args, panel, s));
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) sink.sums[r][s] = bias;
  }
  const PanelWalk walk{args.w->data + panel * panel_bytes, panel_bytes, 0, args.w->k};
  WalkColumns<kType, kStreams>(walk, sink);
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) {
      StoreOutputs(args, r, OutputsOf(args, panel, s), sink.sums[r][s]);
    }
  }
}

template <DType kType, std::size_t kRows>
void FusedMatmul(const MatmulArgs& args, std::size_t panel_bytes) {
  constexpr std::size_t kPanels = FusedPanels(kType, kRows);
  std::size_t panel = args.panel_begin;
  for (; panel + kPanels <= args.panel_end; panel += kPanels) {
    FusedGroup<kType, kRows, kPanels>(args, panel, panel_bytes);
  }
  if constexpr (kPanels > 2) {
    for (; panel + 2 <= args.panel_end; panel += 2) {
      FusedGroup<kType, kRows, 2>(args, panel, panel_bytes);
    }
  }
  for (; panel < args.panel_end; ++panel) FusedGroup<kType, kRows, 1>(args, panel, panel_bytes);
}

// --- Many rows ---

template <std::size_t kStreams>
struct DecodedColumns {
  float* out;  // [columns, kStreams * kLanes], aligned
  HWY_INLINE void Column(std::size_t, const V (&w)[kStreams]) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) hn::Store(w[s], D(), out + s * kLanes);
    out += kStreams * kLanes;
  }
};

// Columns [first, last) of the panels from `panel` on; their decoded weights are in args.scratch.
struct Tile {
  std::size_t panel;
  std::size_t first;
  std::size_t last;
};

template <std::size_t kRows, std::size_t kVectors>
void MultiplyTile(const MatmulArgs& args, const Tile& tile, std::size_t row) {
  const D d;
  V sums[kRows][kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Outputs outputs = OutputsOf(args, tile.panel, v);
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* y = args.y + (row + r) * args.y_stride + outputs.first;
      sums[r][v] = tile.first == 0 ? LoadBias(args, outputs) : LoadFirst(d, y, outputs.count);
    }
  }
  const float* x = args.x + row * args.x_stride;
  const float* w = args.scratch;
  for (std::size_t c = tile.first; c < tile.last; ++c, w += kVectors * kLanes) {
    V wv[kVectors];
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) wv[v] = hn::Load(d, w + v * kLanes);
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V xr = hn::Set(d, x[r * args.x_stride + c]);
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(wv[v], xr, sums[r][v]);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Outputs outputs = OutputsOf(args, tile.panel, v);
    for (std::size_t r = 0; r < kRows; ++r) StoreOutputs(args, row + r, outputs, sums[r][v]);
  }
}

// MultiplyTile<rows, kVectors> for a number of rows known only now.
template <std::size_t kVectors, std::size_t kRows = kTileRows>
HWY_INLINE void MultiplyRows(const MatmulArgs& args, const Tile& tile, std::size_t row,
                             std::size_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<kVectors, kRows - 1>(args, tile, row, rows);
  }
  MultiplyTile<kRows, kVectors>(args, tile, row);
}

template <DType kType, std::size_t kPanels>
void TiledPanels(const MatmulArgs& args, std::size_t panel, std::size_t panel_bytes) {
  constexpr std::size_t kVectors = kPanels * kVectorsPer16;
  Tile tile{panel, 0, 0};
  do {
    tile.last = std::min(args.w->k, tile.first + kMatmulColumns);
    DecodedColumns<kVectors> decoded{args.scratch};
    WalkColumns<kType, kVectors>(
        {args.w->data + panel * panel_bytes, panel_bytes, tile.first, tile.last}, decoded);
    std::size_t row = 0;
    while (row < args.rows) {  // groups of equal size: 13 rows are 7 + 6, not 12 + 1
      const std::size_t groups = (args.rows - row + kTileRows - 1) / kTileRows;
      const std::size_t rows = (args.rows - row + groups - 1) / groups;
      MultiplyRows<kVectors>(args, tile, row, rows);
      row += rows;
    }
    tile.first = tile.last;
  } while (tile.first < args.w->k);
}

template <DType kType>
void MatmulOf(const MatmulArgs& args) {
  const std::size_t panel_bytes = PackedPanelBytes(kType, args.w->k);
  switch (args.rows) {
    case 0:
      return;
    case 1:
      return FusedMatmul<kType, 1>(args, panel_bytes);
    case 2:
      return FusedMatmul<kType, 2>(args, panel_bytes);
    case 3:
      return FusedMatmul<kType, 3>(args, panel_bytes);
    default:
      break;
  }
  static_assert(kFusedRows == 3);
  std::size_t panel = args.panel_begin;
  if constexpr (kTilePanels > 1) {
    for (; panel + kTilePanels <= args.panel_end; panel += kTilePanels) {
      TiledPanels<kType, kTilePanels>(args, panel, panel_bytes);
    }
  }
  for (; panel < args.panel_end; ++panel) TiledPanels<kType, 1>(args, panel, panel_bytes);
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  switch (args.w->dtype) {
    case DType::kF32:
      return MatmulOf<DType::kF32>(args);
    case DType::kF16:
      return MatmulOf<DType::kF16>(args);
    case DType::kBF16:
      return MatmulOf<DType::kBF16>(args);
    case DType::kQ4_0:
      return MatmulOf<DType::kQ4_0>(args);
    case DType::kQ4_1:
      return MatmulOf<DType::kQ4_1>(args);
    case DType::kQ5_0:
      return MatmulOf<DType::kQ5_0>(args);
    case DType::kQ5_1:
      return MatmulOf<DType::kQ5_1>(args);
    case DType::kQ8_0:
      return MatmulOf<DType::kQ8_0>(args);
    case DType::kQ4_K:
      return MatmulOf<DType::kQ4_K>(args);
    case DType::kQ5_K:
      return MatmulOf<DType::kQ5_K>(args);
    case DType::kQ6_K:
      return MatmulOf<DType::kQ6_K>(args);
    case DType::kQ2_K:
      return MatmulOf<DType::kQ2_K>(args);
    case DType::kQ3_K:
      return MatmulOf<DType::kQ3_K>(args);
    case DType::kIQ4_NL:
      return MatmulOf<DType::kIQ4_NL>(args);
    case DType::kMXFP4:
      return MatmulOf<DType::kMXFP4>(args);
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
