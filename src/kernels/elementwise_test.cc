#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::AlignedFloats;
using testing::Random;
using testing::SameBits;

constexpr std::size_t kMaxSize = 3 * 16 + 5;

// Ordinary values with special ones strewn in.
void Fill(Random& random, std::span<float> values) {
  constexpr float kSpecial[] = {0.0f,
                                -0.0f,
                                1e-42f,
                                88.5f,
                                -88.5f,
                                3e38f,
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
  for (float& value : values) {
    value = random.Unit() * 10.0f;
    if (random.Below(16) == 0) value = kSpecial[random.Below(std::size(kSpecial))];
  }
}

// Runs `apply(kernels, n, a, b, c)` by every table, for all sizes up to three vectors and a bit and
// four misalignments, and compares all three arrays (2n + 1 floats each) with the reference's.
using Apply = std::function<void(const KernelSet&, std::size_t, float*, float*, float*)>;
void ExpectSameBitsOnEveryIsa(const Apply& apply) {
  for (std::size_t n = 0; n <= kMaxSize; ++n) {
    const std::size_t shift = n % 4;
    std::vector<std::vector<float>> want;
    for (const Isa isa : RunnableIsas()) {
      Random random(n);
      AlignedFloats arrays[3] = {AlignedFloats(2 * n + 1, shift), AlignedFloats(2 * n + 1, shift),
                                 AlignedFloats(2 * n + 1, shift)};
      for (AlignedFloats& array : arrays) Fill(random, array.span());
      apply(KernelsFor(isa), n, arrays[0].data(), arrays[1].data(), arrays[2].data());
      for (std::size_t i = 0; i < 3; ++i) {
        const std::span<float> got = arrays[i].span();
        if (isa == Isa::kReference) want.emplace_back(got.begin(), got.end());
        ASSERT_TRUE(SameBits(got, want[i])) << NameOf(isa) << ", n = " << n << ", array " << i;
      }
    }
  }
}

TEST(Elementwise, RmsNormEqualsTheReference) {
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    k.rms_norm(a, b, 1e-5f, n, c);
  });
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float*) {
    k.rms_norm(a, b, 1e-5f, n, a);
  });
}

TEST(Elementwise, RopeEqualsTheReference) {
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    k.rope_interleaved(a, b, c, n);
  });
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    k.rope_half_split(a, b, c, n);
  });
}

TEST(Elementwise, SiluMulEqualsTheReferenceAlsoInPlace) {
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    k.silu_mul(a, b, n, c);
  });
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float*) {
    k.silu_mul(a, b, n, a);
  });
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float*) {
    k.silu_mul(a, b, n, b);
  });
}

TEST(Elementwise, LayerNormEqualsTheReference) {
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    k.layer_norm(a, b, c, 1e-5f, n, a);
  });
  // Sums that are not swamped by infinities.
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    for (std::size_t i = 0; i < n; ++i) a[i] = std::isfinite(a[i]) ? std::fmod(a[i], 8.0f) : 1.0f;
    k.layer_norm(a, b, c, 1e-5f, n, a);
  });
}

TEST(Elementwise, ActivationsEqualTheReferenceAlsoInPlaceAndWithoutAFactor) {
  for (const auto activation :
       {&KernelSet::gelu_tanh, &KernelSet::gelu_erf, &KernelSet::silu_clamped}) {
    ExpectSameBitsOnEveryIsa([=](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
      (k.*activation)(a, b, n, c);
    });
    ExpectSameBitsOnEveryIsa([=](const KernelSet& k, std::size_t n, float* a, float* b, float*) {
      (k.*activation)(a, b, n, b);
    });
    if (activation == &KernelSet::silu_clamped) continue;
    ExpectSameBitsOnEveryIsa([=](const KernelSet& k, std::size_t n, float* a, float*, float*) {
      (k.*activation)(a, nullptr, n, a);
    });
  }
}

TEST(Elementwise, SoftcapEqualsTheReference) {
  ExpectSameBitsOnEveryIsa(
      [](const KernelSet& k, std::size_t n, float* a, float*, float*) { k.softcap(a, 30.0f, n); });
}

TEST(Elementwise, ActivationsAreWhatTheirNamesSay) {
  constexpr double kPi = 3.14159265358979323846;
  std::vector<float> x;
  for (int i = -1200; i <= 1200; ++i) x.push_back(static_cast<float>(i) / 100.0f);
  std::vector<float> up(x.size());
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = static_cast<float>(i % 41) - 20.0f;
  const KernelSet& k = KernelsFor(BestIsa());
  std::vector<float> tanh(x.size()), erf(x.size()), clamped(x.size()), capped = x;
  k.gelu_tanh(x.data(), nullptr, x.size(), tanh.data());
  k.gelu_erf(x.data(), nullptr, x.size(), erf.data());
  k.silu_clamped(x.data(), up.data(), x.size(), clamped.data());
  k.softcap(capped.data(), 5.0f, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double inner = std::sqrt(2.0 / kPi) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(tanh[i], 0.5 * v * (1.0 + std::tanh(inner)), 2e-6) << v;
    EXPECT_NEAR(erf[i], 0.5 * v * (1.0 + std::erf(v / std::sqrt(2.0))), 2e-6) << v;
    const double g = std::min(v, 7.0);
    const double u = std::clamp<double>(up[i], -7.0, 7.0);
    EXPECT_NEAR(clamped[i], g / (1.0 + std::exp(-1.702 * g)) * (u + 1.0), 1e-5) << v;
    EXPECT_NEAR(capped[i], 5.0 * std::tanh(v / 5.0), 2e-6) << v;
  }
}

TEST(Elementwise, LayerNormIsWhatItsNameSays) {
  const std::size_t n = 100;
  Random random(6);
  std::vector<float> x = random.Floats(n, 3.0f);
  for (float& value : x) value += 20.0f;
  const std::vector<float> weight = random.Floats(n);
  const std::vector<float> bias = random.Floats(n);
  std::vector<float> y(n);
  KernelsFor(BestIsa()).layer_norm(x.data(), weight.data(), bias.data(), 1e-6f, n, y.data());
  double mean = 0;
  for (const float value : x) mean += value / static_cast<double>(n);
  double squares = 0;
  for (const float value : x) squares += (value - mean) * (value - mean);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(y[i], (x[i] - mean) / std::sqrt(squares / n + 1e-6) * weight[i] + bias[i], 2e-5);
  }
}

TEST(Elementwise, AddAndScaleEqualTheReference) {
  ExpectSameBitsOnEveryIsa(
      [](const KernelSet& k, std::size_t n, float* a, float* b, float*) { k.add(a, b, n); });
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float*, float* c) {
    k.scale(a, 0.37f, n, c);
    k.scale(a, -3.0f, n, a);
  });
}

TEST(Elementwise, MaxOfEqualsTheReference) {
  ExpectSameBitsOnEveryIsa([](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    c[0] = k.max_of(a, n) + 0.0f;  // of zeros, +0
    if (n == 0) return;
    for (std::size_t i = 0; i < n; ++i) b[i] = -std::fabs(b[i]);
    c[1] = k.max_of(b, n) + 0.0f;
    std::fill_n(a, n, std::numeric_limits<float>::quiet_NaN());
    c[2] = k.max_of(a, n);  // nothing is left
  });
}

TEST(Elementwise, SoftmaxTermsEqualTheReferenceAlsoInPlace) {
  const auto run = [](const KernelSet& k, std::size_t n, float* x, float* out, float* sum) {
    for (std::size_t i = 0; i < n; ++i) x[i] = x[i] > 9.5f ? 9.5f : x[i];
    const double total = k.softmax_terms(x, 9.5f, 0.8f, n, out);
    std::memcpy(sum, &total, sizeof total);
  };
  EXPECT_EQ(KernelsFor(BestIsa()).softmax_terms(nullptr, 0.0f, 1.0f, 0, nullptr), 0.0);
  ExpectSameBitsOnEveryIsa([&](const KernelSet& k, std::size_t n, float* a, float* b, float* c) {
    if (n > 0) run(k, n, a, b, c);
  });
  ExpectSameBitsOnEveryIsa([&](const KernelSet& k, std::size_t n, float* a, float*, float* c) {
    if (n > 0) run(k, n, a, a, c);
  });
}

TEST(Elementwise, SoftmaxTermsAreWhatTheirNameSays) {
  Random random(7);
  std::vector<float> x = random.Floats(1000, 20.0f);
  x[3] = -std::numeric_limits<float>::infinity();
  x[999] = std::numeric_limits<float>::quiet_NaN();
  const KernelSet& k = KernelsFor(BestIsa());
  const float max = k.max_of(x.data(), x.size());
  EXPECT_EQ(max, *std::max_element(x.begin(), x.end() - 1));
  std::vector<float> terms(x.size());
  const double sum = k.softmax_terms(x.data(), max, 0.5f, x.size(), terms.data());
  double want = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    if (i == 3) continue;
    const double term = std::exp((static_cast<double>(x[i]) - max) / 2);
    // The exponent is rounded twice, the exponential is within 2 ulp.
    const double error = (2 + std::fabs(x[i] - max)) * 0x1p-23;
    EXPECT_NEAR(terms[i], term, error * term + 1e-37) << x[i];
    want += term;
  }
  EXPECT_EQ(terms[3], 0.0f);
  EXPECT_EQ(terms[999], 0.0f);
  EXPECT_NEAR(sum, want, 1e-6 * want);
}

TEST(Elementwise, RmsNormIsWhatItsNameSays) {
  const std::size_t n = 100;
  Random random(5);
  const std::vector<float> x = random.Floats(n, 3.0f);
  const std::vector<float> weight = random.Floats(n);
  std::vector<float> y(n);
  KernelsFor(BestIsa()).rms_norm(x.data(), weight.data(), 1e-6f, n, y.data());
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * value;
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / n + 1e-6) * weight[i], 1e-6);
  }
}

TEST(Elementwise, RopeRotatesEachPairByItsAngle) {
  const std::vector<float> cosine = {0.0f, 1.0f};
  const std::vector<float> sine = {1.0f, 0.0f};
  std::vector<float> interleaved = {1, 2, 3, 4};
  KernelsFor(BestIsa()).rope_interleaved(interleaved.data(), cosine.data(), sine.data(), 2);
  EXPECT_EQ(interleaved, (std::vector<float>{-2, 1, 3, 4}));
  std::vector<float> half_split = {1, 3, 2, 4};
  KernelsFor(BestIsa()).rope_half_split(half_split.data(), cosine.data(), sine.data(), 2);
  EXPECT_EQ(half_split, (std::vector<float>{-2, 3, 1, 4}));
}

// Ulps between `got` and e^x, where an ulp is that of f32 at the true value.
double ErrorInUlps(float got, double x) {
  const double want = std::exp(x);
  const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
  return std::abs(got - want) / ulp;
}

TEST(Exp, IsWithinTwoUlpsOnItsRange) {
  double worst = 0;
  for (float x = -87.0f; x <= 88.0f; x += 0.0017f) worst = std::max(worst, ErrorInUlps(Exp(x), x));
  Random random(6);
  for (int i = 0; i < 20000; ++i) {  // near 0, where most of softmax's weight is
    const float x = random.Unit() * 0.5f;
    worst = std::max(worst, ErrorInUlps(Exp(x), x));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(Exp, HasExactEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(SameBits(Exp(0.0f), 1.0f));
  EXPECT_TRUE(SameBits(Exp(-0.0f), 1.0f));
  EXPECT_TRUE(SameBits(Exp(-kInfinity), 0.0f));
  EXPECT_TRUE(SameBits(Exp(std::nextafter(-87.0f, -100.0f)), 0.0f));
  EXPECT_GT(Exp(-87.0f), 0.0f);
  EXPECT_LT(Exp(88.0f), kInfinity);
  EXPECT_EQ(Exp(std::nextafter(88.0f, 100.0f)), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<float>::quiet_NaN())));
}

// silu_mul(x, 1) = x / (1 + Exp(-x)): every bit of the vector exponential shows.
TEST(Exp, EveryIsaRepeatsItBitForBit) {
  const std::size_t n = 20000;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = -90.0f + 180.0f * static_cast<float>(i) / n;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> want(n);
  for (std::size_t i = 0; i < n; ++i) want[i] = x[i] / (1.0f + Exp(-x[i]));
  for (const Isa isa : RunnableIsas()) {
    std::vector<float> got(n);
    KernelsFor(isa).silu_mul(x.data(), ones.data(), n, got.data());
    EXPECT_TRUE(SameBits(got, want)) << NameOf(isa);
  }
}

}  // namespace
}  // namespace ashlar::kernels
