// What stands around the codecs: rotation, query rows as integers, and the codecs' tables.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "kernels/codec.h"
#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::GoldenVector;
using testing::Random;
using testing::SameBits;

// --- Rotation ---

TEST(Hadamard, EqualsTheReferenceOnEveryIsaAndIsItsOwnInverse) {
  Random random(6);
  for (const std::size_t n : {8u, 16u, 24u, 40u, 64u, 80u, 96u, 128u, 256u, 576u}) {
    const std::vector<float> x = random.Floats(n, 3.0f);
    std::vector<float> want = x;
    KernelsFor(Isa::kReference).hadamard(want.data(), n);
    double before = 0.0;
    double after = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      before += double{x[i]} * x[i];
      after += double{want[i]} * want[i];
    }
    EXPECT_NEAR(after / before, 1.0, 1e-6);
    for (const Isa isa : RunnableIsas()) {
      std::vector<float> y = x;
      KernelsFor(isa).hadamard(y.data(), n);
      ASSERT_TRUE(SameBits(y, want)) << NameOf(isa) << " " << n;
      KernelsFor(isa).hadamard(y.data(), n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i], 2e-6f);
    }
  }
}

TEST(Hadamard, MatchesTheGoldenVector) {
  std::vector<float> x = GoldenVector(64);
  KernelsFor(BestIsa()).hadamard(x.data(), 64);
  const float want[] = {-0.075f, 0.645f, -0.225f, -0.505f, 1.065f, 0.505f, -0.505f, 3.535f};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(x[i], want[i], 2e-6f);
}

TEST(Hadamard, KeepsProductsAndUsesTheLargestPowerOfTwoThatDivides) {
  EXPECT_EQ(HadamardSize(64), 64u);
  EXPECT_EQ(HadamardSize(80), 16u);
  EXPECT_EQ(HadamardSize(96), 32u);
  Random random(7);
  std::vector<float> q = random.Floats(96);
  std::vector<float> k = random.Floats(96);
  const auto dot = [&] {
    double sum = 0.0;
    for (std::size_t i = 0; i < 96; ++i) sum += double{q[i]} * k[i];
    return sum;
  };
  const double before = dot();
  KernelsFor(BestIsa()).hadamard(q.data(), 96);
  KernelsFor(BestIsa()).hadamard(k.data(), 96);
  EXPECT_NEAR(dot(), before, 1e-5);
}

// --- Queries ---

TEST(Prepare, EqualsTheReferenceOnEveryIsa) {
  Random random(8);
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const std::size_t dim : {8u, 64u, 80u, 256u}) {
      std::vector<float> q = random.Floats(5 * dim, 2.0f);
      std::fill_n(q.begin() + static_cast<std::ptrdiff_t>(dim), dim, 0.0f);
      q[2 * dim + 3] = std::numeric_limits<float>::infinity();
      q[3 * dim + 5] = std::numeric_limits<float>::quiet_NaN();
      std::vector<std::vector<std::byte>> results;
      for (const Isa isa : RunnableIsas()) {
        std::vector<std::byte> prepared(PreparedBytes(kind, 5, dim), std::byte{0xEE});
        KernelsFor(isa).prepare({.key_kind = kind,
                                 .q = q.data(),
                                 .q_stride = dim,
                                 .rows = 5,
                                 .head_dim = dim,
                                 .prepared = prepared.data()});
        results.push_back(prepared);
        ASSERT_EQ(prepared, results.front()) << NameOf(isa) << " " << NameOf(kind) << dim;
      }
    }
  }
}

// --- Tables ---

TEST(LloydMax, LevelsAreTheFixedPointForTheNormalDistribution) {
  const auto check = [](const auto& half) {
    const std::size_t n = half.size();
    std::vector<double> level(half.begin(), half.end());
    const auto density = [](double x) {
      return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
    };
    const auto above = [](double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); };
    for (int i = 0; i < 20000; ++i) {
      std::vector<double> next(n);
      for (std::size_t j = 0; j < n; ++j) {
        const double low = j == 0 ? 0.0 : 0.5 * (level[j - 1] + level[j]);
        const bool is_last = j + 1 == n;
        const double high = is_last ? 1e9 : 0.5 * (level[j] + level[j + 1]);
        const double mass = above(low) - (is_last ? 0.0 : above(high));
        next[j] = (density(low) - (is_last ? 0.0 : density(high))) / mass;
      }
      level = next;
    }
    for (std::size_t j = 0; j < n; ++j) EXPECT_NEAR(half[j], level[j], 1e-5);
  };
  check(kLloydMax8);
  check(kLloydMax16);
}

TEST(E4m3, EveryCodeRoundTripsAndGoldenValuesHold) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    if ((byte & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(E4m3ToF32(byte)));
      continue;
    }
    EXPECT_EQ(F32ToE4m3(E4m3ToF32(byte)), byte);
  }
  const std::pair<float, float> golden[] = {
      {0x1p-10f, 0.0f}, {0x1p-9f, 0x1p-9f}, {0.01f, 0.009765625f}, {0.1f, 0.1015625f},
      {0.3f, 0.3125f},  {1.0625f, 1.0f},    {1.1f, 1.125f},        {17.0f, 16.0f},
      {33.0f, 32.0f},   {200.0f, 192.0f},   {448.0f, 448.0f},      {460.0f, 448.0f},
      {500.0f, 448.0f}, {-3e38f, -448.0f},  {15.9f, 16.0f},        {-1e-20f, -0.0f}};
  for (const auto& [given, want] : golden) {
    EXPECT_TRUE(SameBits(E4m3ToF32(F32ToE4m3(given)), want)) << given;
  }
}

}  // namespace
}  // namespace ashlar::kernels
