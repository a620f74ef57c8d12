#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/elementwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/reference/sum16.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

void RmsNorm(const float* x, const float* weight, float eps, std::size_t n, float* y) {
  const D d;
  V squares[kVectorsPer16];
  for (V& v : squares) v = hn::Zero(d);
  for (std::size_t begin = 0; begin < n; begin += 16) {
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const std::size_t i = begin + h * kLanes;
      // Missing elements are +0: fma(0, 0, sum) leaves a sum of squares as it is.
      const V v = i < n ? LoadFirst(d, x + i, n - i) : hn::Zero(d);
      squares[h] = hn::MulAdd(v, v, squares[h]);
    }
  }
  const float mean = Fold16(squares) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const V scaled = hn::Mul(LoadFirst(d, x + i, n - i), hn::Set(d, scale));
    StoreFirst(hn::Mul(scaled, LoadFirst(d, weight + i, n - i)), d, y + i, n - i);
  }
}

void LayerNorm(const float* x, const float* weight, const float* bias, float eps, std::size_t n,
               float* y) {
  const D d;
  V sums[kVectorsPer16];
  V squares[kVectorsPer16];
  for (V& v : sums) v = hn::Zero(d);
  for (V& v : squares) v = hn::Zero(d);
  for (std::size_t i = 0; i < n; i += kLanes) {
    V& sum = sums[i / kLanes % kVectorsPer16];
    sum = hn::Add(sum, LoadFirst(d, x + i, n - i));
  }
  const V mean = hn::Set(d, Fold16(sums) / static_cast<float>(n));
  for (std::size_t i = 0; i < n; i += kLanes) {
    V& sum = squares[i / kLanes % kVectorsPer16];
    const V off =
        hn::IfThenElseZero(hn::FirstN(d, n - i), hn::Sub(LoadFirst(d, x + i, n - i), mean));
    sum = hn::MulAdd(off, off, sum);
  }
  const V scale = hn::Set(d, 1.0f / std::sqrt(Fold16(squares) / static_cast<float>(n) + eps));
  for (std::size_t i = 0; i < n; i += kLanes) {
    const V off = hn::Mul(hn::Sub(LoadFirst(d, x + i, n - i), mean), scale);
    const V weighted = hn::Mul(off, LoadFirst(d, weight + i, n - i));
    StoreFirst(hn::Add(weighted, LoadFirst(d, bias + i, n - i)), d, y + i, n - i);
  }
}

namespace {

struct Pair {
  V a;
  V b;
};
HWY_INLINE Pair Rotate(V a, V b, V cosine, V sine) {
  return {hn::MulSub(a, cosine, hn::Mul(b, sine)), hn::MulAdd(a, sine, hn::Mul(b, cosine))};
}

}  // namespace

void RopeInterleaved(float* x, const float* cosine, const float* sine, std::size_t pairs) {
  const D d;
  std::size_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    V a;
    V b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const Pair rotated = Rotate(a, b, hn::LoadU(d, cosine + i), hn::LoadU(d, sine + i));
    hn::StoreInterleaved2(rotated.a, rotated.b, d, x + 2 * i);
  }
  if (i == pairs) return;
  const std::size_t rest = pairs - i;
  alignas(64) float a[16] = {};
  alignas(64) float b[16] = {};
  for (std::size_t j = 0; j < rest; ++j) {
    a[j] = x[2 * (i + j)];
    b[j] = x[2 * (i + j) + 1];
  }
  const Pair rotated = Rotate(hn::Load(d, a), hn::Load(d, b), LoadFirst(d, cosine + i, rest),
                              LoadFirst(d, sine + i, rest));
  hn::Store(rotated.a, d, a);
  hn::Store(rotated.b, d, b);
  for (std::size_t j = 0; j < rest; ++j) {
    x[2 * (i + j)] = a[j];
    x[2 * (i + j) + 1] = b[j];
  }
}

void RopeHalfSplit(float* x, const float* cosine, const float* sine, std::size_t pairs) {
  const D d;
  for (std::size_t i = 0; i < pairs; i += kLanes) {
    const std::size_t rest = pairs - i;
    const Pair rotated = Rotate(LoadFirst(d, x + i, rest), LoadFirst(d, x + pairs + i, rest),
                                LoadFirst(d, cosine + i, rest), LoadFirst(d, sine + i, rest));
    StoreFirst(rotated.a, d, x + i, rest);
    StoreFirst(rotated.b, d, x + pairs + i, rest);
  }
}

void SiluMul(const float* gate, const float* up, std::size_t n, float* out) {
  const D d;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const V g = LoadFirst(d, gate + i, n - i);
    const V silu = hn::Div(g, hn::Add(hn::Set(d, 1.0f), ExpOf(hn::Neg(g))));
    StoreFirst(hn::Mul(silu, LoadFirst(d, up + i, n - i)), d, out + i, n - i);
  }
}

namespace {

// out[i] = f(x[i]) * up[i], without the factor where there is none.
template <class F>
HWY_INLINE void Activate(const float* x, const float* up, std::size_t n, float* out, F f) {
  const D d;
  for (std::size_t i = 0; i < n; i += kLanes) {
    V v = f(LoadFirst(d, x + i, n - i));
    if (up != nullptr) v = hn::Mul(v, LoadFirst(d, up + i, n - i));
    StoreFirst(v, d, out + i, n - i);
  }
}

}  // namespace

void GeluTanh(const float* x, const float* up, std::size_t n, float* out) {
  const D d;
  Activate(x, up, n, out, [d](V v) HWY_ATTR {
    const V inner = hn::MulAdd(hn::Mul(v, v), hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear));
    return hn::Div(v, hn::Add(hn::Set(d, 1.0f), ExpOf(hn::Neg(hn::Mul(v, inner)))));
  });
}

void GeluErf(const float* x, const float* up, std::size_t n, float* out) {
  const D d;
  Activate(x, up, n, out, [d](V v) HWY_ATTR {
    const V one = hn::Set(d, 1.0f);
    const V a = hn::Mul(hn::Abs(v), hn::Set(d, kSqrtHalf));
    const V t = hn::Div(one, hn::MulAdd(hn::Set(d, kErfP), a, one));
    V p = hn::MulAdd(hn::Set(d, kErf5), t, hn::Set(d, kErf4));
    p = hn::MulAdd(p, t, hn::Set(d, kErf3));
    p = hn::MulAdd(p, t, hn::Set(d, kErf2));
    p = hn::MulAdd(p, t, hn::Set(d, kErf1));
    const V q = hn::Mul(ExpOf(hn::Neg(hn::Mul(a, a))), hn::Mul(t, p));
    const V below = hn::Mul(hn::Mul(hn::Set(d, 0.5f), v), q);
    const V above = hn::MulAdd(hn::Mul(hn::Set(d, -0.5f), v), q, v);
    return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), below, above);
  });
}

void SiluClamped(const float* x, const float* up, std::size_t n, float* out) {
  const D d;
  const V high = hn::Set(d, kSiluClamp);
  const V low = hn::Neg(high);
  for (std::size_t i = 0; i < n; i += kLanes) {
    V g = LoadFirst(d, x + i, n - i);
    g = hn::IfThenElse(hn::Gt(g, high), high, g);
    V u = LoadFirst(d, up + i, n - i);
    u = hn::IfThenElse(hn::Gt(u, high), high, u);
    u = hn::IfThenElse(hn::Lt(u, low), low, u);
    const V power = ExpOf(hn::Neg(hn::Mul(hn::Set(d, kSiluClampedSlope), g)));
    const V silu = hn::Div(g, hn::Add(hn::Set(d, 1.0f), power));
    StoreFirst(hn::Mul(silu, hn::Add(u, hn::Set(d, 1.0f))), d, out + i, n - i);
  }
}

void Softcap(float* x, float cap, std::size_t n) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const V two = hn::Set(d, 2.0f);
  const V limit = hn::Set(d, cap);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const V ratio = hn::Div(LoadFirst(d, x + i, n - i), limit);
    const V tanh = hn::Sub(one, hn::Div(two, hn::Add(ExpOf(hn::Mul(two, ratio)), one)));
    StoreFirst(hn::Mul(limit, tanh), d, x + i, n - i);
  }
}

void Add(float* x, const float* y, std::size_t n) {
  const D d;
  for (std::size_t i = 0; i < n; i += kLanes) {
    StoreFirst(hn::Add(LoadFirst(d, x + i, n - i), LoadFirst(d, y + i, n - i)), d, x + i, n - i);
  }
}

void Scale(const float* x, float factor, std::size_t n, float* y) {
  const D d;
  for (std::size_t i = 0; i < n; i += kLanes) {
    StoreFirst(hn::Mul(LoadFirst(d, x + i, n - i), hn::Set(d, factor)), d, y + i, n - i);
  }
}

float MaxOf(const float* x, std::size_t n) {
  const D d;
  V max[kVectorsPer16];
  for (V& v : max) v = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    ASHLAR_UNROLL
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      max[h] = MaxOfNumbers(hn::LoadU(d, x + i + h * kLanes), max[h]);
    }
  }
  float greatest = -std::numeric_limits<float>::infinity();
  for (; i < n; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  for (const V& v : max) greatest = std::max(greatest, hn::GetLane(hn::MaxOfLanes(d, v)));
  return greatest;
}

double SoftmaxTerms(const float* x, float max, float factor, std::size_t n, float* out) {
  const D d;
  const hn::Half<D> half;
  const hn::Repartition<double, D> dd;
  hn::Vec<decltype(dd)> sums[2 * kVectorsPer16];  // lanes 0 .. 15
  for (auto& sum : sums) sum = hn::Zero(dd);
  for (std::size_t begin = 0; begin < n; begin += 16) {
    ASHLAR_UNROLL
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const std::size_t i = begin + h * kLanes;
      if (i >= n) break;
      const V below =
          hn::Mul(hn::Sub(LoadFirst(d, x + i, n - i), hn::Set(d, max)), hn::Set(d, factor));
      V term = hn::IfThenElseZero(hn::Eq(below, below), ExpOfNonPositive(below));
      if (n - i < kLanes) term = hn::IfThenElseZero(hn::FirstN(d, n - i), term);
      StoreFirst(term, d, out + i, n - i);
      sums[2 * h] = hn::Add(sums[2 * h], hn::PromoteTo(dd, hn::LowerHalf(half, term)));
      sums[2 * h + 1] = hn::Add(sums[2 * h + 1], hn::PromoteTo(dd, hn::UpperHalf(half, term)));
    }
  }
  alignas(64) double lanes[16];
  for (std::size_t i = 0; i < 2 * kVectorsPer16; ++i) {
    hn::Store(sums[i], dd, lanes + i * (kLanes / 2));
  }
  return reference::Fold16(lanes);
}

void Merge(const MergeArgs& args) {
  const D d;
  constexpr std::size_t kPairs = kLanes / 2;  // the two factors of so many rows at a time
  for (std::size_t first = 0; first < args.rows; first += kPairs) {
    const std::size_t rows = std::min(kPairs, args.rows - first);
    alignas(64) float factors[kLanes] = {};
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t r = first + i;
      const float max = args.from_max[r] > args.max[r] ? args.from_max[r] : args.max[r];
      factors[2 * i] = args.max[r] - max;
      factors[2 * i + 1] = args.from_max[r] - max;
      args.max[r] = max;
    }
    hn::Store(ExpOfNonPositive(hn::Load(d, factors)), d, factors);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t r = first + i;
      const V a = hn::Set(d, factors[2 * i]);
      const V b = hn::Set(d, factors[2 * i + 1]);
      args.sum[r] = args.sum[r] * factors[2 * i] + args.from_sum[r] * factors[2 * i + 1];
      float* acc = args.acc + r * args.head_dim;
      const float* from = args.from_acc + r * args.head_dim;
      for (std::size_t c = 0; c < args.head_dim; c += kLanes) {
        const std::size_t rest = args.head_dim - c;
        const V old_part = hn::Mul(LoadFirst(d, acc + c, rest), a);
        const V new_part = hn::Mul(LoadFirst(d, from + c, rest), b);
        StoreFirst(hn::Add(old_part, new_part), d, acc + c, rest);
      }
    }
  }
}

void Finish(const float* acc, const float* sum, std::size_t rows, std::size_t head_dim, float* out,
            std::size_t out_stride) {
  const D d;
  for (std::size_t r = 0; r < rows; ++r) {
    const V divisor = hn::Set(d, sum[r]);
    for (std::size_t c = 0; c < head_dim; c += kLanes) {
      const std::size_t rest = head_dim - c;
      const V v = LoadFirst(d, acc + r * head_dim + c, rest);
      StoreFirst(hn::Div(v, divisor), d, out + r * out_stride + c, rest);
    }
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
