#include "plan/config_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/kv_need.h"

namespace ashlar::plan {
namespace {

const Json kSmall = {
    {"model_type", "llama"},    {"num_hidden_layers", 12},         {"hidden_size", 512},
    {"num_attention_heads", 8}, {"num_key_value_heads", 2},        {"intermediate_size", 1024},
    {"vocab_size", 1000},       {"max_position_embeddings", 4096}, {"tie_word_embeddings", true}};

Json With(Json changes) {
  Json config = kSmall;
  config.update(changes);
  return config;
}

Geometry Read(const Json& config) {
  Result<Geometry> geometry = ReadConfig(config, "test", "'config.json'");
  EXPECT_TRUE(geometry.ok()) << geometry.error().message;
  return *std::move(geometry);
}

std::string ErrorOf(const Json& config) {
  const Result<Geometry> geometry = ReadConfig(config, "test", "'config.json'");
  return geometry.ok() ? "" : geometry.error().message;
}

// By layer: F keeps all, S slides, 0 keeps nothing, R reads another layer's.
std::string Layers(const Geometry& geometry) {
  std::string text;
  for (const model::LayerKv& layer : geometry.layers) {
    text += layer.source_layer ? 'R' : layer.kv_heads == 0 ? '0' : layer.window > 0 ? 'S' : 'F';
  }
  return text;
}

TEST(ConfigReader, ReadsAPlainConfig) {
  const Geometry geometry = Read(kSmall);
  EXPECT_EQ(geometry.heads, 8u);
  EXPECT_EQ(geometry.head_dim, 64u);  // hidden / heads
  EXPECT_EQ(Layers(geometry), "FFFFFFFFFFFF");
  EXPECT_EQ(geometry.layers[0].kv_heads, 2u);
  EXPECT_EQ(geometry.context, 4096u);
  EXPECT_TRUE(geometry.is_tied);
}

TEST(ConfigReader, FieldsHaveManyNames) {
  const Geometry geometry = Read({{"model_type", "gpt2"},
                                  {"n_layer", 2},
                                  {"n_embd", 64},
                                  {"n_head", 4},
                                  {"n_positions", 128},
                                  {"n_inner", nullptr},
                                  {"vocab_size", 100}});
  EXPECT_EQ(geometry.layers.size(), 2u);
  EXPECT_EQ(geometry.layers[0].kv_heads, 4u);  // none said: as many as query heads
  EXPECT_EQ(geometry.feed_forward, 256u);      // four times the hidden size
  EXPECT_EQ(geometry.context, 128u);
  EXPECT_TRUE(geometry.is_tied);  // as the architecture is
}

TEST(ConfigReader, FalconsKvHeadsMeanNothingInItsFirstArchitecture) {
  const Json config = With({{"model_type", "falcon"},
                            {"num_key_value_heads", nullptr},
                            {"num_kv_heads", 8},
                            {"multi_query", true}});
  EXPECT_EQ(Read(config).layers[0].kv_heads, 1u);
  Json mha = config;
  mha["multi_query"] = false;
  EXPECT_EQ(Read(mha).layers[0].kv_heads, 8u);
  Json other = config;
  other["new_decoder_architecture"] = true;
  other["num_kv_heads"] = 4;
  EXPECT_EQ(Read(other).layers[0].kv_heads, 4u);
}

TEST(ConfigReader, WindowsGoToTheLayersThatTheFamilyHasThemIn) {
  const auto layers = [](Json changes) { return Layers(Read(With(std::move(changes)))); };
  const auto sliding = [&](const char* family) {
    return layers({{"model_type", family}, {"sliding_window", 256}});
  };
  EXPECT_EQ(sliding("mistral"), "SSSSSSSSSSSS");
  EXPECT_EQ(sliding("gemma2"), "SFSFSFSFSFSF");
  EXPECT_EQ(sliding("gpt_oss"), "SFSFSFSFSFSF");
  EXPECT_EQ(sliding("gemma3_text"), "SSSSSFSSSSSF");
  EXPECT_EQ(sliding("qwen2"), "FFFFFFFFFFFF");  // unless it says so
  EXPECT_EQ(layers({{"model_type", "qwen2"},
                    {"sliding_window", 256},
                    {"use_sliding_window", true},
                    {"max_window_layers", 9}}),
            "FFFFFFFFFSSS");
  EXPECT_EQ(layers({{"model_type", "mistral"}, {"sliding_window", nullptr}}), "FFFFFFFFFFFF");
  EXPECT_EQ(layers({{"model_type", "new"}, {"sliding_window", 256}, {"sliding_window_pattern", 4}}),
            "SSSFSSSFSSSF");
  EXPECT_NE(ErrorOf(With({{"model_type", "new"}, {"sliding_window", 256}})).find("layer_types"),
            std::string::npos);
}

TEST(ConfigReader, LayersOfManyKinds) {
  Json types = Json::array();
  for (int i = 0; i < 12; ++i) {
    types.push_back(i % 4 == 3   ? "full_attention"
                    : i % 4 == 2 ? "sliding_attention"
                                 : "linear_attention");
  }
  const Geometry mixed =
      Read(With({{"model_type", "new"}, {"layer_types", types}, {"sliding_window", 64}}));
  EXPECT_EQ(Layers(mixed), "00SF00SF00SF");
  EXPECT_FALSE(mixed.architecture.is_known);
  ASSERT_EQ(mixed.notes.size(), 1u);
  EXPECT_NE(mixed.notes[0].find("6 of 12 layers keep no keys"), std::string::npos);
  // Jamba: attention in every fourth layer, from the third on.
  EXPECT_EQ(Layers(Read(With({{"attn_layer_period", 4}, {"attn_layer_offset", 2}}))),
            "00F000F000F0");
  // Qwen3-Next.
  EXPECT_EQ(Layers(Read(With({{"full_attention_interval", 4}}))), "000F000F000F");
  // Llama 4: chunks are counted as windows.
  Json chunked = Json::array();
  for (int i = 0; i < 12; ++i) chunked.push_back(i == 11 ? "full_attention" : "chunked_attention");
  const Geometry llama4 = Read(With({{"layer_types", chunked}, {"attention_chunk_size", 128}}));
  EXPECT_EQ(Layers(llama4), "SSSSSSSSSSSF");
  EXPECT_EQ(llama4.layers[0].window, 128u);
}

TEST(ConfigReader, LastLayersMayReadWhatEarlierOnesKeep) {
  // Gemma 3n: the last of its kind before the shared ones is read.
  const Geometry geometry = Read(With({{"model_type", "gemma3_text"},
                                       {"sliding_window", 64},
                                       {"sliding_window_pattern", 3},
                                       {"num_kv_shared_layers", 4}}));
  EXPECT_EQ(Layers(geometry), "SSFSSFSSRRRR");
  EXPECT_EQ(geometry.layers[8].source_layer, 5u);   // full
  EXPECT_EQ(geometry.layers[9].source_layer, 7u);   // sliding
  EXPECT_EQ(geometry.layers[11].source_layer, 5u);  // full
  const auto layout = LayoutOf(geometry, model::KvCodecSpec::Of({}), 16);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  EXPECT_EQ(layout->bytes_per_token(), 8u * 2 * 2 * 64 * 2);
}

TEST(ConfigReader, KvHeadsMayDifferByLayer) {
  Json heads = Json::array();
  for (int i = 0; i < 12; ++i) heads.push_back(i < 4 ? 0 : i < 8 ? 4 : 2);
  const Geometry geometry = Read(With({{"num_key_value_heads", heads}}));
  EXPECT_EQ(Layers(geometry), "0000FFFFFFFF");
  EXPECT_FALSE(UniformLayer(geometry).has_value());
  EXPECT_EQ(LayoutOf(geometry, model::KvCodecSpec::Of({}), 16)->bytes_per_token(),
            (4u * 4 + 4 * 2) * 2 * 64 * 2);
  heads.push_back(1);
  EXPECT_NE(ErrorOf(With({{"num_key_value_heads", heads}})).find("each of the 12 layers"),
            std::string::npos);
}

TEST(ConfigReader, TheLanguagePartOfALargerModelIsRead) {
  const Geometry geometry = Read({{"model_type", "gemma3"},
                                  {"tie_word_embeddings", false},
                                  {"vision_config", {{"num_hidden_layers", 99}}},
                                  {"text_config", kSmall}});
  EXPECT_EQ(geometry.architecture_name, "llama");
  EXPECT_EQ(geometry.layers.size(), 12u);
  EXPECT_TRUE(geometry.is_tied);
}

// Every field, wrong in every way, is named with its value.
TEST(ConfigReader, WrongFieldsAreNamed) {
  struct Case {
    const char* field;
    Json value;
    const char* part;
  };
  const std::vector<Case> cases = {
      {"num_hidden_layers", -3, "\"num_hidden_layers\" is -3"},
      {"num_hidden_layers", 0, "\"num_hidden_layers\" is 0"},
      {"num_hidden_layers", 1025, "1 to 1024"},
      {"num_hidden_layers", 12.5, "is 12.5"},
      {"num_hidden_layers", "12", "is \"12\""},
      {"num_hidden_layers", Json::array({12}), "is [12]"},
      {"num_hidden_layers", nullptr, "\"num_hidden_layers\" is missing"},
      {"hidden_size", 18446744073709551615ull, "is 18446744073709551615"},
      {"hidden_size", 516, "no size of a head"},
      {"hidden_size", true, "is true"},
      {"num_attention_heads", 0, "\"num_attention_heads\" is 0"},
      {"num_attention_heads", 3, "no size of a head"},
      {"num_key_value_heads", 3, "divide the 8 query heads"},
      {"num_key_value_heads", 9, "0 to 8"},
      {"num_key_value_heads", "two", "is \"two\""},
      {"head_dim", 100, "multiple of 8"},
      {"head_dim", 2048, "8 to 1024"},
      {"intermediate_size", -1, "\"intermediate_size\" is -1"},
      {"vocab_size", 1e30, "\"vocab_size\" is 1e+30"},
      {"max_position_embeddings", 1ull << 40, "\"max_position_embeddings\" is 1099511627776"},
      {"tie_word_embeddings", "yes", "true or false"},
      {"model_type", 7, "\"model_type\" is 7"},
      {"layer_types", Json::array({"full_attention"}), "each of the 12 layers"},
      {"layer_types", Json::array({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), "a list of words"},
      {"layer_types", Json(std::vector<std::string>(12, "warp")), "'warp' is none of"},
      {"layer_types", Json(std::vector<std::string>(12, "mamba")), "no layer keeps"},
      {"layer_types", Json(std::vector<std::string>(12, "sliding_attention")),
       "\"sliding_window\" is missing"},
      {"num_kv_shared_layers", 12, "0 to 11"},
      {"attn_layer_period", 0, "\"attn_layer_period\" is 0"},
      {"kv_lora_rank", 0, "\"kv_lora_rank\" is 0"},
      {"kv_lora_rank", 512, "\"qk_rope_head_dim\" is missing"},
      {"num_experts", 5000, "\"num_experts\" is 5000"},
      {"num_experts", -1, "\"num_experts\" is -1"},
  };
  for (const Case& c : cases) {
    const std::string error = ErrorOf(With({{c.field, c.value}}));
    EXPECT_NE(error.find(c.part), std::string::npos) << c.field << ": " << error;
    EXPECT_EQ(error.rfind("'config.json': ", 0), 0u) << error;
    EXPECT_LT(error.size(), 500u);
  }
  for (const char* const field :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"}) {
    Json config = kSmall;
    config.erase(field);
    EXPECT_NE(ErrorOf(config).find(field), std::string::npos);
  }
}

TEST(ConfigReader, ALongValueIsNotRepeated) {
  const std::string error = ErrorOf(With({{"hidden_size", std::string(100'000, 'x')}}));
  EXPECT_LT(error.size(), 300u);
}

TEST(ConfigReader, TextThatIsNoConfigIsRefused) {
  const auto error = [](const std::string& text) {
    const Result<Geometry> geometry = ParseConfig(text, "test", "'config.json'");
    return geometry.ok() ? std::string() : geometry.error().message;
  };
  EXPECT_EQ(error(kSmall.dump()), "");
  EXPECT_NE(error("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error("{\"num_hidden_layers\": ").find("at byte 23"), std::string::npos)
      << error("{\"num_hidden_layers\": ");
  EXPECT_NE(error("[1]").find("must be a JSON object"), std::string::npos);
  EXPECT_NE(error("{\"a\": 1e999}").find("JSON"), std::string::npos);
  EXPECT_NE(error(std::string(100'000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(error(std::string(kMaxConfigBytes + 1, ' ')).find("at most"), std::string::npos);
  // Brackets in texts are no nesting.
  Json config = kSmall;
  config["note"] = std::string(200, '[') + "\"" + std::string(200, '{');
  EXPECT_EQ(error(config.dump()), "");
}

}  // namespace
}  // namespace ashlar::plan
