#include "hf/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gguf/describe.h"

namespace ashlar::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fields = nlohmann::ordered_json;

Fields Llama() {
  return {{"model_type", "llama"},          {"num_hidden_layers", 2},   {"hidden_size", 64},
          {"intermediate_size", 128},       {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"max_position_embeddings", 512}, {"rms_norm_eps", 1e-6}};
}

Fields With(Fields fields, const Fields& more) {
  fields.update(more);
  return fields;
}

Result<gguf::ModelFile::Contents> Read(const Fields& fields) {
  ASHLAR_ASSIGN(const Json json, Json::Parse(fields.dump(), "config.json"));
  const Config config(json);
  ASHLAR_ASSIGN(const Family* const family, FamilyOf(config));
  Builder builder{std::string(family->architecture)};
  ASHLAR_TRY(ReadConfig(config, *family, builder));
  return std::move(builder.contents());
}

std::string ErrorOf(const Fields& fields) {
  const auto read = Read(fields);
  return read.ok() ? "" : read.error().message;
}

// "the unsigned integer 5"
std::string ValueOf(const Fields& fields, const std::string& key) {
  const auto read = Read(fields);
  if (!read.ok()) return read.error().message;
  const auto found = read->metadata.find(key);
  return found == read->metadata.end() ? "missing" : gguf::Describe(found->second);
}

TEST(ConfigTest, CountsBecomeKeys) {
  EXPECT_EQ(ValueOf(Llama(), "llama.block_count"), "the unsigned integer 2");
  EXPECT_EQ(ValueOf(Llama(), "llama.attention.key_length"), "the unsigned integer 16");
  EXPECT_EQ(ValueOf(Llama(), "llama.attention.head_count_kv"), "the unsigned integer 2");
  EXPECT_EQ(ValueOf(Llama(), "llama.attention.layer_norm_rms_epsilon"), "the number 1e-06");
  EXPECT_EQ(ValueOf(With(Llama(), {{"head_dim", 32}}), "llama.attention.key_length"),
            "the unsigned integer 32");
  EXPECT_EQ(ValueOf(With(Llama(), {{"head_dim", nullptr}}), "llama.attention.key_length"),
            "the unsigned integer 16");
}

TEST(ConfigTest, TheTextPartOfAModelThatSeesComesFirst) {
  Fields inner = With(Llama(), {{"head_dim", 16}, {"hidden_activation", "gelu_pytorch_tanh"}});
  inner["model_type"] = "gemma3_text";
  inner["num_hidden_layers"] = 7;
  const Fields outer = {{"model_type", "gemma3"}, {"text_config", inner}, {"hidden_size", 1}};
  EXPECT_EQ(ValueOf(outer, "gemma3.block_count"), "the unsigned integer 7");
  EXPECT_EQ(ValueOf(outer, "gemma3.embedding_length"), "the unsigned integer 64");
}

TEST(ConfigTest, RefusesByName) {
  EXPECT_THAT(ErrorOf({{"hidden_size", 3}}), HasSubstr("no field \"model_type\""));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"model_type", "mamba"}})),
              HasSubstr("\"model_type\" is 'mamba'; from safetensors this build runs llama, "));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"hidden_act", "relu"}})),
              HasSubstr("the activation is 'relu'"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"num_hidden_layers", -2}})),
              HasSubstr("\"num_hidden_layers\" is -2; a whole number is needed"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"num_hidden_layers", 0}})),
              HasSubstr("num_hidden_layers is 0"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"hidden_size", "64"}})),
              HasSubstr("\"hidden_size\" is '64'"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"partial_rotary_factor", 0.5}})),
              HasSubstr("\"partial_rotary_factor\" is 0.5"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"alibi", true}})), HasSubstr("\"alibi\" is true"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"decoder_sparse_step", 2}})),
              HasSubstr("\"decoder_sparse_step\" is 2"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"no_rope_layers", {1, 0}}})), HasSubstr("entry 1 is 0"));
}

TEST(ConfigTest, WindowsAreWhereTheyAreSaidToBe) {
  const auto window = [](const Fields& more, std::string key = "") {
    return ValueOf(With(With(Llama(), {{"model_type", "qwen2"}}), more),
                   "qwen2.attention.sliding_window" + key);
  };
  EXPECT_EQ(window({{"sliding_window", 64}}), "the unsigned integer 64");
  EXPECT_EQ(window({{"sliding_window", 64}, {"use_sliding_window", false}}),
            "the unsigned integer 0");
  EXPECT_EQ(window({{"sliding_window", nullptr}}), "the unsigned integer 0");
  const Fields both = {{"sliding_window", 64}, {"use_sliding_window", true}};
  const auto slides = [&](const Fields& more) {
    const auto read = Read(With(With(Llama(), both), more));
    const gguf::Value& value = read->metadata.at("llama.attention.sliding_window_pattern");
    return std::get<gguf::Array::Integers>(std::get<gguf::Array>(value).elements);
  };
  EXPECT_THAT(slides({{"max_window_layers", 1}}), ElementsAre(0, 1));
  EXPECT_THAT(slides({{"layer_types", {"sliding_attention", "full_attention"}}}),
              ElementsAre(1, 0));
  EXPECT_THAT(ErrorOf(With(Llama(), With(both, {{"layer_types", {"linear_attention"}}}))),
              HasSubstr("'linear_attention' is neither"));
}

TEST(ConfigTest, ScalesOfAttentionAreThoseOfTheEngine) {
  const Fields gemma = With(
      Llama(), {{"model_type", "gemma2"}, {"head_dim", 16}, {"hidden_act", "gelu_pytorch_tanh"}});
  EXPECT_EQ(ErrorOf(With(gemma, {{"query_pre_attn_scalar", 16}})), "");
  EXPECT_THAT(ErrorOf(With(gemma, {{"query_pre_attn_scalar", 20}})),
              HasSubstr("this build scales by 1 / sqrt(16)"));
  EXPECT_EQ(
      ErrorOf(With(
          gemma, {{"num_hidden_layers", 46}, {"hidden_size", 80}, {"query_pre_attn_scalar", 20}})),
      "");
}

// The formula, by the lengths of the waves: below 64 tokens as they are, above 256 a fourth.
TEST(ConfigTest, Llama3DividesSlowFrequencies) {
  const Fields scaling = {{"rope_type", "llama3"},
                          {"factor", 4.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 256}};
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const auto read = Read(With(Llama(), {{"rope_theta", 10000.0}, {name, scaling}}));
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->tensors.size(), 1u);
    EXPECT_EQ(read->tensors[0].name, "rope_freqs.weight");
    const std::vector<float>& divisors = read->floats.front();
    ASSERT_EQ(divisors.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) {
      const double length = 2 * 3.14159265358979 * std::pow(10000.0, static_cast<double>(i) / 8);
      const double smooth = (256 / length - 1) / 3;
      const double wanted = length < 64 ? 1 : length > 256 ? 4 : 1 / ((1 - smooth) / 4 + smooth);
      EXPECT_FLOAT_EQ(divisors[i], static_cast<float>(wanted)) << i;
    }
  }
}

TEST(ConfigTest, RefusesScalingsByName) {
  const auto error = [](const Fields& scaling) {
    return ErrorOf(With(Llama(), {{"rope_scaling", scaling}}));
  };
  EXPECT_THAT(error({{"type", "dynamic"}, {"factor", 2}}), HasSubstr("of type 'dynamic'"));
  EXPECT_THAT(error({{"type", "linear"}}), HasSubstr("factor of the rotary scaling is missing"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", 0}}), HasSubstr("is 0"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", "2"}}), HasSubstr("is '2'"));
  EXPECT_THAT(error("linear"), HasSubstr("an object is needed"));
  EXPECT_THAT(error({{"type", "default"}, {"mrope_section", {1, 2, 3}}}), HasSubstr("'mrope'"));
  EXPECT_THAT(error({{"type", "longrope"}, {"long_factor", {1.0}}, {"short_factor", {1.0}}}),
              HasSubstr("long_factor of the rotary scaling has 1; 8 numbers"));
}

}  // namespace
}  // namespace ashlar::hf
