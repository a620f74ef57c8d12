#include "model/kv_codec_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "model/kv_layout.h"

namespace ashlar::model {
namespace {

KvCodec Codec(std::string_view name) { return ParseKvCodec(name).value(); }

ModelConfig Config(std::uint32_t layers) {
  ModelConfig config;
  config.layers = layers;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 64;
  return config;
}

TEST(KvCodecSpec, ACodecAloneIsForKAndV) {
  const KvCodecSpec spec = ParseKvCodecSpec("hq6").value();
  EXPECT_EQ(spec.full, (CodecPair{Codec("hq6"), Codec("hq6")}));
  EXPECT_EQ(spec.edge_layers, 0u);
  EXPECT_EQ(spec.name, "hq6");
}

TEST(KvCodecSpec, KAndVEdgesAndSlidingLayersEach) {
  const KvCodecSpec spec = ParseKvCodecSpec("v=hq4,k=q8,sliding=f16,edge=3@hq8").value();
  EXPECT_EQ(spec.full, (CodecPair{Codec("q8"), Codec("hq4")}));
  EXPECT_EQ(spec.edge_layers, 3u);
  EXPECT_EQ(spec.edge, (CodecPair{Codec("hq8"), Codec("hq8")}));
  EXPECT_EQ(spec.sliding, (CodecPair{Codec("f16"), Codec("f16")}));
}

TEST(KvCodecSpec, EveryPresetIsASpec) {
  for (const KvCodecPreset& preset : KvCodecPresets()) {
    const KvCodecSpec spec = ParseKvCodecSpec(preset.name).value();
    EXPECT_EQ(spec.name, preset.name);
    EXPECT_EQ(spec.full, ParseKvCodecSpec(preset.spec).value().full);
  }
  EXPECT_EQ(ParseKvCodecSpec("q8").value().full, (CodecPair{Codec("hq8"), Codec("q8")}));
}

TEST(KvCodecSpec, WhatIsWrongIsNamed) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "preset"},
      {"q7", "'q7'"},
      {"k=q8", "K and V both"},
      {"k=q8,v=q9", "'q9'"},
      {"k=q8,v=q8,k=q4", "before"},
      {"k=q8,v=q8,", "''"},
      {"k=q8,v=q8,edge=2", "edge=2@hq8"},
      {"k=q8,v=q8,edge=0@q8", "edge=2@hq8"},
      {"k=q8,v=q8,edge=-1@q8", "edge=2@hq8"},
      {"k=q8,v=q8,edge=99999999999@q8", "edge=2@hq8"},
      {"k=q8,v=q8,edge=2@", "''"},
      {"k=q8,v=q8,edge=1@q8,edge=1@q8", "each once"},
      {"x=q8,v=q8", "'x=q8'"},
      {"k=hf16,v=q8", "'hf16'"}};
  for (const auto& [text, part] : cases) {
    const Result<KvCodecSpec> spec = ParseKvCodecSpec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.error().message.find(part), std::string::npos) << spec.error().message;
  }
}

TEST(KvLayoutOf, EdgeLayersAreAGroupOfTheirOwn) {
  const KvCodecSpec spec = ParseKvCodecSpec("k=hq4,v=hq4,edge=2@hq8").value();
  const kv::KvLayout layout = KvLayoutOf(Config(6), spec, 16).value();
  ASSERT_EQ(layout.groups().size(), 2u);
  for (std::uint32_t layer = 0; layer < 6; ++layer) {
    const bool is_edge = layer < 2 || layer >= 4;
    EXPECT_EQ(layout.group(layout.Find({.layer = layer})->group).name(), is_edge ? "edge" : "full");
  }
  EXPECT_EQ(layout.bytes_per_token(), 4 * 2 * 2 * 68u + 2 * 2 * 2 * 36u);
}

TEST(KvLayoutOf, ACodecForLayersThatAModelDoesNotHaveIsRefused) {
  const KvCodecSpec spec = ParseKvCodecSpec("k=q8,v=q8,sliding=f16").value();
  const Result<kv::KvLayout> layout = KvLayoutOf(Config(6), spec, 16);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message.find("sliding"), std::string::npos);
}

std::vector<std::string> GroupNames(const kv::KvLayout& layout) {
  std::vector<std::string> names;
  names.reserve(layout.groups().size());
  for (const kv::LaneGroup& group : layout.groups()) names.push_back(group.name());
  return names;
}

TEST(KvLayoutOf, SlidingLayersAreAGroupOfTheirOwn) {
  std::vector<LayerKv> layers(12, {.kv_heads = 2, .key_dim = 64, .value_dim = 64, .window = 512});
  for (const std::size_t full : {5u, 11u}) layers[full].window = 0;
  const auto names = [&](std::string_view spec) {
    return GroupNames(*KvLayoutOf(layers, *ParseKvCodecSpec(spec), 16));
  };
  EXPECT_EQ(names("f16"), (std::vector<std::string>{"full", "sliding"}));
  // Layer 11 is the only full one at an end; 0, 1 and 10 slide.
  EXPECT_EQ(names("q4"), (std::vector<std::string>{"full", "sliding", "edge", "sliding edge"}));
  // What sliding= says goes before what edge= says.
  EXPECT_EQ(names("k=hq4,v=hq4,edge=2@hq8,sliding=f16"),
            (std::vector<std::string>{"full", "sliding", "edge"}));
  const kv::KvLayout layout =
      *KvLayoutOf(layers, *ParseKvCodecSpec("k=hq4,v=hq4,edge=2@hq8,sliding=f16"), 16);
  EXPECT_EQ(layout.group(1).spec().window, 512u);
  EXPECT_EQ(layout.group(1).spec().lanes.size(), 10u * 2u);
  EXPECT_FALSE(layout.group(1).is_encoded());
}

TEST(KvLayoutOf, LayersMayShareKeepNothingOrDiffer) {
  std::vector<LayerKv> layers(6, {.kv_heads = 2, .key_dim = 64, .value_dim = 64});
  layers[1] = {};                   // keeps nothing
  layers[4] = {.source_layer = 3};  // reads layer 3's
  layers[5].kv_heads = 1;           // other heads, the same rows: the same group
  layers[2].key_dim = layers[2].value_dim = 128;
  const kv::KvLayout layout = *KvLayoutOf(layers, KvCodecSpec::Of({}), 16);
  EXPECT_EQ(GroupNames(layout), (std::vector<std::string>{"full", "full 2"}));
  EXPECT_EQ(layout.group(0).spec().lanes.size(), 2u + 2u + 1u);
  EXPECT_FALSE(layout.Find({.layer = 1}).has_value());
  EXPECT_EQ(layout.Find({.layer = 4, .head = 1})->key_offset,
            layout.Find({.layer = 3, .head = 1})->key_offset);
  EXPECT_EQ(layout.bytes_per_token(), 5u * 2 * 64 * 2 + 2u * 2 * 128 * 2);
}

TEST(KvLayoutOf, AModelThatIsAllEdgeHasOneGroup) {
  const KvCodecSpec spec = ParseKvCodecSpec("q4").value();
  const kv::KvLayout layout = KvLayoutOf(Config(4), spec, 16).value();
  ASSERT_EQ(layout.groups().size(), 1u);
  EXPECT_EQ(NameOf(layout.group(0).spec().key_codec), "hq8");
}

}  // namespace
}  // namespace ashlar::model
