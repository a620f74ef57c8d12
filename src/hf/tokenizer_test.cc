#include "hf/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "hf/testing/safetensors_writer.h"
#include "hf/testing/temporary_folder.h"
#include "hf/tokenizer_steps.h"
#include "text/tokenizer.h"

namespace ashlar::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fields = nlohmann::ordered_json;

constexpr const char* kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// h e l o Ġ he ll hell hello Ġhello, then <bos> and, not special, <tool>.
Fields ByteLevel() {
  return {{"model",
           {{"type", "BPE"},
            {"vocab",
             {{"h", 0},
              {"e", 1},
              {"l", 2},
              {"o", 3},
              {"\u0120", 4},
              {"he", 5},
              {"ll", 6},
              {"hell", 7},
              {"hello", 8},
              {"\u0120hello", 9}}},
            {"merges", {"h e", "l l", "he ll", "hell o", "\u0120 hello"}}}},
          {"added_tokens",
           {{{"id", 10}, {"content", "<bos>"}, {"special", true}},
            {{"id", 11}, {"content", "<tool>"}, {"special", false}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
}

// <unk> <s> </s>, bytes, ▁ a b ab ▁a ▁ab
Fields SentencePiece() {
  Fields vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
  const auto pieces = {"▁", "a", "b", "ab", "▁a", "▁ab"};
  int id = 259;
  for (const char* const piece : pieces) vocab[piece] = id++;
  return {{"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"a b", "▁ a", "▁ ab", "▁a b"}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}}},
          {"added_tokens",
           {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
            {{"id", 1}, {"content", "<s>"}, {"special", true}},
            {{"id", 2}, {"content", "</s>"}, {"special", true}}}}};
}

Result<std::unique_ptr<const text::Tokenizer>> Create(const Fields& fields, std::uint64_t rows) {
  ASHLAR_ASSIGN(const Json json, Json::Parse(fields.dump(), "tokenizer.json"));
  Builder builder("llama");
  ASHLAR_TRY(ReadVocabulary(json, rows, builder));
  builder.contents().paths = {"folder"};
  ASHLAR_ASSIGN(const auto file, gguf::ModelFile::Assemble(std::move(builder.contents())));
  return text::Tokenizer::Create(file);
}

std::vector<TokenId> Encode(const Fields& fields, std::string_view text) {
  const auto tokenizer = Create(fields, 300);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return (*tokenizer)->Encode(text, {.add_special = true, .parse_special = true});
}

std::string ErrorOf(const Fields& fields, std::uint64_t rows = 300) {
  const auto tokenizer = Create(fields, rows);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

TEST(TokenizerTest, ByteLevelWordsMerge) {
  EXPECT_THAT(Encode(ByteLevel(), "hello hello"), ElementsAre(8, 9));
  EXPECT_THAT(Encode(ByteLevel(), "helo<bos><tool>"), ElementsAre(5, 2, 3, 10, 11));
  const auto tokenizer = *Create(ByteLevel(), 300);
  EXPECT_TRUE(tokenizer->IsSpecial(10));
  EXPECT_FALSE(tokenizer->IsSpecial(11));
  EXPECT_EQ(tokenizer->vocab_size(), 300u);
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{299, 8}, true), "hello");
}

TEST(TokenizerTest, MergesMayBePairs) {
  Fields fields = ByteLevel();
  fields["model"]["merges"] = Fields::parse(R"([["h", "e"], ["l", "l"]])");
  EXPECT_THAT(Encode(fields, "hello"), ElementsAre(5, 6, 3));
  fields["model"]["merges"] = Fields::parse(R"([["h", "e", "l"]])");
  EXPECT_THAT(ErrorOf(fields), HasSubstr("two tokens are needed"));
  fields["model"]["merges"] = Fields::parse(R"(["he"])");
  EXPECT_THAT(ErrorOf(fields), HasSubstr("a merge is 'he'"));
}

TEST(TokenizerTest, SentencePieceMergesByRank) {
  EXPECT_THAT(Encode(SentencePiece(), "ab"), ElementsAre(1, 264));
  EXPECT_THAT(Encode(SentencePiece(), "a b"), ElementsAre(1, 263, 259, 261));
  EXPECT_THAT(Encode(SentencePiece(), "!"), ElementsAre(1, 259, 3 + '!'));
  const auto tokenizer = *Create(SentencePiece(), 300);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_TRUE(tokenizer->adds_space_prefix());
  Fields gemma = SentencePiece();
  gemma["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  EXPECT_FALSE((*Create(gemma, 300))->adds_space_prefix());
}

TEST(TokenizerTest, CutsAreKnownByTheirSteps) {
  Fields fields = ByteLevel();
  const Fields bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto words = [](const std::string& regex) {
    return Fields{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
  };
  const auto cut = [&](const Fields& steps, bool ignore) {
    fields["pre_tokenizer"] = {{"type", "Sequence"}};
    fields["pre_tokenizer"]["pretokenizers"] = steps;
    fields["model"]["ignore_merges"] = ignore;
    const Json json = *Json::Parse(fields.dump(), "tokenizer.json");
    const auto read = ReadTokenizerSteps(json, ignore);
    return read.ok() ? std::string(read->cut) : read.error().message;
  };
  EXPECT_EQ(cut({words(kLlama3Words), bytes}, true), "llama-bpe");
  EXPECT_EQ(cut({words(kLlama3Words), bytes}, false), "dbrx");
  std::string qwen = kLlama3Words;
  qwen.erase(qwen.find("{1,3}"), 5);
  EXPECT_EQ(cut({words(qwen), bytes}, false), "qwen2");
  EXPECT_THAT(cut({words(qwen), bytes}, true), HasSubstr("is none that this build has"));
  EXPECT_THAT(cut({words("\\w+"), bytes}, false), HasSubstr("Split(\\w+) ByteLevel"));
  const Fields digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(cut({digits, ByteLevel()["pre_tokenizer"]}, false), "smollm");
}

TEST(TokenizerTest, RefusesByName) {
  const auto with = [](const std::string& path, const Fields& value) {
    Fields fields = ByteLevel();
    fields[Fields::json_pointer(path)] = value;
    return ErrorOf(fields);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("of type 'Unigram'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Whitespace"}}), HasSubstr("'Whitespace'"));
  EXPECT_THAT(with("/normalizer", {{"type", "Lowercase"}}), HasSubstr("'Lowercase'"));
  EXPECT_THAT(with("/post_processor", {{"type", "BertProcessing"}}), HasSubstr("'BertProcessing'"));
  EXPECT_THAT(with("/model/vocab/he", 0), HasSubstr("both have the id 0"));
  EXPECT_THAT(with("/model/vocab/he", 300), HasSubstr("has 300 rows"));
  EXPECT_THAT(with("/model/vocab/he", "x"), HasSubstr("the id 'x'"));
  EXPECT_THAT(with("/added_tokens/0/content", 3), HasSubstr("the content 3"));
  EXPECT_THAT(with("/added_tokens/0/lstrip", true), HasSubstr("lstrip"));
  EXPECT_THAT(with("/added_tokens/0/id", 0), HasSubstr("both have the id 0"));
  EXPECT_THAT(with("/model", 3), HasSubstr("no object \"model\""));
  EXPECT_THAT(with("/model/continuing_subword_prefix", "##"), HasSubstr("'##'"));
  EXPECT_THAT(with("/added_tokens/0/content", "he"), HasSubstr("token 'he' has two ids"));
  // Added tokens without a row of the embedding table are nobody's.
  EXPECT_EQ(with("/added_tokens/0/id", 300), "");
}

TEST(TokenizerTest, NeighboursSayWhatEndsATextAndHowToChat) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const Fields& fields) {
    ASSERT_TRUE(WriteText(folder.File(name), fields.dump()).ok());
  };
  write("tokenizer.json", ByteLevel());
  write(
      "tokenizer_config.json",
      {{"bos_token", {{"content", "<bos>"}}},
       {"eos_token", "hello"},
       {"add_bos_token", true},
       {"chat_template",
        {{{"name", "tool_use"}, {"template", "no"}}, {{"name", "default"}, {"template", "yes"}}}}});
  write("generation_config.json", {{"eos_token_id", {6, 7}}});
  const Json json = *Json::Parse(R"({"eos_token_id": 5000})", "config.json");
  const auto read = [&]() -> gguf::ModelFile {
    Builder builder("llama");
    const Status status = ReadTokenizer(folder.path(), Config(json), 12, builder);
    EXPECT_TRUE(status.ok()) << status.error().message;
    builder.contents().paths = {"folder"};
    return *gguf::ModelFile::Assemble(std::move(builder.contents()));
  };
  const auto file = read();
  EXPECT_EQ(*file.String("tokenizer.chat_template"), "yes");
  const auto tokenizer = *text::Tokenizer::Create(file);
  EXPECT_EQ(tokenizer->bos_token(), 10);
  EXPECT_EQ(tokenizer->eos_token(), 8);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_THAT(tokenizer->end_tokens(), ElementsAre(6, 7, 8));
  ASSERT_TRUE(WriteText(folder.File("chat_template.jinja"), "newer").ok());
  EXPECT_EQ(*read().String("tokenizer.chat_template"), "newer");
}

}  // namespace
}  // namespace ashlar::hf
