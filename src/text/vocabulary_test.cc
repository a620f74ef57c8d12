#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "text/testing/tiny_models.h"

namespace ashlar::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Vocabularies of four tokens, small enough to break one thing at a time.
gguf::GgufWriter FourTokens() {
  gguf::GgufWriter writer;
  writer.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab", "<|im_end|>"})
      .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1, 1, 3});
  return writer;
}

struct Parsed {
  explicit Parsed(const gguf::GgufWriter& writer, const Vocabulary::Defaults& defaults = {})
      : bytes(writer.Build()),
        file(gguf::ModelFile::Parse(bytes, "test").value()),
        vocabulary(Vocabulary::Read(file, defaults)) {}
  std::vector<std::byte> bytes;
  gguf::ModelFile file;
  Result<Vocabulary> vocabulary;
};

void ExpectError(const gguf::GgufWriter& writer, ErrorCode code,
                 const std::vector<std::string>& parts) {
  const Parsed parsed(writer);
  ASSERT_FALSE(parsed.vocabulary.ok());
  EXPECT_EQ(parsed.vocabulary.error().code, code) << parsed.vocabulary.error().message;
  for (const std::string& part : parts)
    EXPECT_THAT(parsed.vocabulary.error().message, HasSubstr(part));
}

TEST(Vocabulary, ReadsTokensTypesAndIds) {
  const Parsed parsed(FourTokens().SetUnsigned("tokenizer.ggml.bos_token_id", 2));
  ASSERT_TRUE(parsed.vocabulary.ok()) << parsed.vocabulary.error().message;
  const Vocabulary& vocabulary = *parsed.vocabulary;
  EXPECT_EQ(vocabulary.size(), 4U);
  EXPECT_EQ(vocabulary.ids.Find("ab"), 2);
  EXPECT_TRUE(vocabulary.IsSpecial(3));
  EXPECT_FALSE(vocabulary.IsSpecial(0));
  EXPECT_EQ(vocabulary.special.bos, 2);
  EXPECT_EQ(vocabulary.special.eos, std::nullopt);
}

TEST(Vocabulary, WithoutTypesAllTokensAreNormal) {
  const Parsed parsed(FourTokens().Remove("tokenizer.ggml.token_type"));
  EXPECT_EQ(parsed.vocabulary.value().types[0], TokenType::kNormal);
}

TEST(Vocabulary, DefaultsHoldOnlyWhereTheVocabularyHasThem) {
  const Parsed parsed(FourTokens(), {.add_bos = true, .bos = 1, .eos = 99});
  EXPECT_EQ(parsed.vocabulary.value().special.bos, 1);
  EXPECT_EQ(parsed.vocabulary.value().special.eos, std::nullopt);
  EXPECT_TRUE(parsed.vocabulary.value().special.add_bos);
}

TEST(Vocabulary, TheUnknownTokenIsTheFirstOfItsTypeUnlessNamed) {
  const auto types = [](std::vector<std::int64_t> list) {
    return FourTokens().SetIntegers("tokenizer.ggml.token_type", list);
  };
  const auto unknown = [](const gguf::GgufWriter& writer) {
    return Parsed(writer).vocabulary.value().special.unknown;
  };
  EXPECT_EQ(unknown(types({1, 2, 2, 3})), 1);
  EXPECT_EQ(unknown(types({1, 1, 1, 3})), std::nullopt);
  EXPECT_EQ(unknown(types({1, 2, 1, 3}).SetUnsigned("tokenizer.ggml.unknown_token_id", 0)), 0);
}

TEST(Vocabulary, EndTokensAreEosEotAndTheKnownNamesOnce) {
  const Parsed parsed(FourTokens()
                          .SetUnsigned("tokenizer.ggml.eos_token_id", 3)
                          .SetUnsigned("tokenizer.ggml.eot_token_id", 1));
  EXPECT_THAT(parsed.vocabulary.value().special.end_tokens, ElementsAre(1, 3));
}

TEST(Vocabulary, AnEndTokenMarkedAsTextBecomesControl) {
  const Parsed parsed(
      FourTokens().SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_TRUE(parsed.vocabulary.value().IsSpecial(3));
}

TEST(Vocabulary, MarkupThatLooksLikeAnEndTokenStaysText) {
  gguf::GgufWriter writer;
  writer.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"</s>", "x"})
      .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{4, 1});
  const Parsed text(writer);
  EXPECT_FALSE(text.vocabulary.value().IsSpecial(0));
  EXPECT_TRUE(text.vocabulary.value().special.end_tokens.empty());
  const Parsed control(
      writer.SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{3, 1}));
  EXPECT_THAT(control.vocabulary.value().special.end_tokens, ElementsAre(0));
}

TEST(Vocabulary, RefusesWhatCannotBe) {
  ExpectError(FourTokens().Remove("tokenizer.ggml.tokens"), ErrorCode::kCorrupt,
              {"tokenizer.ggml.tokens"});
  ExpectError(FourTokens().SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{}),
              ErrorCode::kCorrupt, {"empty"});
  ExpectError(FourTokens().SetStrings("tokenizer.ggml.tokens",
                                      std::vector<std::string>{"a", "b", "c", "a"}),
              ErrorCode::kCorrupt, {"tokens 0 and 3", "'a'"});
  ExpectError(
      FourTokens().SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1}),
      ErrorCode::kCorrupt, {"2 entries for 4 tokens"});
  ExpectError(
      FourTokens().SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1, 7, 1}),
      ErrorCode::kCorrupt, {"token 2 has type 7"});
  ExpectError(
      FourTokens().SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, -1, 1, 1}),
      ErrorCode::kCorrupt, {"token 1 has type -1"});
  ExpectError(FourTokens().SetUnsigned("tokenizer.ggml.bos_token_id", 4), ErrorCode::kCorrupt,
              {"bos_token_id is 4", "4 tokens"});
  ExpectError(FourTokens().SetUnsigned("tokenizer.ggml.eot_token_id", 4'000'000'000U),
              ErrorCode::kCorrupt, {"eot_token_id"});
  ExpectError(FourTokens().SetBool("tokenizer.ggml.add_bos_token", true), ErrorCode::kCorrupt,
              {"bos_token_id"});
  ExpectError(FourTokens().SetBool("tokenizer.ggml.add_eos_token", true), ErrorCode::kCorrupt,
              {"eos_token_id"});
}

TEST(Vocabulary, TokensMayBeAsLongAsTheLimit) {
  const std::string longest(kMaxTokenBytes, 'x');
  const std::vector<std::string> fits = {"a", "b", longest, "c"};
  EXPECT_TRUE(Parsed(FourTokens().SetStrings("tokenizer.ggml.tokens", fits)).vocabulary.ok());
  const std::vector<std::string> too_long = {"a", "b", longest + "x", "c"};
  ExpectError(FourTokens().SetStrings("tokenizer.ggml.tokens", too_long), ErrorCode::kUnsupported,
              {"token 2", "4097", "4096"});
}

TEST(Vocabulary, EmptyTokensAreAllowedAndNeverFound) {
  const Parsed parsed(
      FourTokens().SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "", "b"}));
  ASSERT_TRUE(parsed.vocabulary.ok());
  EXPECT_EQ(parsed.vocabulary->ids.Find(""), std::nullopt);
}

}  // namespace
}  // namespace ashlar::text
