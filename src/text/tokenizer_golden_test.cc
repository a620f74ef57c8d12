// Token ids of the texts in tests/oracle/tokenizer/strings.json against those of independent
// tokenizers (see that folder's README), in the vocabularies of real models from the cache folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "text/tokenizer.h"

namespace ashlar::text {
namespace {

const std::filesystem::path kOracleFolder =
    std::filesystem::path(ASHLAR_SOURCE_DIR) / "tests/oracle/tokenizer";

std::filesystem::path CacheFolder() {
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base != nullptr && *base != '\0') {
    return std::filesystem::path(base) / "ashlar";
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/ashlar";
}

nlohmann::json ReadJson(const std::filesystem::path& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream.good()) << path;
  return nlohmann::json::parse(stream);
}

void CheckGolden(const std::string& family, const std::filesystem::path& model) {
  const auto file = gguf::ModelFile::Open(model.string());
  ASSERT_TRUE(file.ok()) << file.error().message
                         << "\nrun `make test`, which fetches what the tests need";
  const auto tokenizer = Tokenizer::Create(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;

  const auto strings = ReadJson(kOracleFolder / "strings.json").get<std::vector<std::string>>();
  const nlohmann::json golden = ReadJson(kOracleFolder / "goldens" / (family + ".json"));
  const auto prefix = golden["special_prefix"].get<std::vector<TokenId>>();
  ASSERT_GE(strings.size(), 200U);
  ASSERT_EQ(golden["plain"].size(), strings.size());

  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (golden["plain"][i].is_null()) continue;  // the oracles differ
    const auto plain = golden["plain"][i].get<std::vector<TokenId>>();
    std::vector<TokenId> special = prefix;
    special.insert(special.end(), plain.begin(), plain.end());
    if (const auto differs = golden["special"].find(std::to_string(i));
        differs != golden["special"].end()) {
      special = differs->get<std::vector<TokenId>>();
    }
    EXPECT_EQ((*tokenizer)->Encode(strings[i], {.add_special = false, .parse_special = false}),
              plain)
        << family << ", text " << i << ": " << strings[i];
    EXPECT_EQ((*tokenizer)->Encode(strings[i], {.add_special = true, .parse_special = true}),
              special)
        << family << ", special, text " << i << ": " << strings[i];
  }
}

std::filesystem::path Vocab(const std::string& name) {
  return CacheFolder() / "vocabs" / ("ggml-vocab-" + name + ".gguf");
}

TEST(TokenizerGolden, SmolLm2) {
  const char* model = std::getenv("ASHLAR_TEST_MODEL");
  CheckGolden("smollm", model != nullptr && *model != '\0'
                            ? std::filesystem::path(model)
                            : CacheFolder() / "SmolLM2-135M-Instruct.Q4_1.gguf");
}

TEST(TokenizerGolden, Gpt2) { CheckGolden("gpt-2", Vocab("gpt-2")); }
TEST(TokenizerGolden, Llama3) { CheckGolden("llama-bpe", Vocab("llama-bpe")); }
TEST(TokenizerGolden, Qwen2) { CheckGolden("qwen2", Vocab("qwen2")); }
TEST(TokenizerGolden, Llama2) { CheckGolden("llama-spm", Vocab("llama-spm")); }
TEST(TokenizerGolden, Phi3) { CheckGolden("phi-3", Vocab("phi-3")); }

TEST(TokenizerGolden, Gemma3) { CheckGolden("gemma", CacheFolder() / "gemma-3-270m-q4_k_m.gguf"); }

}  // namespace
}  // namespace ashlar::text
