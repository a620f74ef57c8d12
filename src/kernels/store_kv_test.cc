#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/testing/lane.h"
#include "kernels/testing/random_data.h"

namespace ashlar::kernels {
namespace {

using testing::Both;
using testing::Lane;
using testing::LaneSpec;
using testing::Random;

constexpr KvCodecKind kRawKinds[] = {KvCodecKind::kF32, KvCodecKind::kF16, KvCodecKind::kBF16};

const KernelSet& Reference() { return KernelsFor(Isa::kReference); }

TEST(StoreKv, RoundsToNearestEvenOnEveryIsa) {
  Random random(7);
  for (const KvCodecKind kind : kRawKinds) {
    for (const std::size_t head_dim : {8, 24, 80}) {
      std::vector<float> k = random.Floats(head_dim, 70000.0f);
      std::vector<float> v = random.Floats(head_dim, 1e-6f);
      k[3] = std::numeric_limits<float>::infinity();
      v[5] = 1.0f + 0x1p-11f;     // a tie in f16
      v[6] = 1.0f + 3 * 0x1p-8f;  // a tie in bf16
      Lane want(Both(kind, head_dim, 16));
      want.Append(Reference(), k.data(), v.data());
      for (const Isa isa : RunnableIsas()) {
        Lane got(Both(kind, head_dim, 16));
        got.Append(KernelsFor(isa), k.data(), v.data());
        EXPECT_EQ(got.raw_k(), want.raw_k()) << NameOf(isa);
        EXPECT_EQ(got.raw_v(), want.raw_v()) << NameOf(isa);
      }
    }
  }
}

TEST(StoreKv, LaysKOutByChannelAndVByToken) {
  const std::vector<float> k = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> v = {-1, -2, -3, -4, -5, -6, -7, -8};
  Lane lane(Both(KvCodecKind::kF32, 8, 16));
  for (int t = 0; t < 4; ++t) lane.Append(KernelsFor(BestIsa()), k.data(), v.data());
  const auto* const k_tile = reinterpret_cast<const float*>(lane.raw_k()[0].data());
  const auto* const v_tile = reinterpret_cast<const float*>(lane.raw_v()[0].data());
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(k_tile[c * 16 + 3], k[c]);
    EXPECT_EQ(v_tile[3 * 8 + c], v[c]);
  }
}

TEST(StoreKv, SaysWhetherAllValuesAreFiniteOnceRounded) {
  for (const Isa isa : RunnableIsas()) {
    for (const KvCodecKind kind : kRawKinds) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7F800001u),
            -std::numeric_limits<float>::infinity(), 65520.0f}) {
        for (std::size_t at = 0; at < 32; ++at) {  // of K, then of V
          std::vector<float> kv(32, 65504.0f);
          kv[at] = bad;
          const bool is_finite = kind != KvCodecKind::kF16 && bad == 65520.0f;
          Lane lane(Both(kind, 16, 16));
          ASSERT_EQ(lane.Append(KernelsFor(isa), kv.data(), kv.data() + 16), is_finite)
              << NameOf(isa) << NameOf(kind) << bad << " at " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::kernels
