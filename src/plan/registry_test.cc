#include "plan/registry.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "plan/kv_need.h"

namespace ashlar::plan {
namespace {

TEST(Registry, EveryModelHasALayout) {
  const Registry& registry = Registry::BuiltIn();
  EXPECT_EQ(registry.names().size(), 74u);
  for (const std::string& name : registry.names()) {
    const Result<Geometry> geometry = registry.Find(name);
    ASSERT_TRUE(geometry.ok()) << geometry.error().message;
    EXPECT_TRUE(geometry->architecture.is_known) << name;
    EXPECT_GT(geometry->context, 0u) << name;
    const auto layout = LayoutOf(*geometry, model::KvCodecSpec::Of({}), 16);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
  }
}

struct BytesPerToken {
  const char* model;
  std::uint64_t bytes;
};
// In f16, counted from the models' tables apart from this code.
constexpr BytesPerToken kBytesPerToken[] = {{"llama-2-7b", 524288},
                                            {"llama-2-13b", 819200},
                                            {"llama-2-70b", 327680},
                                            {"llama-3-8b", 131072},
                                            {"llama-3-70b", 327680},
                                            {"llama-3.1-8b", 131072},
                                            {"llama-3.1-70b", 327680},
                                            {"llama-3.1-405b", 516096},
                                            {"llama-3.2-1b", 32768},
                                            {"llama-3.2-3b", 114688},
                                            {"llama-3.3-70b", 327680},
                                            {"tinyllama-1.1b", 22528},
                                            {"mistral-7b-v0.1", 131072},
                                            {"mistral-7b-v0.2", 131072},
                                            {"mistral-7b-v0.3", 131072},
                                            {"mixtral-8x7b", 131072},
                                            {"mixtral-8x22b", 229376},
                                            {"mistral-large-2407", 360448},
                                            {"qwen2.5-0.5b", 12288},
                                            {"qwen2.5-1.5b", 28672},
                                            {"qwen2.5-3b", 36864},
                                            {"qwen2.5-7b", 57344},
                                            {"qwen2.5-14b", 196608},
                                            {"qwen2.5-32b", 262144},
                                            {"qwen2.5-72b", 327680},
                                            {"qwen3-0.6b", 114688},
                                            {"qwen3-1.7b", 114688},
                                            {"qwen3-4b", 147456},
                                            {"qwen3-8b", 147456},
                                            {"qwen3-14b", 163840},
                                            {"qwen3-32b", 262144},
                                            {"qwen3-30b-a3b", 98304},
                                            {"qwen3-235b-a22b", 192512},
                                            {"qwen3-30b-a3b-2507", 98304},
                                            {"gemma-2-2b", 106496},
                                            {"gemma-2-9b", 344064},
                                            {"gemma-2-27b", 376832},
                                            {"gemma-3-1b", 26624},
                                            {"gemma-3-4b", 139264},
                                            {"gemma-3-12b", 393216},
                                            {"gemma-3-27b", 507904},
                                            {"gemma-3-270m", 18432},
                                            {"phi-3-mini-4k", 393216},
                                            {"phi-3-mini-128k", 393216},
                                            {"phi-3.5-mini", 393216},
                                            {"phi-3-medium-4k", 204800},
                                            {"phi-3-medium-128k", 204800},
                                            {"phi-4", 204800},
                                            {"phi-4-mini", 131072},
                                            {"smollm2-135m", 23040},
                                            {"smollm2-360m", 40960},
                                            {"smollm2-1.7b", 196608},
                                            {"smollm3-3b", 73728},
                                            {"deepseek-v2-lite", 31104},
                                            {"deepseek-v2", 69120},
                                            {"deepseek-v3", 70272},
                                            {"gpt-oss-20b", 49152},
                                            {"gpt-oss-120b", 73728},
                                            {"falcon-7b", 8192},
                                            {"falcon-40b", 122880},
                                            {"gpt2", 36864},
                                            {"gpt2-medium", 98304},
                                            {"gpt2-large", 184320},
                                            {"gpt2-xl", 307200},
                                            {"pythia-14m", 3072},
                                            {"pythia-70m", 12288},
                                            {"pythia-160m", 36864},
                                            {"pythia-410m", 98304},
                                            {"pythia-1b", 131072},
                                            {"pythia-1.4b", 196608},
                                            {"pythia-2.8b", 327680},
                                            {"pythia-6.9b", 524288},
                                            {"pythia-12b", 737280},
                                            {"gpt-j-6b", 458752}};

TEST(Registry, KvBytesPerTokenAreThoseOfTheModels) {
  EXPECT_EQ(std::size(kBytesPerToken), Registry::BuiltIn().names().size());
  for (const auto& [name, expected] : kBytesPerToken) {
    const auto layout = LayoutOf(*Registry::BuiltIn().Find(name), model::KvCodecSpec::Of({}), 16);
    EXPECT_EQ(layout->bytes_per_token(), expected) << name;
  }
}

TEST(Registry, NamesAreFoundHoweverTheyAreWritten) {
  for (const char* const name :
       {"llama-3-70b", "Llama-3-70B", "Llama_3_70B", "meta-llama/Meta-Llama-3-70B-Instruct",
        "llama-3-70b-hf", "Llama 3 70B"}) {
    const Result<Geometry> geometry = Registry::BuiltIn().Find(name);
    ASSERT_TRUE(geometry.ok()) << name;
    EXPECT_EQ(geometry->name, "llama-3-70b") << name;
  }
}

TEST(Registry, AnUnknownNameGetsItsNeighbours) {
  const Result<Geometry> missing = Registry::BuiltIn().Find("llama-3-405b");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("did you mean llama-3-70b, llama-3.1-405b"),
            std::string::npos)
      << missing.error().message;
  EXPECT_EQ(Registry::BuiltIn().Suggestions("gema-3-27b").front(), "gemma-3-27b");
  EXPECT_EQ(Registry::BuiltIn().Suggestions("deepseek").size(), 3u);
  EXPECT_TRUE(Registry::BuiltIn().Suggestions("zzzzzzzzzzzzzzzz").empty());
  EXPECT_FALSE(Registry::BuiltIn().Find(std::string(100'000, 'x')).ok());
  EXPECT_FALSE(Registry::BuiltIn().Find("").ok());
}

TEST(Registry, ReadsAFileOfOnesOwn) {
  const Result<Registry> registry = Registry::Parse(
      R"({"models": [{"id": "mine", "model_type": "llama", "num_hidden_layers": 2,
          "hidden_size": 128, "num_attention_heads": 4, "vocab_size": 100},
          {"id": "broken", "model_type": "llama"}]})",
      "'own.json'");
  ASSERT_TRUE(registry.ok()) << registry.error().message;
  EXPECT_EQ(registry->Find("mine")->layers.size(), 2u);
  // A model is read when it is asked for: one that is broken harms no other.
  const Result<Geometry> broken = registry->Find("broken");
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("model 'broken' of 'own.json'"), std::string::npos);
  EXPECT_NE(broken.error().message.find("num_hidden_layers"), std::string::npos);
}

TEST(Registry, WhatIsNoRegistryIsRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "not valid JSON"},
      {"[]", "no list \"models\""},
      {"{}", "no list \"models\""},
      {R"({"models": {}})", "no list \"models\""},
      {R"({"models": [1]})", "model 0 has no \"id\""},
      {R"({"models": [{"id": ""}]})", "model 0 has no \"id\""},
      {R"({"models": [{"id": 7}]})", "model 0 has no \"id\""},
      {R"({"models": [{"id": "a b"}, {"id": "A-B"}]})", "'a b' and 'A-B' are the same name"},
  };
  for (const auto& [text, part] : cases) {
    const Result<Registry> registry = Registry::Parse(text, "'own.json'");
    ASSERT_FALSE(registry.ok()) << text;
    EXPECT_NE(registry.error().message.find(part), std::string::npos) << registry.error().message;
  }
}

TEST(EditDistance, CountsLettersPutInLeftOutAndReplaced) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
}

}  // namespace
}  // namespace ashlar::plan
