#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/dot_test.cc"
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "hwy/foreach_target.h"
#include "kernels/isa.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/testing/random_data.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// One vector: sum [kLanes], a and b [4 kLanes].
template <VI32 (*kDot)(VI32, VU8, VI8)>
void ApplyOnce(std::int32_t* sum, const std::uint8_t* a, const std::int8_t* b) {
  const DI32 di;
  const VI32 result = kDot(hn::LoadU(di, sum), hn::LoadU(DU8(), a), hn::LoadU(DI8(), b));
  hn::StoreU(result, di, sum);
}

}  // namespace

void Dot(std::int32_t* sum, const std::uint8_t* a, const std::int8_t* b) {
  ApplyOnce<DotU8S8>(sum, a, b);
}
void DotOfSmall(std::int32_t* sum, const std::uint8_t* a, const std::int8_t* b) {
  ApplyOnce<DotU7S8>(sum, a, b);
}
#if HWY_TARGET == HWY_NEON
void DotByWidening(std::int32_t* sum, const std::uint8_t* a, const std::int8_t* b) {
  ApplyOnce<DotU8S8ByWidening>(sum, a, b);
}
#endif

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#if HWY_ONCE
namespace ashlar::kernels {
namespace {

using testing::Random;

constexpr std::size_t kMaxLanes = 16;

struct Variant {
  Isa isa;
  std::size_t lanes;
  int max_a;
  void (*dot)(std::int32_t* sum, const std::uint8_t* a, const std::int8_t* b);
};

std::vector<Variant> RunnableVariants() {
  std::vector<Variant> variants = {
#if HWY_TARGETS & HWY_AVX2
      {Isa::kAvx2, N_AVX2::kLanes, 255, N_AVX2::Dot},
      {Isa::kAvx2, N_AVX2::kLanes, 127, N_AVX2::DotOfSmall},
#endif
#if HWY_TARGETS & HWY_AVX3
      {Isa::kAvx512, N_AVX3::kLanes, 255, N_AVX3::Dot},
      {Isa::kAvx512, N_AVX3::kLanes, 127, N_AVX3::DotOfSmall},
#endif
#if HWY_TARGETS & HWY_NEON
      {Isa::kNeon, N_NEON::kLanes, 255, N_NEON::Dot},
      {Isa::kNeon, N_NEON::kLanes, 127, N_NEON::DotOfSmall},
      {Isa::kNeon, N_NEON::kLanes, 255, N_NEON::DotByWidening},
#endif
  };
  const std::vector<Isa> runnable = RunnableIsas();
  std::erase_if(variants, [&](const Variant& v) { return !std::ranges::count(runnable, v.isa); });
  return variants;
}

// Runs one vector and compares each lane with the sum spelled out.
void ExpectExact(const Variant& variant, const std::vector<std::int32_t>& sum,
                 const std::vector<std::uint8_t>& a, const std::vector<std::int8_t>& b) {
  std::vector<std::int32_t> got = sum;
  variant.dot(got.data(), a.data(), b.data());
  for (std::size_t lane = 0; lane < variant.lanes; ++lane) {
    std::uint32_t want = static_cast<std::uint32_t>(sum[lane]);
    for (std::size_t i = 4 * lane; i < 4 * lane + 4; ++i) {
      want += static_cast<std::uint32_t>(a[i] * b[i]);
    }
    ASSERT_EQ(got[lane], static_cast<std::int32_t>(want))
        << NameOf(variant.isa) << ", a up to " << variant.max_a << ", lane " << lane;
  }
}

TEST(Dot, IsExactAtTheExtremesInEveryByte) {
  for (const Variant& variant : RunnableVariants()) {
    const int kA[] = {0, 1, 127, variant.max_a / 2 + 1, variant.max_a};
    constexpr int kB[] = {-128, -127, -1, 0, 1, 127};
    // Each byte of a lane on its own against the other three: 30 x 30 pairs at four places.
    for (std::size_t place = 0; place < 4; ++place) {
      for (int pair = 0; pair < 30 * 30; ++pair) {
        std::vector<std::uint8_t> a(4 * kMaxLanes, static_cast<std::uint8_t>(kA[pair % 5]));
        std::vector<std::int8_t> b(4 * kMaxLanes, static_cast<std::int8_t>(kB[pair / 5 % 6]));
        for (std::size_t i = place; i < a.size(); i += 4) {
          a[i] = static_cast<std::uint8_t>(kA[pair / 30 % 5]);
          b[i] = static_cast<std::int8_t>(kB[pair / 150]);
        }
        ExpectExact(variant, std::vector<std::int32_t>(kMaxLanes, 7), a, b);
      }
    }
  }
}

TEST(Dot, KeepsLanesApartAndAddsToTheirSums) {
  for (const Variant& variant : RunnableVariants()) {
    Random random(1);
    for (int repetition = 0; repetition < 200; ++repetition) {
      std::vector<std::int32_t> sum(kMaxLanes);
      std::vector<std::uint8_t> a(4 * kMaxLanes);
      std::vector<std::int8_t> b(4 * kMaxLanes);
      for (auto& value : sum) value = static_cast<std::int32_t>(random.Bits());
      for (auto& value : a) value = static_cast<std::uint8_t>(random.Below(variant.max_a + 1));
      for (auto& value : b) value = static_cast<std::int8_t>(random.Bits());
      ExpectExact(variant, sum, a, b);
    }
  }
}

TEST(Dot, WrapsWhereTheSumLeaves32Bits) {
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const Variant& variant : RunnableVariants()) {
    const std::vector<std::uint8_t> a(4 * kMaxLanes, 127);
    for (const int b : {-128, 127}) {
      const std::vector<std::int32_t> sum(kMaxLanes, b < 0 ? -kMax : kMax);
      ExpectExact(variant, sum, a, std::vector<std::int8_t>(4 * kMaxLanes, b));
    }
  }
}

}  // namespace
}  // namespace ashlar::kernels
#endif  // HWY_ONCE
