// Products of quantised weights with activations as codes (kernels/activations.h).
//
// A unit of 32 columns and one vector of rows of W is eight registers of bytes, taken apart once
// and multiplied with a group of up to 32 rows of x; the sums of those stand in level 1. A product
// is one instruction with the codes as a broadcast from memory. The same loop serves one row (whose
// sum stays in a register) and many.
//
// Many rows are cut so that the codes of a cut stay in level 2 while panels pass by, as long as a
// group of rows fits in half of it (k up to 8,192).
//
// Panels are read from front to back, and products ask for what comes: the processor alone reads
// ahead not at all beside several rows, and not always far enough beside one (bench/README.md).
#include "kernels/simd/targets.h"  // first: says which targets exist

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/matmul_codes.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/digits-inl.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/weights-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// Codes of the rows that all panels of a call pass by before the next rows come.
constexpr std::size_t kRowsBytes = std::size_t{512} << 10;

// How far ahead of products a panel is asked for. Nearer and farther (1 and 4 KiB) were slower from
// 2 rows on, on Zen 4; for one row on Zen 5, 2 and 4 KiB do the same (bench/README.md).
constexpr std::size_t kAheadBytes = 2048;
constexpr std::size_t kLineBytes = 64;

// Whether weights are multiplied as q - 128: where bytes beyond 127 have no fast product.
template <DType kType>
constexpr bool IsCentred() {
  return ShapeOf(kType).max_q() > 127 && HWY_TARGET != HWY_AVX3;
}

HWY_INLINE std::int32_t FourCodes(const std::int8_t* codes) {
  std::int32_t four;
  std::memcpy(&four, codes, sizeof four);
  return four;
}

// --- Codes ---

HWY_INLINE void EncodeBlock(const float* x, ActivationBlock& out) {
  constexpr std::size_t kHalf = kVectorsPer16;
  const D d;
  const DU32 du;
  V values[2 * kHalf];
  auto bits = hn::Zero(du);  // of the greatest magnitude; anything not finite is greater still
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    values[i] = hn::LoadU(d, x + i * kLanes);
    bits = hn::Max(bits, hn::BitCast(du, hn::Abs(values[i])));
  }
  float inverse_step;
  out.step = StepOf(hn::GetLane(hn::MaxOfLanes(du, bits)), kActivationLevels, inverse_step);
  const V inverse = hn::Set(d, inverse_step);
  const hn::Rebind<std::int8_t, D> d8;
  std::int32_t sums[2];
  ASHLAR_UNROLL
  for (std::size_t half = 0; half < 2; ++half) {
    VI32 sum = hn::Zero(DI32());
    ASHLAR_UNROLL
    for (std::size_t i = half * kHalf; i < (half + 1) * kHalf; ++i) {
      // Within the levels: the product is at most 127 (1 + 2^-22). NaN and infinity have none.
      const V steps = inverse_step == 0.0f ? hn::Zero(d) : hn::Mul(values[i], inverse);
      const VI32 code = NearestOf(steps);
      sum = hn::Add(sum, code);
      hn::StoreU(hn::DemoteTo(d8, code), d8, out.code + i * kLanes);
    }
    sums[half] = hn::GetLane(hn::SumOfLanes(DI32(), sum));
    out.half_step_sum[half] = out.step * static_cast<float>(sums[half]);
    out.minus_half_sum[half] = -sums[half];
  }
  out.step_sum = out.step * static_cast<float>(sums[0] + sums[1]);
  out.minus_sum = -(sums[0] + sums[1]);
  out.unused = 0;
}

// --- sum + the products of vectors kFrom to kTo of a unit with their codes ---

#if HWY_TARGET == HWY_AVX3

template <DType kType, std::size_t kFrom, std::size_t kTo>
HWY_INLINE VI32 AddProducts(VI32 sum, const VU8 (&w)[kUnitVectors], const std::int8_t* codes) {
  using Four = std::int32_t __attribute__((may_alias));
  ASHLAR_UNROLL
  for (std::size_t v = kFrom; v < kTo; ++v) {
    const auto* const four = reinterpret_cast<const Four*>(codes + v * kVectorColumns);
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(w[v].raw), "m"(*four));
  }
  return sum;
}

#elif HWY_TARGET == HWY_AVX2

template <DType kType, std::size_t kFrom, std::size_t kTo>
HWY_INLINE VI32 AddProducts(VI32 sum, const VU8 (&w)[kUnitVectors], const std::int8_t* codes) {
  if constexpr (IsCentred<kType>()) {
    ASHLAR_UNROLL
    for (std::size_t v = kFrom; v < kTo; ++v) {
      const auto x = hn::BitCast(DI8(), hn::Set(DI32(), FourCodes(codes + v * kVectorColumns)));
      sum = DotS8S8(sum, hn::BitCast(DI8(), w[v]), x);
    }
    return sum;
  }
  // As many pairs of products as 16 bits are sure to hold.
  constexpr std::size_t kFit = 32767 / (2 * ShapeOf(kType).max_q() * kActivationLevels);
  constexpr std::size_t kTogether = kFit >= kTo - kFrom ? kTo - kFrom
                                    : kFit >= 4         ? 4
                                    : kFit >= 2         ? 2
                                                        : 1;
  const __m256i ones = _mm256_set1_epi16(1);
  ASHLAR_UNROLL
  for (std::size_t v = kFrom; v < kTo; v += kTogether) {
    __m256i pairs = _mm256_setzero_si256();
    ASHLAR_UNROLL
    for (std::size_t i = v; i < v + kTogether; ++i) {
      const __m256i x = _mm256_set1_epi32(FourCodes(codes + i * kVectorColumns));
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[i].raw, x));
    }
    sum = hn::Add(sum, VI32{_mm256_madd_epi16(pairs, ones)});
  }
  return sum;
}

#else

template <DType kType, std::size_t kFrom, std::size_t kTo>
HWY_INLINE VI32 AddProducts(VI32 sum, const VU8 (&w)[kUnitVectors], const std::int8_t* codes) {
  ASHLAR_UNROLL
  for (std::size_t v = kFrom; v < kTo; ++v) {
    const auto x = hn::BitCast(DI8(), hn::Set(DI32(), FourCodes(codes + v * kVectorColumns)));
    sum = IsCentred<kType>() ? DotS8S8(sum, hn::BitCast(DI8(), w[v]), x) : DotU7S8(sum, w[v], x);
  }
  return sum;
}

#endif

// --- A unit of weights ---

template <DType kType>
class Unit {
 public:
  static constexpr BlockShape kShape = ShapeOf(kType);
  static constexpr std::size_t kSubs = SubsPerUnit(kShape);

  HWY_INLINE Unit() {}

  // `lane`: the first row, in the panel. Units are loaded one after the other: what they share
  // stays.
  HWY_INLINE void Load(const std::byte* panel, std::size_t unit, std::size_t lane) {
    const UnitPlace place = PlaceOfUnit(kShape, unit);
    LoadVectors<0>(panel + place.words + lane * sizeof(std::uint32_t));
    if (unit % UnitsPerBlock(kShape) == 0) block_.Load(panel + place.header, lane);
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kSubs; ++s) {
      scales_[s].Load(block_, panel + place.header, place.sub + s, lane);
    }
  }

  // Continues the chain of one row of x.
  HWY_INLINE V Continue(const ActivationBlock& x, V acc) const {
    const V step = hn::Set(D(), x.step);
    if constexpr (kSubs == 1) {
      const VI32 sum = AddProducts<kType, 0, 8>(Start(x.minus_sum), w_, x.code);
      return AddSub(scales_[0], sum, step, x.step_sum, acc);
    } else {
      const VI32 first = AddProducts<kType, 0, 4>(Start(x.minus_half_sum[0]), w_, x.code);
      const VI32 second = AddProducts<kType, 4, 8>(Start(x.minus_half_sum[1]), w_, x.code);
      acc = AddSub(scales_[0], first, step, x.half_step_sum[0], acc);
      return AddSub(scales_[1], second, step, x.half_step_sum[1], acc);
    }
  }

 private:
  static_assert(kShape.has_minimum || (kShape.offset & (kShape.offset - 1)) == 0);

  template <std::size_t kVector>
  HWY_INLINE void LoadVectors(const std::byte* words) {
    auto q = UnitVector<kType, kVector>(words);
    if constexpr (IsCentred<kType>()) q = hn::Xor(q, hn::Set(DU32(), 0x80808080u));
    w_[kVector] = hn::BitCast(DU8(), q);
    if constexpr (kVector + 1 < kUnitVectors) LoadVectors<kVector + 1>(words);
  }

  // The share of the offset: what sums of products begin with.
  static HWY_INLINE VI32 Start(std::int32_t minus_sum) {
    constexpr std::uint32_t kOffset = IsCentred<kType>() ? kShape.offset - 128 : kShape.offset;
    if constexpr (kShape.has_minimum || kOffset == 0) {
      return hn::Zero(DI32());
    } else {
      return hn::ShiftLeft<std::bit_width(kOffset) - 1>(hn::Set(DI32(), minus_sum));
    }
  }

  static HWY_INLINE V AddSub(const SubScales<kType>& scales, VI32 sum, V step, float step_sum,
                             V acc) {
    acc = hn::MulAdd(hn::ConvertTo(D(), sum), hn::Mul(scales.d(), step), acc);
    if constexpr (kShape.has_minimum) acc = hn::MulAdd(scales.m(), hn::Set(D(), step_sum), acc);
    return acc;
  }

  VU8 w_[kUnitVectors];
  BlockScales<kType> block_;
  SubScales<kType> scales_[kSubs];
};

// Asks for the lines of memory in [from, from + bytes).
HWY_INLINE void PrefetchLines(std::uintptr_t from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(from + i));
  }
}

// Asks for as many bytes as a unit and its share of a header take, kAheadBytes on: beyond a panel's
// end stands the next, and asking for what is not there does nothing.
template <DType kType>
HWY_INLINE void PrefetchAhead(const std::byte* panel, std::size_t unit) {
  constexpr std::size_t kChunk = ChunkBytes(ShapeOf(kType));
  constexpr std::size_t kUnits = UnitsPerChunk(ShapeOf(kType));
  PrefetchLines(reinterpret_cast<std::uintptr_t>(panel) + unit * kChunk / kUnits + kAheadBytes,
                (kChunk + kUnits - 1) / kUnits);
}

// --- Panels ---

// One vector of rows of W, and a group of rows of x.
struct Piece {
  const std::byte* panel;
  std::size_t lane;   // the first row of W, in its panel
  std::size_t first;  // the same, in W
  std::size_t count;  // rows of W that exist
  const ActivationBlock* x;
  std::size_t row;  // of x: the first
  std::size_t rows;
};

HWY_INLINE V LoadBias(const MatmulCodesArgs& args, const Piece& piece) {
  if (args.bias == nullptr) return hn::Zero(D());
  return LoadFirst(D(), args.bias + piece.first, piece.count);
}

template <DType kType>
void MultiplyRow(const MatmulCodesArgs& args, const Piece& piece) {
  V sum = LoadBias(args, piece);
  Unit<kType> weights;
  for (std::size_t unit = 0; unit < args.w->k / kUnitColumns; ++unit) {
    PrefetchAhead<kType>(piece.panel, unit);
    weights.Load(piece.panel, unit, piece.lane);
    sum = weights.Continue(piece.x[unit], sum);
  }
  StoreFirst(sum, D(), args.y + piece.row * args.y_stride + piece.first, piece.count);
}

template <DType kType>
void MultiplyRows(const MatmulCodesArgs& args, const Piece& piece) {
  float* const y = args.y + piece.row * args.y_stride + piece.first;
  V sums[kActivationRows];
  for (std::size_t r = 0; r < piece.rows; ++r) {
    sums[r] = LoadBias(args, piece);
    __builtin_prefetch(y + r * args.y_stride, /*rw=*/1);  // 2 % of a prefill's products
  }
  const ActivationBlock* x = piece.x;
  Unit<kType> weights;
  for (std::size_t unit = 0; unit < args.w->k / kUnitColumns; ++unit) {
    PrefetchAhead<kType>(piece.panel, unit);
    weights.Load(piece.panel, unit, piece.lane);
    for (std::size_t r = 0; r < piece.rows; ++r) sums[r] = weights.Continue(*x++, sums[r]);
  }
  for (std::size_t r = 0; r < piece.rows; ++r) {
    StoreFirst(sums[r], D(), y + r * args.y_stride, piece.count);
  }
}

// Rows [begin, end) of x, whole groups, times the panel of rows of W from `first` on.
template <DType kType>
void MultiplyPanel(const MatmulCodesArgs& args, const std::byte* panel, std::size_t first,
                   std::size_t begin, std::size_t end) {
  Piece piece = {.panel = panel};
  for (std::size_t s = 0; s < kVectorsPer16; ++s) {
    piece.lane = LaneOfStream(s);
    piece.first = first + piece.lane;
    if (piece.first >= args.w->n) return;
    piece.count = std::min(kLanes, args.w->n - piece.first);
    for (std::size_t row = begin; row < end; row += kActivationRows) {
      piece.x = args.x + row * (args.w->k / kActivationColumns);
      piece.row = row;
      piece.rows = std::min(kActivationRows, end - row);
      piece.rows == 1 ? MultiplyRow<kType>(args, piece) : MultiplyRows<kType>(args, piece);
    }
  }
}

template <DType kType>
void MatmulCodesOf(const MatmulCodesArgs& args) {
  const std::size_t group_bytes =
      ActivationBlocks(kActivationRows, args.w->k) * sizeof(ActivationBlock);
  const std::size_t groups =
      std::max<std::size_t>(1, kRowsBytes / std::max<std::size_t>(1, group_bytes));
  const std::size_t panel_bytes = PackedPanelBytes(kType, args.w->k);
  for (std::size_t begin = 0; begin < args.rows; begin += groups * kActivationRows) {
    const std::size_t end = std::min(args.rows, begin + groups * kActivationRows);
    for (std::size_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      MultiplyPanel<kType>(args, args.w->data + panel * panel_bytes, panel * kPanelRows, begin,
                           end);
    }
  }
}

}  // namespace

void EncodeActivations(const EncodeActivationsArgs& args) {
  for (std::size_t c = 0; c < args.k; c += kActivationColumns) {
    EncodeBlock(args.x + c, args.out[c / kActivationColumns * args.stride]);
  }
}

void MatmulCodes(const MatmulCodesArgs& args) {
  switch (args.w->dtype) {
    case DType::kQ4_0:
      return MatmulCodesOf<DType::kQ4_0>(args);
    case DType::kQ4_1:
      return MatmulCodesOf<DType::kQ4_1>(args);
    case DType::kQ5_0:
      return MatmulCodesOf<DType::kQ5_0>(args);
    case DType::kQ5_1:
      return MatmulCodesOf<DType::kQ5_1>(args);
    case DType::kQ8_0:
      return MatmulCodesOf<DType::kQ8_0>(args);
    case DType::kQ4_K:
      return MatmulCodesOf<DType::kQ4_K>(args);
    case DType::kQ5_K:
      return MatmulCodesOf<DType::kQ5_K>(args);
    case DType::kQ6_K:
      return MatmulCodesOf<DType::kQ6_K>(args);
    case DType::kQ2_K:
      return MatmulCodesOf<DType::kQ2_K>(args);
    case DType::kQ3_K:
      return MatmulCodesOf<DType::kQ3_K>(args);
    case DType::kIQ4_NL:
      return MatmulCodesOf<DType::kIQ4_NL>(args);
    case DType::kMXFP4:
      return MatmulCodesOf<DType::kMXFP4>(args);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  ASHLAR_CHECK(false, "{} has no codes", NameOf(args.w->dtype));
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
