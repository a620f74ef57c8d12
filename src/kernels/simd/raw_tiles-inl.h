// Scores and weighted values of tiles whose elements are loaded one vector at a time: the raw
// formats and fp8. Lanes are tokens of K, channels of V.
#include <cstring>

#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_RAW_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_RAW_TILES_INL_H_
#undef ASHLAR_KERNELS_SIMD_RAW_TILES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_RAW_TILES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

constexpr std::size_t RawBytes(KvCodecKind kind) {
  if (kind == KvCodecKind::kF32) return 4;
  return kind == KvCodecKind::kFp8 ? 1 : 2;
}

template <class DF>
HWY_INLINE hn::Vec<DF> LoadE4m3(DF d, const std::byte* p) {
  const hn::Rebind<std::uint8_t, DF> d8;
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(p)));
  // As the top of an f32 the exponent is 120 too small.
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80)));
  const auto rest = hn::ShiftLeft<20>(hn::And(code, hn::Set(d32, 0x7F)));
  return hn::Mul(hn::BitCast(d, hn::Or(sign, rest)), hn::Set(d, 0x1p+120f));
}

template <KvCodecKind kKind, class DF>
HWY_INLINE hn::Vec<DF> LoadElements(DF d, const std::byte* p) {
  if constexpr (kKind == KvCodecKind::kF32) return LoadF32(d, p);
  if constexpr (kKind == KvCodecKind::kF16) return LoadF16(d, p);
  if constexpr (kKind == KvCodecKind::kBF16) return LoadBf16(d, p);
  if constexpr (kKind == KvCodecKind::kFp8) return LoadE4m3(d, p);
}

// Memory that is read soon, asked for a few lines at a time between other work: tiles lie anywhere,
// so the processor cannot guess. Into the level 2 cache: a core waits for many more lines there
// than in level 1 (measured: 29 instead of 19 GB/s of 4 KiB tiles on two cores of a Zen 4).
class ReadAhead {
 public:
  ReadAhead() = default;
  // `count` pieces of `bytes` each. Asks for the first line of every page of them at once: a
  // request whose address the processor must look up in memory keeps all that follows it from
  // retiring, and what follows are then further look-ups, six at a time.
  ReadAhead(const std::byte* const* pieces, std::size_t count, std::size_t bytes)
      : next_(pieces), last_(pieces + count), bytes_((bytes + 63) / 64 * 64) {
    for (const std::byte* const* piece = next_; piece != last_; ++piece) {
      const std::byte* const end = *piece + bytes_;
      for (const std::byte* line = *piece; line < end;) {
        __builtin_prefetch(line, /*rw=*/0, /*locality=*/2);
        line += kPageBytes - reinterpret_cast<std::uintptr_t>(line) % kPageBytes;
      }
    }
  }

  // Until told otherwise, a call of Ask asks for so much that `calls` calls ask for part / whole of
  // what is left.
  void Pace(std::size_t calls, std::size_t part, std::size_t whole) {
    const std::size_t bytes =
        static_cast<std::size_t>(end_ - line_) + static_cast<std::size_t>(last_ - next_) * bytes_;
    const std::size_t pace =
        bytes / 64 * kWholeLine * part / (whole * std::max<std::size_t>(1, calls));
    pace_ = bytes == 0 ? 0 : pace + 1;
  }

  // As much as `calls` calls without a number. Between products, so in few instructions: a line at
  // a time, and nothing but a comparison where none is owed.
  HWY_INLINE void Ask(std::size_t calls = 1) {
    for (owed_ += calls * pace_; owed_ >= kWholeLine; owed_ -= kWholeLine) {
      if (HWY_UNLIKELY(line_ == end_)) {
        if (next_ == last_) {
          pace_ = owed_ = 0;
          return;
        }
        line_ = *next_++;
        end_ = line_ + bytes_;
      }
      __builtin_prefetch(line_, /*rw=*/0, /*locality=*/2);
      line_ += 64;
    }
  }

 private:
  const std::byte* line_ = nullptr;
  const std::byte* end_ = nullptr;
  const std::byte* const* next_ = nullptr;
  const std::byte* const* last_ = nullptr;
  // Of what translations are kept: also where the system gives huge pages, a virtual machine's may
  // lie in small ones.
  static constexpr std::size_t kPageBytes = 4096;
  std::size_t bytes_ = 0;  // of a piece
  static constexpr std::size_t kWholeLine = 256;
  std::size_t pace_ = 0;  // of a call, in 1 / kWholeLine lines, as is what is owed
  std::size_t owed_ = 0;
};

// Query rows and where their logits go: row r, token t at logits[r * kSegmentTokens + t].
struct ScoreRowsArgs {
  const float* q;
  std::size_t q_stride;
  std::size_t head_dim;
  std::size_t block_tokens;
  const std::byte* const* tiles;
  std::size_t begin;  // tokens [begin, end) of the tiles; begin a multiple of 16
  std::size_t end;    // lanes beyond it, to a whole vector, get numbers of no meaning
  float* logits;
};

// Vectors of K tokens or V channels beside `rows` rows: as many sums as the registers hold (24 of
// 32, 12 of 16), and for one row still enough to hide the latency of a fused multiply-add.
constexpr std::size_t TileVectors(std::size_t rows) {
  if (HWY_TARGET == HWY_AVX2) return rows <= 3 ? 4 : 2;
  return 4;
}

template <KvCodecKind kKind, std::size_t kRows, std::size_t kVectors>
void ScoreTile(const ScoreRowsArgs& args, std::size_t token, ReadAhead& ahead) {
  const D d;
  const std::byte* k[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t t = token + v * kLanes;
    k[v] = args.tiles[t / args.block_tokens] + t % args.block_tokens * RawBytes(kKind);
  }
  V sums[kRows][kVectors];
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const std::size_t k_stride = args.block_tokens * RawBytes(kKind);
  for (std::size_t c = 0, offset = 0; c < args.head_dim; ++c, offset += k_stride) {
    ahead.Ask();
    V kv[kVectors];
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) kv[v] = LoadElements<kKind>(d, k[v] + offset);
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V qr = hn::Set(d, args.q[r * args.q_stride + c]);
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(qr, kv[v], sums[r][v]);
    }
  }
  if constexpr (kKind == KvCodecKind::kFp8) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t t = token + v * kLanes;
      float scale;
      std::memcpy(&scale, args.tiles[t / args.block_tokens] + args.head_dim * args.block_tokens,
                  sizeof scale);
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        sums[r][v] = hn::Mul(sums[r][v], hn::Set(d, scale));
      }
    }
  }
  float* const logits = args.logits + token;
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, logits + r * kSegmentTokens + v * kLanes);
    }
  }
}

// How often ScoreRaw asks its ReadAhead, at least.
constexpr std::size_t ScoreCalls(std::size_t rows, std::size_t tokens, std::size_t head_dim) {
  return std::max<std::size_t>(1, tokens / (TileVectors(rows) * kLanes)) * head_dim;
}

template <KvCodecKind kKind, std::size_t kRows>
void ScoreRaw(const ScoreRowsArgs& args, ReadAhead& ahead) {
  constexpr std::size_t kVectors = TileVectors(kRows);
  std::size_t t = args.begin;
  for (; t + kVectors * kLanes <= args.end; t += kVectors * kLanes) {
    ScoreTile<kKind, kRows, kVectors>(args, t, ahead);
  }
  if constexpr (kVectors > 2) {
    for (; t + 2 * kLanes <= args.end; t += 2 * kLanes) {
      ScoreTile<kKind, kRows, 2>(args, t, ahead);
    }
  }
  for (; t < args.end; t += kLanes) ScoreTile<kKind, kRows, 1>(args, t, ahead);
}

// acc[r] += the sum of weights[r][t] * V[t] over tokens [begin, end) of the tiles; weights at
// [r * kSegmentTokens + t].
struct AccumulateRowsArgs {
  const float* weights;
  std::size_t value_dim;
  std::size_t block_tokens;
  const std::byte* const* tiles;
  std::size_t begin;
  std::size_t end;
  float* acc;  // row stride value_dim
};

template <KvCodecKind kKind, std::size_t kRows, std::size_t kVectors, class DF>
void AccumulateTile(const AccumulateRowsArgs& args, DF d, std::size_t channel, ReadAhead& ahead) {
  using VF = hn::Vec<DF>;
  constexpr std::size_t kWidth = hn::MaxLanes(DF());
  constexpr std::size_t kBytes = RawBytes(kKind);
  float* const acc = args.acc + channel;
  VF sums[kRows][kVectors];
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::LoadU(d, acc + r * args.value_dim + v * kWidth);
    }
  }
  const std::size_t v_stride = args.value_dim * kBytes;
  for (std::size_t t = args.begin; t < args.end;) {
    const std::size_t slot = t % args.block_tokens;
    const std::size_t block_end = std::min(args.end, t - slot + args.block_tokens);
    const std::byte* const tile = args.tiles[t / args.block_tokens];
    float scale = 1.0f;
    if constexpr (kKind == KvCodecKind::kFp8) {
      std::memcpy(&scale, tile + args.value_dim * args.block_tokens, sizeof scale);
    }
    const std::byte* v_row = tile + slot * v_stride + channel * kBytes;
    for (; t < block_end; ++t, v_row += v_stride) {
      ahead.Ask();
      VF value[kVectors];
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        value[v] = LoadElements<kKind>(d, v_row + v * kWidth * kBytes);
      }
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        float weight = args.weights[r * kSegmentTokens + t];
        if constexpr (kKind == KvCodecKind::kFp8) weight *= scale;
        const VF p = hn::Set(d, weight);
        ASHLAR_UNROLL
        for (std::size_t v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(p, value[v], sums[r][v]);
        }
      }
    }
  }
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, acc + r * args.value_dim + v * kWidth);
    }
  }
}

// How often AccumulateRaw asks its ReadAhead, at least.
constexpr std::size_t AccumulateCalls(std::size_t rows, std::size_t tokens, std::size_t value_dim) {
  return std::max<std::size_t>(1, value_dim / (TileVectors(rows) * kLanes)) * tokens;
}

template <KvCodecKind kKind, std::size_t kRows>
void AccumulateRaw(const AccumulateRowsArgs& args, ReadAhead& ahead) {
  if (args.begin >= args.end) return;
  const D d;
  constexpr std::size_t kVectors = TileVectors(kRows);
  std::size_t channel = 0;
  for (; channel + kVectors * kLanes <= args.value_dim; channel += kVectors * kLanes) {
    AccumulateTile<kKind, kRows, kVectors>(args, d, channel, ahead);
  }
  for (; channel + kLanes <= args.value_dim; channel += kLanes) {
    AccumulateTile<kKind, kRows, 1>(args, d, channel, ahead);
  }
  if (channel < args.value_dim) {  // a multiple of 8, and a vector may be 16
    AccumulateTile<kKind, kRows, 1>(args, hn::CappedTag<float, 8>(), channel, ahead);
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
