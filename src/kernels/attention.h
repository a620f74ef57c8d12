// The contract of attention over one lane's blocks: what a query row computes from one segment of
// keys, and how segments are put together. Part of KernelSet (kernel_set.h, whose common rules
// hold).
//
// A segment is the keys at absolute positions [s * kSegmentTokens, (s + 1) * kSegmentTokens).
// Segments are part of the arithmetic: they never move with block size, chunk or thread count.
// Softmax runs inside a segment; partial states are merged in order of position, kSpanSegments of
// them into a span, and spans in order.
//
// A query at position p sees the blocks before its own as they are sealed, and its own block raw
// up to itself ("seal semantics"): so it sees the same bits in prefill as in decode. Tokens of a
// segment are numbered from its start; the sealed ones come first, then those of the rows' own
// block.
//
//   logit(t), a raw K: acc = 0; for c in order acc = fma(q[c], k[t][c], acc).
//     fp8: the same on the bare codes' values, then one multiplication by the block's scale.
//     in units (codec.h): the row as integers x[c] (PrepareArgs); for each 32 channels b in order
//     n = sum of (code - zero) x[c], exact; f = fma(float(n), scale(t, b), f) from 0; logit = f *
//     step. kc4, kc2: q'[c] = q[c] * scale(c) is made integers of its own for each block; n is
//     summed over all c; logit = fma(float(n), step', off), off = the fma chain of q[c] * min(c).
//     Then, if softcap > 0: logit = softcap * Tanh(logit / softcap), Tanh(x) = 1 - 2 / (Exp(2x) +
//     1).
//   max: over the tokens a row sees, of logits that are not NaN, at least the lowest finite f32,
//     never -0. p(t) = Exp(logit - max), 0 where a row does not see. sum = Sum16(p).
//   acc[c]: from 0 over sealed tokens in order, then own ones, acc = fma(p(t), v[t][c], acc).
//     fp8: with p(t) * scale of the block. In units, for the sealed tokens together and each 32
//     channels b: w(t) = p(t) * scale(t, b); as integers y(t) with step = max |w| / kWeightLevels;
//     n = sum of (code - zero) y(t), exact; acc[c] = fma(float(n), step, m), m = 0 or (kc4, kc2)
//     Sum16 of p(t) * min(t, b).
//     V read from K (value_dim of it): lane j of 16 takes the fma chain over t = j, j + 16, ...
//     and the lanes fold as Sum16 does; own tokens belong to the same chains.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/kv_codec.h"

namespace ashlar::kernels {

inline constexpr std::size_t kSegmentTokens = 256;
inline constexpr std::size_t kSpanSegments = 4;
inline constexpr std::size_t kMaxHeadDim = 576;  // MLA: 512 + 64

// Integers of 15 bits: two digits of 8 bits, value 256 * high + low, both within [-128, 127].
inline constexpr int kWeightLevels = 127 * 256 + 127;
// Digits of a query row: two where the keys deserve them, one (7 bits) for coarser keys.
constexpr int QueryDigits(KvCodecKind kind) {
  switch (kind) {
    case KvCodecKind::kQ8:
    case KvCodecKind::kQ6:
    case KvCodecKind::kKc4:  // made again for each block, of products
    case KvCodecKind::kKc2:
      return 2;
    default:
      return 1;
  }
}
constexpr int QueryLevels(KvCodecKind kind) { return QueryDigits(kind) == 2 ? kWeightLevels : 127; }

// Writes the K and V vectors (f32 [head_dim], [value_dim]) of one token to slot `slot` of a lane's
// raw tiles, rounded to nearest even:
//   K tile [head_dim][block_tokens] (transposed: tokens are SIMD lanes)
//   V tile [block_tokens][value_dim]
// block_tokens is a multiple of 16, at most kSegmentTokens, a power of two; dims are multiples of
// 8, at most kMaxHeadDim.
struct StoreKvArgs {
  KvCodecKind key_kind;  // raw
  KvCodecKind value_kind;
  const float* k;
  const float* v;
  std::size_t head_dim;
  std::size_t value_dim;  // 0: no V
  std::size_t block_tokens;
  std::size_t slot;
  std::byte* k_tile;
  std::byte* v_tile;
};

// Query rows as integers, once for all segments: step = max |q| / levels, x[c] = q[c] / step
// rounded to nearest even (q[c] * (1 / step) in f32); all 0 when max |q| <= 2^-100. step is NaN
// when an element is not finite. Nothing to do (0 bytes) for kinds not in units, and kc4 and kc2.
struct PrepareArgs {
  KvCodecKind key_kind;
  const float* q;  // [rows, head_dim], row stride q_stride; already multiplied by the scale
  std::size_t q_stride;
  std::size_t rows;
  std::size_t head_dim;
  std::byte* prepared;  // [PreparedBytes], 64-byte aligned
};
std::size_t PreparedBytes(KvCodecKind key_kind, std::size_t rows, std::size_t head_dim);

// A partial result for one query row: max of the logits, sum of exp(logit - max), and the
// unnormalised output acc[value_dim] = sum of exp(logit - max) * V.
struct AttendArgs {
  KvCodecKind key_kind;  // of the sealed tiles
  KvCodecKind value_kind;
  KvCodecKind own_key_kind;  // of the own block's: raw
  KvCodecKind own_value_kind;
  std::size_t head_dim;
  std::size_t value_dim;
  bool is_latent;  // V is the first value_dim channels of K: no V tiles are read
  std::size_t block_tokens;
  const std::byte* const* k_tiles;  // [sealed / block_tokens], from the segment's first block on
  const std::byte* const* v_tiles;
  std::size_t sealed;      // tokens that lie in these; a multiple of block_tokens
  std::size_t begin;       // a multiple of block_tokens: no row sees a token before; not read
  const std::byte* own_k;  // nullptr: no row's own block lies in this segment
  const std::byte* own_v;
  const std::uint32_t* own_visible;  // [rows]: tokens of the own block row r sees, 1..block_tokens
  const std::uint32_t* first;  // [rows] or nullptr: row r sees nothing before token first[r] of the
                               // segment
  std::size_t limit;           // no row sees token `limit` or later; kSegmentTokens: no limit
  float softcap;               // 0: none
  const float* q;              // as in PrepareArgs
  std::size_t q_stride;
  const std::byte* prepared;
  std::size_t rows;
  float* max;     // [rows]
  float* sum;     // [rows]
  float* acc;     // [rows, value_dim], row stride value_dim
  float* logits;  // [rows, kSegmentTokens] or nullptr: tap
  // What is likely to be read next, asked of memory meanwhile: `next_count` times next_bytes.
  const std::byte* const* next;
  std::size_t next_count;
  std::size_t next_bytes;
  float* scratch;  // kAttendScratchFloats floats, 64-byte aligned, private to the thread
};
// Slots that no row sees may hold anything, also NaN.

// Of scratch, for the rows that a kernel works on at a time: logits and probabilities, digits of
// weighted tokens; scales and minima; a block's channels for kc4 and kc2.
inline constexpr std::size_t kAttendTileRows = 6;
inline constexpr std::size_t kAttendScratchFloats =
    kAttendTileRows * (kSegmentTokens + 2 * kSegmentTokens / 4) + 2 * kSegmentTokens +
    4 * kMaxHeadDim;

// Folds `from` into `into` (both as AttendArgs writes them; `from` holds later positions): m = max
// of both; a = Exp(into.max - m), b = Exp(from.max - m); sum = sum * a + from.sum * b; acc
// likewise; each multiply and add rounded on its own.
struct MergeArgs {
  std::size_t rows;
  std::size_t head_dim;
  float* max;
  float* sum;
  float* acc;
  const float* from_max;
  const float* from_sum;
  const float* from_acc;
};

}  // namespace ashlar::kernels
