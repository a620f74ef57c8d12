#include "model/kv_codec_spec.h"

#include <gtest/gtest.h>

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

TEST(KvLayoutOf, AModelThatIsAllEdgeHasOneGroup) {
  const KvCodecSpec spec = ParseKvCodecSpec("q4").value();
  const kv::KvLayout layout = KvLayoutOf(Config(4), spec, 16).value();
  ASSERT_EQ(layout.groups().size(), 1u);
  EXPECT_EQ(NameOf(layout.group(0).spec().key_codec), "hq8");
}

}  // namespace
}  // namespace ashlar::model
