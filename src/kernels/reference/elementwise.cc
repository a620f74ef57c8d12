#include <bit>
#include <cmath>
#include <limits>

#include "kernels/exp_polynomial.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/sum16.h"

namespace ashlar::kernels {

float Exp(float x) {
  if (x < kExpLowest) return 0.0f;
  if (x > kExpHighest) return std::numeric_limits<float>::infinity();
  const float shifted = std::fma(x, kExpLog2E, kExpRound);
  const float n = shifted - kExpRound;
  float r = std::fma(n, -kExpLn2High, x);
  r = std::fma(n, -kExpLn2Low, r);
  float p = std::fma(kExpP4, r, kExpP3);
  p = std::fma(p, r, kExpP2);
  p = std::fma(p, r, kExpP1);
  p = std::fma(p, r, kExpP0);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  // The low bits of `shifted` are n; 2^n by its exponent field.
  const std::uint32_t exponent =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kExpRound) + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

namespace reference {

float Sum16(const float* v, std::size_t n) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < n; ++i) lanes[i % 16] += v[i];
  return Fold16(lanes);
}

void RmsNorm(const float* x, const float* weight, float eps, std::size_t n, float* y) {
  float squares[16] = {};
  for (std::size_t i = 0; i < n; ++i) squares[i % 16] = std::fma(x[i], x[i], squares[i % 16]);
  const float mean = Fold16(squares) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, float eps, std::size_t n,
               float* y) {
  const float mean = Sum16(x, n) / static_cast<float>(n);
  float squares[16] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const float d = x[i] - mean;
    squares[i % 16] = std::fma(d, d, squares[i % 16]);
  }
  const float scale = 1.0f / std::sqrt(Fold16(squares) / static_cast<float>(n) + eps);
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

namespace {
void Rotate(float* a, float* b, float cosine, float sine) {
  const float old_a = *a;
  const float old_b = *b;
  *a = std::fma(old_a, cosine, -(old_b * sine));
  *b = std::fma(old_a, sine, old_b * cosine);
}
}  // namespace

void RopeInterleaved(float* x, const float* cosine, const float* sine, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) Rotate(x + 2 * i, x + 2 * i + 1, cosine[i], sine[i]);
}

void RopeHalfSplit(float* x, const float* cosine, const float* sine, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) Rotate(x + i, x + i + pairs, cosine[i], sine[i]);
}

namespace {
float Times(float value, const float* factors, std::size_t i) {
  return factors == nullptr ? value : value * factors[i];
}
}  // namespace

void SiluMul(const float* gate, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
}

void GeluTanh(const float* x, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float z = x[i] * std::fma(x[i] * x[i], kGeluCubic, kGeluLinear);
    out[i] = Times(x[i] / (1.0f + Exp(-z)), up, i);
  }
}

void GeluErf(const float* x, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float a = std::fabs(x[i]) * kSqrtHalf;
    const float t = 1.0f / std::fma(kErfP, a, 1.0f);
    float p = std::fma(kErf5, t, kErf4);
    p = std::fma(p, t, kErf3);
    p = std::fma(p, t, kErf2);
    p = std::fma(p, t, kErf1);
    const float q = Exp(-(a * a)) * (t * p);
    out[i] = Times(x[i] < 0.0f ? 0.5f * x[i] * q : std::fma(-0.5f * x[i], q, x[i]), up, i);
  }
}

void SiluClamped(const float* x, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = x[i] > kSiluClamp ? kSiluClamp : x[i];
    float u = up[i] > kSiluClamp ? kSiluClamp : up[i];
    u = u < -kSiluClamp ? -kSiluClamp : u;
    out[i] = g / (1.0f + Exp(-(kSiluClampedSlope * g))) * (u + 1.0f);
  }
}

void Softcap(float* x, float cap, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = cap * (1.0f - 2.0f / (Exp(2.0f * (x[i] / cap)) + 1.0f));
  }
}

void Add(float* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += y[i];
}

void Scale(const float* x, float factor, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

float MaxOf(const float* x, std::size_t n) {
  float max = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

double SoftmaxTerms(const float* x, float max, float factor, std::size_t n, float* out) {
  double lanes[16] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const float term = Exp((x[i] - max) * factor);
    out[i] = std::isnan(term) ? 0.0f : term;
    lanes[i % 16] += static_cast<double>(out[i]);
  }
  return Fold16(lanes);
}

}  // namespace reference
}  // namespace ashlar::kernels
