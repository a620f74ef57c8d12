// The kernels the model and the cache need, as one table of functions per Isa.
//
// House rule (docs/decisions/0002): the arithmetic of one output element is a fixed sequence of f32
// operations that depends on nothing but its inputs: not on the other rows of the call, the thread,
// the vector width or how the call was cut. Hence every table gives the same bits as the reference
// table. What makes that cheap is that SIMD lanes are independent outputs (rows of W, tokens of a K
// tile, channels of a V tile), each a sequential chain of fused multiply-adds. Where a reduction
// across lanes is unavoidable (norms, softmax sums) it has 16 virtual lanes folded in a fixed tree
// (Sum16 below).
//
// Common rules: pointers need no alignment unless said; outputs alias inputs only where said; no
// function allocates; counts may be any size, also 0; NaN and infinity follow IEEE. (The payload
// and sign of a NaN are the one thing not defined: processors differ there.)
//
// Sum16(v): lane j of 16 takes the chain over v[j], v[j+16], v[j+32], ... (missing elements are not
// added); then lanes fold i += i+8, i += i+4, i += i+2, i += i+1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/codec.h"
#include "kernels/isa.h"
#include "kernels/packed_matrix.h"

namespace ashlar::kernels {

// y[r][j] = bias[j] + W[j] . x[r], for r in [0, rows) and every row j of panels
// [panel_begin, panel_end) of W; j < n only (rows that fill up the last panel are not written).
// The chain of element (r, j): start at bias[j] or 0, then for c = 0 .. k-1 in order
// acc = fma(w, x[r][c], acc), where w is the value DequantizeRow gives for W[j][c].
struct MatmulArgs {
  const PackedMatrix* w;
  const float* x;  // [rows, k], row stride x_stride (elements)
  std::size_t rows;
  std::size_t x_stride;
  const float* bias;  // [n] or nullptr
  float* y;           // [rows, n], row stride y_stride (elements)
  std::size_t y_stride;
  std::size_t panel_begin;
  std::size_t panel_end;
  float* scratch;  // MatmulScratchFloats(k) floats, 64-byte aligned, private to the calling thread
};
// Room for the f32 values of two panels' next kMatmulColumns columns. (128 KiB: stays in a level 2
// cache.)
inline constexpr std::size_t kMatmulColumns = 1024;
constexpr std::size_t MatmulScratchFloats(std::size_t k) {
  return 2 * kPanelRows * (k < kMatmulColumns ? k : kMatmulColumns);
}

struct KernelSet {
  Isa isa;

  void (*matmul)(const MatmulArgs& args);

  // activations.h
  void (*encode_activations)(const EncodeActivationsArgs& args);
  void (*matmul_codes)(const MatmulCodesArgs& args);

  // y[i] = x[i] * (1 / sqrt(Sum16(x^2) / n + eps)) * weight[i]; squares accumulate by fma; the
  // scale is computed in f32. y may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::size_t n, float* y);

  // mean = Sum16(x) / n, d[i] = x[i] - mean, y[i] = d[i] * (1 / sqrt(Sum16(d^2) / n + eps)) *
  // weight[i] + bias[i]; squares accumulate by fma, the last product is rounded before the sum. y
  // may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps,
                     std::size_t n, float* y);

  // Rotates head vectors in place. cosine, sine: [pairs]. Interleaved: pairs are (2i, 2i+1), as
  // GGUF `llama` files store Q and K; half-split: (i, i + pairs). a' = a*cos - b*sin, b' = a*sin +
  // b*cos, as fma(a, cos, -(b*sin)) and fma(a, sin, b*cos) with the product rounded first.
  void (*rope_interleaved)(float* x, const float* cosine, const float* sine, std::size_t pairs);
  void (*rope_half_split)(float* x, const float* cosine, const float* sine, std::size_t pairs);

  // out[i] = gate[i] / (1 + Exp(-gate[i])) * up[i]. out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, std::size_t n, float* out);

  // Activations (docs/GLOSSARY.md). out[i] = f(x[i]) * up[i], or f(x[i]) where `up` is null; out
  // may be x or up.
  //   gelu_tanh     f(x) = x / (1 + Exp(-(x * fma(x * x, kGeluCubic, kGeluLinear)))): GELU's tanh
  //   form
  //                 (Hendrycks and Gimpel 2016, arXiv:1606.08415), for (1 + tanh z) / 2 = 1 / (1 +
  //                 e^-2z)
  //   gelu_erf      with a = |x| * sqrt(1/2), t = 1 / fma(kErfP, a, 1) and the chain
  //                 q = Exp(-(a * a)) * (t * fma(... fma(kErf5, t, kErf4) ..., t, kErf1)), which is
  //                 erfc(a) within 1.5e-7 (Abramowitz and Stegun 7.1.26): f(x) = (0.5 * x) * q for
  //                 x < 0, else fma(-0.5 * x, q, x)
  //   silu_clamped  g = min(x, 7), u = up clamped to [-7, 7]: out = g / (1 + Exp(-1.702 * g)) * (u
  //   + 1)
  //                 (gpt-oss); a NaN stays one; `up` is not null
  void (*gelu_tanh)(const float* x, const float* up, std::size_t n, float* out);
  void (*gelu_erf)(const float* x, const float* up, std::size_t n, float* out);
  void (*silu_clamped)(const float* x, const float* up, std::size_t n, float* out);

  // x[i] = cap * Tanh(x[i] / cap), Tanh as attention.h has it.
  void (*softcap)(float* x, float cap, std::size_t n);

  // x[i] += y[i].
  void (*add)(float* x, const float* y, std::size_t n);

  // y[i] = x[i] * factor. y may be x.
  void (*scale)(const float* x, float factor, std::size_t n, float* y);

  // The greatest of x, NaN left out; -infinity where nothing is left. (Of zeros either.)
  float (*max_of)(const float* x, std::size_t n);

  // out[i] = Exp((x[i] - max) * factor), 0 where x[i] is NaN; returns their Sum16 in f64. `max` is
  // finite and no x[i] is greater, factor is at least 0. out may be x.
  double (*softmax_terms)(const float* x, float max, float factor, std::size_t n, float* out);

  // x [n] times a Hadamard matrix (codec.h), in place.
  void (*hadamard)(float* x, std::size_t n);

  // False when a value is not finite once rounded; the slot is then written all the same.
  bool (*store_kv)(const StoreKvArgs& args);
  void (*encode)(const EncodeArgs& args);
  void (*prepare)(const PrepareArgs& args);
  void (*attend)(const AttendArgs& args);
  void (*merge)(const MergeArgs& args);

  // out[r][c] = acc[r][c] / sum[r]; out row stride out_stride. out may be acc when the strides
  // agree.
  void (*finish)(const float* acc, const float* sum, std::size_t rows, std::size_t head_dim,
                 float* out, std::size_t out_stride);
};

inline constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.07135481627159826f;  // 0.044715 of it
inline constexpr float kErfP = 0.3275911f;
inline constexpr float kErf1 = 0.254829592f;
inline constexpr float kErf2 = -0.284496736f;
inline constexpr float kErf3 = 1.421413741f;
inline constexpr float kErf4 = -1.453152027f;
inline constexpr float kErf5 = 1.061405429f;
inline constexpr float kSqrtHalf = 0.70710678118654752f;
inline constexpr float kSiluClamp = 7.0f;
inline constexpr float kSiluClampedSlope = 1.702f;

// Precondition: `isa` is one of RunnableIsas().
const KernelSet& KernelsFor(Isa isa);

// The reference table's exponential: e^x within 2 ulp for x in [-87, 88], 0 below (also for
// -infinity), +infinity above, NaN for NaN; a fixed sequence of f32 operations that every Isa
// repeats.
float Exp(float x);

}  // namespace ashlar::kernels
