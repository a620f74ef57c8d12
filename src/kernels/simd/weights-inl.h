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

// The lanes of stream s start this many elements into a row of 16 elements of its panel.
constexpr std::size_t LaneOfStream(std::size_t s) { return s % kVectorsPer16 * kLanes; }

// d and m of one sub-block for kLanes rows, with d also divided by the powers of two at which
// fields stand in a word.
template <DType kType>
class Scales {
 public:
  static constexpr BlockShape kShape = ShapeOf(kType);
  // A word is taken in two halves of this many fields: fewer copies of d in registers for one
  // shift.
  static constexpr std::size_t kFieldsPerHalf = (FieldsPerWord(kShape) + 1) / 2;

  HWY_INLINE Scales() {}  // an implicit constructor would lack the target's attributes

  // `header` and `sub`: this stream's lanes in the packed block's header / sub-block
  // (packed_layout.h), as byte address of lane 0 of the panel.
  HWY_INLINE void Load(const std::byte* header, const std::byte* sub, std::size_t lane) {
    const D d;
    V scale = LoadF16(d, header + 2 * lane);
    if constexpr (kShape.has_sub_scales) scale = hn::Mul(scale, LoadBytes<std::int8_t>(sub + lane));
    if constexpr (!kShape.has_minimum) {
      m_ = hn::Mul(scale, hn::Set(d, -static_cast<float>(kShape.offset)));
    } else {
      m_ = LoadF16(d, header + 2 * (kPanelRows + lane));
      if constexpr (kShape.has_sub_scales) {
        m_ = hn::Neg(hn::Mul(m_, LoadBytes<std::uint8_t>(sub + kPanelRows + lane)));
      }
    }
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < kFieldsPerHalf; ++i) {
      d_[i] = hn::Mul(scale, hn::Set(d, 1.0f / static_cast<float>(1u << (i * kShape.bits))));
    }
  }

  // The weights of the field at bit `i * bits` of the words. q * 2^p has at most 8 significant
  // bits, d / 2^p is exact, and so is their product: the one rounding is that of q * d + m.
  HWY_INLINE V Weights(hn::Vec<DU32> words, std::size_t i) const {
    const DU32 du;
    const DI32 di;
    constexpr std::uint32_t kMask = (1u << kShape.bits) - 1;
    const auto field = hn::And(words, hn::Set(du, kMask << (i * kShape.bits)));
    return hn::MulAdd(hn::ConvertTo(D(), hn::BitCast(di, field)), d_[i], m_);
  }

 private:
  template <typename Byte>
  static HWY_INLINE V LoadBytes(const std::byte* p) {
    const hn::Rebind<Byte, D> d8;
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const Byte*>(p));
    return hn::ConvertTo(D(), hn::PromoteTo(DI32(), bytes));
  }

  V d_[kFieldsPerHalf];
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

// Calls sink.Column(c, weights) for the columns of one sub-block, c counting from `column`.
template <DType kType, std::size_t kStreams, std::size_t kPanels, class Sink>
HWY_INLINE void WalkSubBlock(const std::byte* const (&sub)[kStreams],
                             const Ahead<kPanels>& prefetch, std::size_t column,
                             const Scales<kType> (&scales)[kStreams], Sink& sink) {
  constexpr BlockShape kShape = ShapeOf(kType);
  constexpr std::size_t kHalf = Scales<kType>::kFieldsPerHalf;
  constexpr std::size_t kFields = FieldsPerWord(kShape);
  constexpr std::size_t kWords = WordsPerSub(kShape);
  constexpr std::size_t kSpareColumns = kShape.sub_columns - WholeColumns(kShape);
  const DU32 du;
  hn::Vec<DU32> spare[kStreams];
  V w[kStreams];
  ASHLAR_UNROLL
  for (std::size_t s = 0; s < kStreams; ++s) spare[s] = hn::Zero(du);
  for (std::size_t word = 0; word < kWords; ++word) {
    prefetch.Line(PackedSubHeaderBytes(kShape) + word * kWordRowBytes);
    hn::Vec<DU32> bits[kStreams];
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* p = sub[s] + PackedSubHeaderBytes(kShape) + word * kWordRowBytes;
      bits[s] = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(p) + LaneOfStream(s));
      if constexpr (kSpareColumns > 0) {  // two bits from the top of each word
        const auto top = hn::ShiftRight<30>(bits[s]);
        spare[s] = hn::Or(spare[s], hn::ShiftLeftSame(top, static_cast<int>(2 * word)));
      }
    }
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < kFields; ++i) {
      ASHLAR_UNROLL
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (i == kHalf) bits[s] = hn::ShiftRight<kHalf * kShape.bits>(bits[s]);
        w[s] = scales[s].Weights(bits[s], i % kHalf);
      }
      sink.Column(column++, w);
    }
  }
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < kSpareColumns; ++i) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kStreams; ++s) w[s] = scales[s].Weights(spare[s], i);
    sink.Column(column++, w);
  }
}

template <DType kType, std::size_t kStreams, class Sink>
HWY_INLINE void WalkQuantised(const PanelWalk& walk, Sink& sink) {
  constexpr BlockShape kShape = ShapeOf(kType);
  constexpr std::size_t kPanels = (kStreams + kVectorsPer16 - 1) / kVectorsPer16;
  std::size_t offset = walk.first / kShape.columns * PackedBlockBytes(kShape);
  for (std::size_t c = walk.first; c < walk.last; c += kShape.columns) {
    const std::size_t header = offset;
    offset += PackedHeaderBytes(kShape);
    for (std::size_t n = 0; n < kShape.subs(); ++n, offset += PackedSubBytes(kShape)) {
      Scales<kType> scales[kStreams];
      const std::byte* sub[kStreams];
      ASHLAR_UNROLL
      for (std::size_t s = 0; s < kStreams; ++s) {
        const std::byte* panel = walk.panel + s / kVectorsPer16 * walk.panel_bytes;
        sub[s] = panel + offset;
        scales[s].Load(panel + header, sub[s], LaneOfStream(s));
      }
      // Beyond a panel's end lies the next one: the panel after the last stream's is the one to
      // come.
      const std::size_t ahead = offset + kPrefetchBytes;
      const std::byte* next =
          walk.panel +
          (ahead < walk.panel_bytes ? ahead : ahead + (kPanels - 1) * walk.panel_bytes);
      const Ahead<kPanels> prefetch{next, walk.panel_bytes};
      prefetch.Line(0);
      WalkSubBlock<kType, kStreams>(sub, prefetch, c + n * kShape.sub_columns, scales, sink);
    }
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
