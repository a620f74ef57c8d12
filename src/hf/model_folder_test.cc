#include "hf/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "base/clock.h"
#include "hf/testing/safetensors_writer.h"
#include "hf/testing/temporary_folder.h"
#include "hf/testing/tiny_folder.h"
#include "kv/cache.h"
#include "model/forward.h"
#include "model/kv_layout.h"
#include "text/tokenizer.h"

namespace ashlar::hf {
namespace {

using model::TinyModelOptions;
using testing::HasSubstr;

// The logits of every one of `tokens`, with 8-bit activations where weights are quantised.
std::vector<float> LogitsOf(const gguf::ModelFile& file, std::span<const TokenId> tokens) {
  ThreadPool pool(1);
  const auto model = model::Model::Load(file, pool, nullptr);
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model.ok()) return {};
  ManualClock clock;
  const auto layout =
      model::KvLayoutOf((*model)->config(), *model::ParseKvCodecSpec("f32"), /*block_tokens=*/16);
  const auto cache = *kv::KvCache::Create(*layout, {.memory_bytes = 64 << 20}, clock);
  model::ForwardPass forward(**model, cache->layout(), kernels::KernelsFor(kernels::BestIsa()),
                             pool, tokens.size(), model::Activations::kInt8);
  const kv::Scope scope;
  const kv::ScopeDigest digest = kv::DigestOf(scope);
  kv::Sequence sequence =
      *cache
           ->Admit({.scope = scope, .digest = digest, .tokens = tokens},
                   {.max_tokens = tokens.size(), .chunk = tokens.size(), .reuse = kv::Reuse::kOff})
           .sequence;
  EXPECT_TRUE(sequence.Prepare(tokens.size()));
  std::vector<model::GroupBlocks> blocks;
  for (std::uint32_t g = 0; g < cache->layout().groups().size(); ++g) {
    blocks.push_back({sequence.addresses(g), sequence.OpenRing(g)});
  }
  const model::Chunk chunk = {
      .tokens = tokens, .position = 0, .groups = blocks, .logits = model::LogitRows::kAll};
  std::vector<float> logits;
  forward.Run({&chunk, 1}, [&](std::size_t, std::size_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  });
  return logits;
}

std::vector<TokenId> RandomTokens() {
  std::mt19937 random(3);
  std::vector<TokenId> tokens(40);  // beyond the tiny windows
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % model::kTinyVocab);
  return tokens;
}

// Opens what `change` makes of a plain model's folder.
template <typename Change>
std::string ErrorOf(Change change, TinyModelOptions options = {.layers = 1}) {
  const TemporaryFolder folder;
  TinyFolder tiny = TinyFolderOf(options);
  change(tiny);
  EXPECT_TRUE(WriteTinyFolder(tiny, options, folder.path()).ok());
  const auto file = OpenFolder(folder.path(), FolderParts::kAll);
  return file.ok() ? "" : file.error().message;
}

class EveryFolderTest : public testing::TestWithParam<model::NamedTinyModel> {};

TEST_P(EveryFolderTest, GivesTheLogitsOfItsGguf) {
  const TinyModelOptions& options = GetParam().options;
  const TemporaryFolder folder;
  TinyFolder tiny = TinyFolderOf(options);
  tiny.shards = 3;
  ASSERT_TRUE(WriteTinyFolder(tiny, options, folder.path()).ok());
  const auto file = OpenFolder(folder.path(), FolderParts::kAll);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::vector<std::byte> bytes = model::MakeTinyModel(options).Build();
  const auto gguf = gguf::ModelFile::Parse(bytes, "tiny");
  const std::vector<TokenId> tokens = RandomTokens();
  const std::vector<float> logits = LogitsOf(*file, tokens);
  const std::vector<float> wanted = LogitsOf(*gguf, tokens);
  ASSERT_EQ(logits.size(), wanted.size());
  if (options.has_rope_factors) {  // GGUF keeps a magnitude in f32 that is computed here
    for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], 1e-4);
  } else {
    EXPECT_EQ(logits, wanted);
  }
  const auto tokenizer = text::Tokenizer::Create(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto other = text::Tokenizer::Create(*gguf);
  const std::string_view text = "<|im_start|>a 12 b'll \n c<|im_end|>";
  EXPECT_EQ((*tokenizer)->Encode(text, {.parse_special = true}),
            (*other)->Encode(text, {.parse_special = true}));
  EXPECT_EQ((*tokenizer)->eos_token(), (*other)->eos_token());
  EXPECT_EQ(*file->String("tokenizer.chat_template"), *gguf->String("tokenizer.chat_template"));
}

std::vector<model::NamedTinyModel> ModelsOfFolders() {
  std::vector<model::NamedTinyModel> models;
  for (const model::NamedTinyModel& model : model::AllTinyModels()) {
    if (CanBeFolder(model.options) && model.name != "gemma2-27b") models.push_back(model);
  }
  return models;
}

INSTANTIATE_TEST_SUITE_P(Models, EveryFolderTest, testing::ValuesIn(ModelsOfFolders()),
                         [](const auto& test) {
                           std::string name(test.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ModelFolderTest, AFolderIsNamedByItsFilesToo) {
  const TemporaryFolder folder;
  EXPECT_EQ(ModelFolderOf(folder.path()), folder.path());
  for (const char* const name :
       {"config.json", "model.safetensors", "x.safetensors", "model.safetensors.index.json"}) {
    EXPECT_EQ(ModelFolderOf(folder.File(name)), folder.path()) << name;
  }
  EXPECT_EQ(ModelFolderOf("model.safetensors"), ".");
  EXPECT_EQ(ModelFolderOf(folder.File("model.gguf")), std::nullopt);
}

TEST(ModelFolderTest, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  const auto error = [&] {
    const auto file = OpenFolder(folder.path(), FolderParts::kAll);
    return file.ok() ? "" : file.error().message;
  };
  EXPECT_THAT(error(), HasSubstr("config.json"));
  const TinyModelOptions options = {.layers = 1};
  ASSERT_TRUE(WriteTinyFolder(TinyFolderOf(options), options, folder.path()).ok());
  EXPECT_EQ(error(), "");
  std::filesystem::remove(folder.File("tokenizer.json"));
  EXPECT_THAT(error(), HasSubstr("the model's tokenizer.json is needed"));
  EXPECT_TRUE(OpenFolder(folder.path(), FolderParts::kWithoutText).ok());
  std::filesystem::remove(folder.File("model.safetensors"));
  EXPECT_THAT(error(), HasSubstr("neither model.safetensors.index.json nor model.safetensors"));
}

TEST(ModelFolderTest, ATiedHeadIsTheTable) {
  EXPECT_THAT(ErrorOf([](TinyFolder& tiny) { tiny.config["tie_word_embeddings"] = false; }),
              HasSubstr("no tensor 'lm_head.weight'"));
  // What is stored besides does not count.
  const TinyModelOptions untied = {.layers = 1, .is_tied = false};
  EXPECT_EQ(ErrorOf([](TinyFolder& tiny) { tiny.config["tie_word_embeddings"] = true; }, untied),
            "");
}

TEST(ModelFolderTest, ATensorThatNobodyKnowsIsNamed) {
  EXPECT_THAT(ErrorOf([](TinyFolder& tiny) { tiny.config["model_type"] = "phi3"; }),
              HasSubstr("'model.layers.0.self_attn.q_proj.weight' is not part of a phi3 model"));
}

TEST(ModelFolderTest, HeadsThatDoNotDivideTheirRowsAreRefused) {
  EXPECT_THAT(ErrorOf([](TinyFolder& tiny) { tiny.config["num_attention_heads"] = 3; }),
              HasSubstr("3 heads have an even number of them each"));
}

}  // namespace
}  // namespace ashlar::hf
