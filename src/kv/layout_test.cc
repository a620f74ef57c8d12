#include "kv/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ashlar::kv {
namespace {

KvLayoutSpec OneGroup(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t head_dim) {
  return {.groups = {{.lanes = LanesOfAllLayers(layers, kv_heads),
                      .key_dim = head_dim,
                      .value_dim = head_dim}}};
}

TEST(KvLayout, CountsKvHeadsNotQueryHeads) {
  // SmolLM2-135M: 30 layers, 3 kv heads of 64 (9 query heads): 30 * 3 * 64 * 2 * 2 bytes per token.
  const auto smol = KvLayout::Create(OneGroup(30, 3, 64));
  ASSERT_TRUE(smol.ok());
  EXPECT_EQ(smol->bytes_per_token(), 23'040u);
  EXPECT_EQ(smol->group(0).block_bytes(), 16u * 23'040u);
  // Llama-2-70B at 32,768 tokens in f16, 80 layers, 8 kv heads of 128.
  const auto llama = KvLayout::Create(OneGroup(80, 8, 128));
  EXPECT_EQ(llama->bytes_per_token() * 32'768, 10'737'418'240u);
  EXPECT_EQ(llama->BlocksNeeded(32'768) * llama->group(0).block_bytes(), 10'737'418'240u);
}

TEST(KvLayout, ALatentLaneHasNoValuesOfItsOwn) {
  // DeepSeek-V2: 60 layers, one latent of 512 + 64 elements: 60 * 576 * 2 bytes per token.
  const auto mla = KvLayout::Create(
      {.groups = {{.lanes = LanesOfAllLayers(60, 1), .key_dim = 576, .value_dim = 0}}});
  ASSERT_TRUE(mla.ok()) << mla.error().message;
  EXPECT_EQ(mla->bytes_per_token(), 69'120u);
  EXPECT_EQ(mla->Find({.layer = 59})->key_offset, 59u * 576u * 16u * 2u);
}

TEST(KvLayout, TilesFillTheBlockWithoutOverlap) {
  KvLayoutSpec spec = OneGroup(3, 2, 24);
  spec.block_tokens = 32;
  spec.groups[0].key_codec = {.kind = KvCodecKind::kF32};
  const auto layout = KvLayout::Create(spec);
  ASSERT_TRUE(layout.ok());
  const LaneGroup& group = layout->group(0);
  EXPECT_EQ(group.key_tile_bytes(), 24u * 32u * 4u);
  EXPECT_EQ(group.value_tile_bytes(), 24u * 32u * 2u);
  std::size_t expected = 0;
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    for (std::uint32_t head = 0; head < 2; ++head) {
      const auto place = layout->Find({.layer = layer, .head = head});
      EXPECT_EQ(place->key_offset, expected);
      EXPECT_EQ(place->value_offset, expected + group.key_tile_bytes());
      expected += group.key_tile_bytes() + group.value_tile_bytes();
    }
  }
  EXPECT_EQ(group.block_bytes(), expected);
}

TEST(KvLayout, AGroupIsEncodedWhenItsKOrItsVIs) {
  constexpr KvCodec kF32 = {.kind = KvCodecKind::kF32};
  constexpr KvCodec kQ8 = {.kind = KvCodecKind::kQ8, .is_rotated = true};
  struct Case {
    KvCodec key;
    KvCodec value;
    std::uint32_t value_dim;
    bool is_encoded;
  };
  for (const Case& c :
       {Case{kQ8, kQ8, 64, true}, Case{kQ8, kF32, 64, true}, Case{kF32, kQ8, 64, true},
        Case{kF32, kF32, 64, false}, Case{kF32, kQ8, 0, false}}) {
    KvLayoutSpec spec = OneGroup(1, 1, 64);
    spec.groups[0].key_codec = c.key;
    spec.groups[0].value_codec = c.value;
    spec.groups[0].value_dim = c.value_dim;
    const auto layout = KvLayout::Create(spec);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_EQ(layout->group(0).is_encoded(), c.is_encoded);
    EXPECT_EQ(layout->group(0).open_block_bytes() > 0, c.is_encoded);
    EXPECT_EQ(layout->group(0).shares_tokens(), !c.is_encoded);
  }
  KvLayoutSpec forced = OneGroup(1, 1, 64);
  forced.groups[0].shares_tokens = false;
  EXPECT_FALSE(KvLayout::Create(forced)->group(0).is_encoded());
  EXPECT_FALSE(KvLayout::Create(forced)->group(0).shares_tokens());
}

TEST(KvLayout, TilesOfEncodedAndOfOpenBlocksFillThemWithoutOverlap) {
  // SmolLM2's lanes: K in q8, 8.5 bits an element; V in f32, which stays f32 while it is open.
  KvLayoutSpec spec = OneGroup(30, 3, 64);
  spec.groups[0].key_codec = {.kind = KvCodecKind::kQ8};
  spec.groups[0].value_codec = {.kind = KvCodecKind::kF32};
  const auto layout = KvLayout::Create(spec);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  const LaneGroup& group = layout->group(0);
  EXPECT_EQ(group.key_tile_bytes(), 16u * 64u * 17u / 16u);
  EXPECT_EQ(group.value_tile_bytes(), 16u * 64u * 4u);
  EXPECT_EQ(group.open_key_tile_bytes(), 16u * 64u * 2u);
  EXPECT_EQ(group.open_value_tile_bytes(), 16u * 64u * 4u);
  LanePlace expected;
  for (std::uint32_t layer = 0; layer < 30; ++layer) {
    for (std::uint32_t head = 0; head < 3; ++head) {
      const auto place = layout->Find({.layer = layer, .head = head});
      EXPECT_EQ(place->key_offset, expected.key_offset);
      EXPECT_EQ(place->value_offset, expected.key_offset + group.key_tile_bytes());
      EXPECT_EQ(place->open_key_offset, expected.open_key_offset);
      EXPECT_EQ(place->open_value_offset, expected.open_key_offset + group.open_key_tile_bytes());
      expected.key_offset = place->value_offset + group.value_tile_bytes();
      expected.open_key_offset = place->open_value_offset + group.open_value_tile_bytes();
    }
  }
  EXPECT_EQ(group.block_bytes(), expected.key_offset);
  EXPECT_EQ(group.open_block_bytes(), expected.open_key_offset);
}

TEST(KvLayout, TheFingerprintNamesBothCodecs) {
  KvLayoutSpec spec = OneGroup(1, 1, 64);
  spec.groups[0].key_codec = {.kind = KvCodecKind::kQ8, .is_rotated = true};
  spec.groups[0].value_codec = {.kind = KvCodecKind::kKc4};
  const std::string text = KvLayout::Create(spec)->Fingerprint();
  EXPECT_NE(text.find("hq8/kc4"), std::string::npos) << text;
  std::swap(spec.groups[0].key_codec, spec.groups[0].value_codec);
  EXPECT_NE(KvLayout::Create(spec)->Fingerprint(), text);
}

TEST(KvLayout, EveryAttentionKindIsADescriptor) {
  // Layers 0..5: one in three full, the others sliding; layer 6 reads layer 5; layer 7 keeps only
  // head 1, in a group of its own; a draft model's lanes.
  KvLayoutSpec spec;
  const std::uint32_t full[] = {2, 5};
  const std::uint32_t sliding[] = {0, 1, 3, 4};
  spec.groups = {
      {.name = "full", .lanes = LanesOf(full, 2), .key_dim = 64, .value_dim = 64},
      {.name = "sliding",
       .lanes = LanesOf(sliding, 2),
       .key_dim = 64,
       .value_dim = 64,
       .window = 512},
      {.name = "one", .lanes = {{.layer = 7, .head = 1}}, .key_dim = 32, .value_dim = 8},
      {.name = "draft", .lanes = LanesOfAllLayers(1, 1, 1), .key_dim = 8, .value_dim = 8}};
  spec.shared_layers = {{.layer = 6, .source_layer = 5}};
  const auto layout = KvLayout::Create(spec);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  EXPECT_EQ(layout->Find({.layer = 5, .head = 1})->group, 0u);
  EXPECT_EQ(layout->Find({.layer = 6, .head = 1})->key_offset,
            layout->Find({.layer = 5, .head = 1})->key_offset);
  EXPECT_EQ(layout->Find({.layer = 4})->group, 1u);
  EXPECT_EQ(layout->Find({.layer = 7, .head = 1})->group, 2u);
  EXPECT_FALSE(layout->Find({.layer = 7, .head = 0}).has_value());
  EXPECT_EQ(layout->Find({.model = 1})->group, 3u);
}

TEST(LaneGroup, PeakIsTheMostThatAnyCutHoldsAndIsReached) {
  for (const std::uint64_t window : {0, 1, 2, 15, 16, 17, 40}) {
    for (const std::uint64_t sinks : {0, 1, 20}) {
      if (window == 0 && sinks > 0) continue;
      KvLayoutSpec spec = OneGroup(1, 1, 8);
      spec.groups[0].window = window;
      spec.groups[0].sinks = sinks;
      const KvLayout layout = *KvLayout::Create(spec);
      const LaneGroup& group = layout.group(0);
      for (const std::uint64_t chunk : {1, 7, 16, 33}) {
        std::uint64_t most = 0;
        for (std::uint64_t tokens = 1; tokens <= 300; ++tokens) {
          // Any piece that ends here.
          for (std::uint64_t count = 1; count <= std::min<std::uint64_t>(chunk, tokens); ++count) {
            most = std::max(most, group.BlocksHeld(tokens - count, count));
          }
          const std::uint64_t peak = group.PeakBlocks(tokens, chunk);
          ASSERT_GE(peak, most) << window << " " << sinks << " " << chunk << " " << tokens;
          if (window == 0) {
            ASSERT_EQ(peak, most);
          }
        }
        EXPECT_EQ(group.PeakBlocks(300, chunk), most) << window << " " << sinks << " " << chunk;
      }
    }
  }
}

TEST(KvLayout, RefusesNamingTheFieldAndWhatIsAllowed) {
  const auto message = [&](auto change) {
    KvLayoutSpec spec = OneGroup(1, 1, 64);
    change(spec);
    const auto result = KvLayout::Create(spec);
    return result.ok() ? std::string() : result.error().message;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(message([](KvLayoutSpec&) {}), "");
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups[0].lanes.clear(); }), "lanes"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups[0].key_dim = 60; }), "multiple of 8"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups[0].value_dim = 1032; }), "1032"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups[0].sinks = 4; }), "without a window"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups.clear(); }), "number of lane groups"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) { s.groups.push_back(s.groups[0]); }), "two groups"));
  EXPECT_TRUE(has(message([](KvLayoutSpec& s) {
                    s.groups.push_back(s.groups[0]);
                    s.groups[1].name = "other";
                  }),
                  "in another group"));
  EXPECT_TRUE(
      has(message([](KvLayoutSpec& s) { s.shared_layers = {{.layer = 2, .source_layer = 1}}; }),
          "none of its own"));
  EXPECT_TRUE(
      has(message([](KvLayoutSpec& s) { s.shared_layers = {{.layer = 0, .source_layer = 0}}; }),
          "lanes of its own"));
  for (const std::uint32_t bad : {0u, 8u, 24u, 512u}) {
    EXPECT_TRUE(has(message([&](KvLayoutSpec& s) { s.block_tokens = bad; }), "16, 32"));
  }
  for (const KvCodec bad :
       {KvCodec{.kind = KvCodecKind{12}}, KvCodec{.kind = KvCodecKind::kF16, .is_rotated = true}}) {
    EXPECT_TRUE(has(message([&](KvLayoutSpec& s) { s.groups[0].key_codec = bad; }), "codec"));
    EXPECT_TRUE(has(message([&](KvLayoutSpec& s) { s.groups[0].value_codec = bad; }), "codec"));
  }
}

}  // namespace
}  // namespace ashlar::kv
