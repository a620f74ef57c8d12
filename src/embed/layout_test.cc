#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "ashlar/kv_cache.h"
#include "embed/testing/small_cache.h"

namespace ashlar::cache {
namespace {

using ::testing::HasSubstr;
using testing::HybridLayout;
using testing::MakeCache;
using testing::SmallGroup;
using testing::SmallLayout;

constexpr std::uint32_t kHuge = std::numeric_limits<std::uint32_t>::max();

std::string RefusalOf(const Layout& layout) {
  const Expected<Cache> cache = Cache::Create(layout, {.memory_bytes = 1 << 20});
  if (cache) return "";
  EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
  return cache.error().message;
}

TEST(LanesOfTest, ListsHeadsLayerByLayer) {
  const std::vector<Lane> lanes = LanesOf({.first = 1, .count = 2, .step = 3}, 2, 5);
  EXPECT_EQ(lanes, (std::vector<Lane>{{5, 1, 0}, {5, 1, 1}, {5, 4, 0}, {5, 4, 1}}));
  const std::vector<std::uint32_t> layers = {7, 3};
  EXPECT_EQ(LanesOf(layers, 1), (std::vector<Lane>{{0, 7, 0}, {0, 3, 0}}));
  EXPECT_TRUE(LanesOf(layers, 0).empty());
}

TEST(LanesOfTest, AbsurdCountsEndAboveWhatCreateTakes) {
  EXPECT_EQ(LanesOf({.count = kHuge, .step = kHuge}, kHuge).size(), kMaxLanes + 1);
  EXPECT_EQ(LanesOf({.first = kHuge, .count = kHuge, .step = 0}, 1).size(), kMaxLanes + 1);
  EXPECT_TRUE(LanesOf({.count = kHuge}, 0).empty());
  Layout layout = SmallLayout();
  layout.groups[0].lanes = LanesOf({.count = kHuge}, kHuge);
  EXPECT_THAT(RefusalOf(layout), HasSubstr("65537 lanes"));
}

TEST(LayoutTest, SizesAndPlacesFollowTheDims) {
  Layout layout{.groups = {{.name = "mla",
                            .lanes = LanesOf({.count = 2}, 1),
                            .key_dim = 576,
                            .value_dim = 0,
                            .key_type = ElementType::kBF16},
                           {.name = "draft",
                            .lanes = LanesOf({.count = 1}, 2, 1),
                            .key_dim = 64,
                            .value_dim = 32,
                            .key_type = ElementType::kF32}}};
  const Cache cache = MakeCache(layout, {.memory_bytes = 1 << 20});
  ASSERT_EQ(cache.groups(), 2u);
  EXPECT_EQ(cache.SizesOf(0)->bytes_per_token, 2 * 576 * 2u);
  EXPECT_EQ(cache.SizesOf(0)->value_tile_bytes, 0u);
  EXPECT_EQ(cache.SizesOf(1)->key_tile_bytes, 16 * 64 * 4u);
  EXPECT_EQ(cache.SizesOf(1)->block_bytes, 2 * 16 * (64 * 4 + 32 * 2u));
  const std::optional<LanePlace> place = cache.Find({.model = 1, .layer = 0, .head = 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->group, 1u);
  EXPECT_EQ(place->key_offset, 16 * (64 * 4 + 32 * 2u));
  EXPECT_EQ(place->value_offset, place->key_offset + 16 * 64 * 4u);
  EXPECT_FALSE(cache.Find({.model = 2}));
}

TEST(LayoutTest, ASharedLayerLeadsToItsSource) {
  Layout layout = SmallLayout();
  layout.shared_layers = {{.layer = 9, .source_layer = 0}};
  const Cache cache = MakeCache(layout, {.memory_bytes = 1 << 20});
  ASSERT_TRUE(cache.Find({.layer = 9}));
  EXPECT_EQ(cache.Find({.layer = 9})->key_offset, cache.Find({.layer = 0})->key_offset);
}

TEST(LayoutTest, FingerprintsDifferWhenBytesMeanSomethingElse) {
  const Cache small = MakeCache(SmallLayout(), {.memory_bytes = 1 << 20});
  const Cache hybrid = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  EXPECT_NE(small.LayoutFingerprint(), hybrid.LayoutFingerprint());
}

TEST(LayoutTest, WhatIsWrongIsRefusedByName) {
  EXPECT_THAT(RefusalOf({}), HasSubstr("number of lane groups is 0"));
  const auto refusal = [](auto change) {
    Layout layout = HybridLayout();
    change(layout, layout.groups[1]);
    return RefusalOf(layout);
  };
  using G = LaneGroup;
  using L = Layout;
  EXPECT_THAT(refusal([](L& l, G&) { l.block_tokens = 0; }), HasSubstr("block tokens is 0"));
  EXPECT_THAT(refusal([](L& l, G&) { l.block_tokens = kHuge; }), HasSubstr("block tokens"));
  EXPECT_THAT(refusal([](L&, G& g) { g.name = ""; }), HasSubstr("name"));
  EXPECT_THAT(refusal([](L&, G& g) { g.name = "full"; }), HasSubstr("two groups"));
  EXPECT_THAT(refusal([](L&, G& g) { g.lanes.clear(); }), HasSubstr("number of lanes"));
  EXPECT_THAT(refusal([](L& l, G& g) { g.lanes = l.groups[0].lanes; }), HasSubstr("another group"));
  EXPECT_THAT(refusal([](L&, G& g) { g.key_dim = 0; }), HasSubstr("key dim"));
  EXPECT_THAT(refusal([](L&, G& g) { g.value_dim = kHuge; }), HasSubstr("value dim"));
  EXPECT_THAT(refusal([](L&, G& g) { g.window = kMaxTokens + 1; }), HasSubstr("window"));
  EXPECT_THAT(refusal([](L&, G& g) { g.sinks = ~0ull; }), HasSubstr("sinks"));
  EXPECT_THAT(refusal([](L&, G& g) { g.window = 0; }), HasSubstr("sinks"));
  EXPECT_THAT(refusal([](L&, G& g) { g.key_type = static_cast<ElementType>(77); }),
              HasSubstr("77"));
  EXPECT_THAT(refusal([](L& l, G&) { l.shared_layers = {{.layer = 5, .source_layer = 4}}; }),
              HasSubstr("none of its own"));
}

TEST(LayoutTest, AtALimitOneMoreIsRefused) {
  Layout layout;
  for (std::uint32_t g = 0; g < kMaxGroups; ++g) {
    layout.groups.push_back(SmallGroup(("g" + std::to_string(g)).c_str(), g));
  }
  EXPECT_EQ(RefusalOf(layout), "");
  layout.groups.push_back(SmallGroup("more", kMaxGroups));
  EXPECT_THAT(RefusalOf(layout), HasSubstr("257 groups"));

  Layout shared = SmallLayout();
  for (std::uint32_t i = 1; i <= kMaxSharedLanes / 16 + 1; ++i) {
    shared.shared_layers.push_back({.layer = i, .source_layer = 0});
  }
  EXPECT_THAT(RefusalOf(shared), HasSubstr("4097 shared layers"));
  shared.shared_layers.pop_back();
  EXPECT_EQ(RefusalOf(shared), "");
}

}  // namespace
}  // namespace ashlar::cache
