#include "model/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/model.h"
#include "model/testing/tiny_model.h"

namespace ashlar::model {
namespace {

using Change = std::function<void(gguf::GgufWriter&)>;

// The error of loading the plain tiny model after `change`, or "" when it loads.
std::string LoadError(const Change& change, const TinyModelOptions& options = {}) {
  gguf::GgufWriter writer = MakeTinyModel(options);
  change(writer);
  const std::vector<std::byte> bytes = writer.Build();
  const auto file = gguf::ModelFile::Parse(bytes, "tiny");
  if (!file.ok()) return "file: " + file.error().message;
  ThreadPool pool(1);
  const auto model = Model::Load(*file, pool, nullptr);
  return model.ok() ? std::string() : model.error().message;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(ModelConfig, ReadsTheGeometry) {
  const std::vector<std::byte> bytes = MakeTinyModel({.rope_scaling = "yarn"}).Build();
  const auto file = gguf::ModelFile::Parse(bytes, "tiny");
  ASSERT_TRUE(file.ok());
  const auto config = ModelConfig::Read(*file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->layers, 2u);
  EXPECT_EQ(config->group(), 2u);
  EXPECT_EQ(config->vocab, kTinyVocab);
  EXPECT_EQ(config->rope_pairs, RopePairs::kInterleaved);
  EXPECT_EQ(config->ropes[0].scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(config->ropes[0].scaling.original_context, 512);
}

TEST(ModelConfig, HeadSizeDefaultsToHiddenOverHeads) {
  EXPECT_EQ(LoadError([](auto& w) {
              w.Remove("llama.attention.key_length").Remove("llama.attention.value_length");
              w.Remove("llama.rope.dimension_count");
            }),
            "");
}

TEST(ModelConfig, RefusesOtherArchitecturesAndFeaturesByName) {
  EXPECT_SAYS(LoadError([](auto& w) { w.Set("general.architecture", "mamba"); }),
              "'mamba' is not supported; this build runs llama, qwen2, qwen2moe");
  EXPECT_SAYS(LoadError([](auto& w) { w.SetUnsigned("llama.expert_count", 8); }),
              "llama.expert_used_count");
  EXPECT_SAYS(LoadError([](auto& w) { w.Set("llama.rope.scaling.type", "dynamic"); }), "'dynamic'");
  const std::vector<std::int64_t> per_layer = {1, 2};
  EXPECT_SAYS(
      LoadError([&](auto& w) { w.SetIntegers("llama.attention.head_count_kv", per_layer); }),
      "differs between layers");
  const std::vector<std::int64_t> equal = {2, 2};
  EXPECT_EQ(LoadError([&](auto& w) { w.SetIntegers("llama.attention.head_count_kv", equal); }), "");
}

TEST(ModelConfig, RefusesValuesNoModelHas) {
  const auto with = [](std::string_view key, std::uint64_t value) {
    return LoadError([=](auto& w) { w.SetUnsigned(key, value, gguf::ValueType::kU64); });
  };
  EXPECT_SAYS(with("llama.block_count", 0), "llama.block_count is 0");
  EXPECT_SAYS(with("llama.block_count", ~0ull), "llama.block_count is 18446744073709551615");
  EXPECT_SAYS(with("llama.attention.head_count", 0), "llama.attention.head_count");
  EXPECT_SAYS(with("llama.attention.head_count_kv", 3), "not a multiple of 3 kv heads");
  EXPECT_SAYS(with("llama.attention.head_count_kv", 5), "1 to 4");
  EXPECT_SAYS(LoadError([](auto& w) {
                w.SetUnsigned("llama.attention.key_length", 60)
                    .SetUnsigned("llama.attention.value_length", 60);
              }),
              "60 is not a multiple of 8");
  EXPECT_SAYS(with("llama.attention.value_length", 32), "value_length is 32");
  EXPECT_SAYS(with("llama.rope.dimension_count", 66), "dimension_count is 66");
  EXPECT_SAYS(with("llama.rope.dimension_count", 63), "dimension_count is 63");
  EXPECT_SAYS(with("llama.context_length", 0), "context_length is 0");
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_SAYS(LoadError([=](auto& w) { w.SetFloat("llama.rope.freq_base", bad); }), "freq_base");
    EXPECT_SAYS(
        LoadError([=](auto& w) { w.SetFloat("llama.attention.layer_norm_rms_epsilon", bad); }),
        "epsilon");
  }
  EXPECT_NE(LoadError([](auto& w) { w.Remove("llama.block_count"); }), "");
  EXPECT_NE(LoadError([](auto& w) { w.Set("llama.block_count", "two"); }), "");
}

TEST(Weights, ATensorThatIsMissingMisshapenOrUnknownIsNamed) {
  // One layer more than there are tensors for.
  EXPECT_SAYS(LoadError([](auto& w) { w.SetUnsigned("llama.block_count", 3); }),
              "blk.2.attn_norm.weight");
  // One layer less: its tensors are left over.
  EXPECT_SAYS(LoadError([](auto& w) { w.SetUnsigned("llama.block_count", 1); }), "'blk.1.");
  EXPECT_SAYS(LoadError([](auto& w) { w.SetUnsigned("llama.feed_forward_length", 256); }), "ffn_");
  EXPECT_SAYS(LoadError([](auto& w) {
                const std::vector<float> gains(64, 1.0f);
                w.AddFloats("blk.0.attn_q_norm.weight", {64}, gains);
              }),
              "'blk.0.attn_q_norm.weight' is not part of the architecture");
}

TEST(Weights, RotaryDivisorsMustBePositive) {
  TinyModelOptions options;
  EXPECT_SAYS(LoadError(
                  [](auto& w) {
                    const std::vector<float> zeros(32, 0.0f);
                    w.AddFloats("rope_freqs.weight", {32}, zeros);
                  },
                  options),
              "rotary divisors hold 0");
}

}  // namespace
}  // namespace ashlar::model
