// Reading packed weights: for each column of a panel, the f32 values of kLanes neighbouring rows,
// as packed_layout.h stores them and DequantizeRow defines them.
//
// Several *streams* are read side by side: stream s is the vector of rows (s % kVectorsPer16) *
// kLanes of panel s / kVectorsPer16. Independent streams are what hides the latency of fused
// multiply-adds.
#include "hwy/cache_control.h"
#include "kernels/packed_layout.h"
#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_WEIGHTS_INL_H_
#undef ASHLAR_KERNELS_SIMD_WEIGHTS_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_WEIGHTS_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

// How far ahead of the reads each panel's bytes are asked for. Between 1 and 8 KiB decode speed
// differs by less than 10 % (measured on Zen 4).
inline constexpr std::size_t kPrefetchBytes = 4096;

// Neighbouring panels, read from column `first` on.
struct PanelWalk {
  const std::byte* panel;  // the first panel
  std::size_t panel_bytes;
  std::size_t first;  // a whole number of dtype blocks
  std::size_t last;   // one past the last column, the same
};

HWY_INLINE hn::Vec<DU32> LoadWords(const std::byte* p) {
  return hn::LoadU(DU32(), reinterpret_cast<const std::uint32_t*>(p));
}

// The lanes of stream s start this many elements into a row of 16 elements of its panel.
constexpr std::size_t LaneOfStream(std::size_t s) { return s % kVectorsPer16 * kLanes; }

// Vector kVector of a unit (packed_layout.h): q (block_format.h) of four columns as bytes of each
// row's lane. `words`: the unit, from the first lane's bytes on.
template <DType kType, std::size_t kVector>
HWY_INLINE hn::Vec<DU32> UnitVector(const std::byte* words) {
  constexpr BlockShape kShape = ShapeOf(kType);
  constexpr std::size_t kLow = PlaneBits(kShape, Plane::kLow);
  constexpr std::size_t kHigh = PlaneBits(kShape, Plane::kHigh);
  const DU32 du;
  constexpr PlanePlace kPlace = PlaceIn(kShape, Plane::kLow, kVector);
  auto q = LoadWords(words + kPlace.word * kWordRowBytes);
  if constexpr (kPlace.shift > 0) q = hn::ShiftRight<kPlace.shift>(q);
  if constexpr (kLow < 8) q = hn::And(q, hn::Set(du, FieldsMask(kLow)));
  if constexpr (kHigh > 0) {
    constexpr PlanePlace kAbove = PlaceIn(kShape, Plane::kHigh, kVector);
    auto above = LoadWords(words + kAbove.word * kWordRowBytes);
    if constexpr (kAbove.shift < kLow) above = hn::ShiftLeft<kLow - kAbove.shift>(above);
    if constexpr (kAbove.shift > kLow) above = hn::ShiftRight<kAbove.shift - kLow>(above);
    q = hn::Or(q, hn::And(above, hn::Set(du, FieldsMask(kHigh) << kLow)));
  }
  if constexpr (kShape.codebook != Codebook::kNone) {
    const hn::Repartition<std::uint8_t, DU32> d8;
    const auto levels = hn::LoadDup128(d8, LevelsOf(kShape.codebook).data());
    q = hn::BitCast(du, hn::TableLookupBytes(levels, hn::BitCast(d8, q)));
  }
  return q;
}

// What a header says of a block as a whole, for kLanes rows: d, and m, negated where minimums are
// subtracted (K-quants).
template <DType kType>
class BlockScales {
 public:
  static constexpr BlockShape kShape = ShapeOf(kType);

  // (An implicit constructor would lack the target's attributes.)
  HWY_INLINE BlockScales() : d_(hn::Zero(D())), m_(hn::Zero(D())) {}

  // `header`: of the packed block; `lane`: the first row.
  HWY_INLINE void Load(const std::byte* header, std::size_t lane) {
    const D d;
    d_ = kShape.has_bf16_scale ? LoadBf16(d, header + 2 * lane) : LoadF16(d, header + 2 * lane);
    if constexpr (kShape.has_minimum) {
      m_ = LoadF16(d, header + 2 * (kPanelRows + lane));
      if constexpr (kShape.has_sub_scales) m_ = hn::Neg(m_);
    }
  }

  HWY_INLINE V d() const { return d_; }
  HWY_INLINE V m() const { return m_; }

 private:
  V d_;
  V m_;
};

// d and m of a sub-block for kLanes rows.
template <DType kType>
class SubScales {
 public:
  static constexpr BlockShape kShape = ShapeOf(kType);

  HWY_INLINE SubScales() {}

  // `header` and `lane` as for its block.
  HWY_INLINE void Load(const BlockScales<kType>& block, const std::byte* header, std::size_t sub,
                       std::size_t lane) {
    const std::byte* const bytes =
        header + PackedSubHeadersOffset(kShape) + sub * PackedSubHeaderBytes(kShape) + lane;
    d_ = block.d();
    if constexpr (kShape.has_sub_scales) d_ = hn::Mul(d_, LoadBytes<std::int8_t>(bytes));
    if constexpr (!kShape.has_minimum) {
      m_ = hn::Mul(d_, hn::Set(D(), -static_cast<float>(kShape.offset)));
    } else {
      m_ = block.m();
      if constexpr (kShape.has_sub_scales) {
        m_ = hn::Mul(m_, LoadBytes<std::uint8_t>(bytes + kPanelRows));
      }
    }
  }

  HWY_INLINE V d() const { return d_; }
  HWY_INLINE V m() const { return m_; }

 private:
  template <typename Byte>
  static HWY_INLINE V LoadBytes(const std::byte* p) {
    const hn::Rebind<Byte, D> d8;
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const Byte*>(p));
    return hn::ConvertTo(D(), hn::PromoteTo(DI32(), bytes));
  }

  V d_;
  V m_;
};

// Weights in f32 of bytes in place: q * 2^8 is exact, d / 2^8 is, and so is their product. The one
// rounding is that of q * d + m.
template <DType kType>
class Scales {
 public:
  HWY_INLINE Scales() {}

  HWY_INLINE void Load(const std::byte* header, std::size_t sub, std::size_t lane) {
    BlockScales<kType> block;
    block.Load(header, lane);
    SubScales<kType> scales;
    scales.Load(block, header, sub, lane);
    d_[0] = scales.d();
    d_[1] = hn::Mul(scales.d(), hn::Set(D(), 0x1p-8f));
    m_ = scales.m();
  }

  // The weights of byte kByte (0 or 1) of the lanes.
  template <std::size_t kByte>
  HWY_INLINE V Weights(hn::Vec<DU32> q) const {
    const auto field = hn::And(q, hn::Set(DU32(), 0xFFu << (8 * kByte)));
    return hn::MulAdd(hn::ConvertTo(D(), hn::BitCast(DI32(), field)), d_[kByte], m_);
  }

 private:
  V d_[2];
  V m_;
};

// Where the bytes to ask for lie: in kPanels neighbouring panels. One line of each at a time,
// between other work: the processor holds only some twenty misses at once.
template <std::size_t kPanels>
struct Ahead {
  const std::byte* first;
  std::size_t panel_bytes;
  HWY_INLINE void Line(std::size_t offset) const {
    for (std::size_t p = 0; p < kPanels; ++p) hwy::Prefetch(first + p * panel_bytes + offset);
  }
};

// Calls sink.Column(c, weights) for the columns of vectors kVector on of a unit, c from `column`.
template <DType kType, std::size_t kVector, std::size_t kStreams, std::size_t kPanels, class Sink>
HWY_INLINE void WalkVectors(const std::byte* const (&words)[kStreams],
                            const Scales<kType> (&scales)[kStreams][2],
                            const Ahead<kPanels>& prefetch, std::size_t column, Sink& sink) {
  constexpr BlockShape kShape = ShapeOf(kType);
  constexpr std::size_t kSub = kVector * kVectorColumns / kShape.sub_columns;
  V w[kStreams];
  hn::Vec<DU32> q[kStreams];
  if constexpr (kVector <= kShape.bits) prefetch.Line(kVector * kWordRowBytes);
  ASHLAR_UNROLL
  for (std::size_t s = 0; s < kStreams; ++s) q[s] = UnitVector<kType, kVector>(words[s]);
  ASHLAR_UNROLL
  for (std::size_t half = 0; half < 2; ++half) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) w[s] = scales[s][kSub].template Weights<0>(q[s]);
    sink.Column(column++, w);
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) {
      w[s] = scales[s][kSub].template Weights<1>(q[s]);
      q[s] = hn::ShiftRight<16>(q[s]);
    }
    sink.Column(column++, w);
  }
  if constexpr (kVector + 1 < kUnitVectors) {
    WalkVectors<kType, kVector + 1>(words, scales, prefetch, column, sink);
  }
}

template <DType kType, std::size_t kStreams, class Sink>
HWY_INLINE void WalkQuantised(const PanelWalk& walk, Sink& sink) {
  constexpr BlockShape kShape = ShapeOf(kType);
  constexpr std::size_t kPanels = (kStreams + kVectorsPer16 - 1) / kVectorsPer16;
  for (std::size_t c = walk.first; c < walk.last; c += kUnitColumns) {
    const UnitPlace place = PlaceOfUnit(kShape, c / kUnitColumns);
    Scales<kType> scales[kStreams][2];
    const std::byte* words[kStreams];
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* panel = walk.panel + s / kVectorsPer16 * walk.panel_bytes;
      words[s] = panel + place.words + LaneOfStream(s) * sizeof(std::uint32_t);
      scales[s][0].Load(panel + place.header, place.sub, LaneOfStream(s));
      if constexpr (SubsPerUnit(kShape) == 2) {
        scales[s][1].Load(panel + place.header, place.sub + 1, LaneOfStream(s));
      }
    }
    // Beyond a panel's end lies the next one: the panel after the last stream's is the one to come.
    const std::size_t ahead = place.words + kPrefetchBytes;
    const std::byte* next =
        walk.panel + (ahead < walk.panel_bytes ? ahead : ahead + (kPanels - 1) * walk.panel_bytes);
    WalkVectors<kType, 0>(words, scales, Ahead<kPanels>{next, walk.panel_bytes}, c, sink);
  }
}

template <DType kType, std::size_t kStreams, class Sink>
HWY_INLINE void WalkPlain(const PanelWalk& walk, Sink& sink) {
  constexpr std::size_t kBytes = kType == DType::kF32 ? 4 : 2;
  const D d;
  for (std::size_t c = walk.first; c < walk.last; ++c) {
    V w[kStreams];
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* panel = walk.panel + s / kVectorsPer16 * walk.panel_bytes;
      const std::byte* p = panel + (c * kPanelRows + LaneOfStream(s)) * kBytes;
      if constexpr (kType == DType::kF32) w[s] = LoadF32(d, p);
      if constexpr (kType == DType::kF16) w[s] = LoadF16(d, p);
      if constexpr (kType == DType::kBF16) w[s] = LoadBf16(d, p);
    }
    sink.Column(c, w);
  }
}

// Calls sink.Column(c, w) for c = first .. last - 1 in order; w: V [kStreams], the weights of
// column c.
template <DType kType, std::size_t kStreams, class Sink>
HWY_INLINE void WalkColumns(const PanelWalk& walk, Sink& sink) {
  if constexpr (IsQuantised(kType)) {
    WalkQuantised<kType, kStreams>(walk, sink);
  } else {
    WalkPlain<kType, kStreams>(walk, sink);
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
