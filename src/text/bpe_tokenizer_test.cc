#include "text/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "text/testing/tiny_models.h"

namespace ashlar::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};

void ExpectError(const gguf::GgufWriter& writer, ErrorCode code,
                 const std::vector<std::string>& parts) {
  const auto tokenizer = CreateTokenizer(writer);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  for (const std::string& part : parts) EXPECT_THAT(tokenizer.error().message, HasSubstr(part));
}

TEST(BpeTokenizer, MergesByRankWithinWords) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  EXPECT_THAT(tokenizer->Encode("hello hello", kPlain), ElementsAre(259, 260));
  EXPECT_THAT(tokenizer->Encode("hell world", kPlain), ElementsAre(258, 261, 'o', 'r', 'l', 'd'));
  EXPECT_THAT(tokenizer->Encode("llhe", kPlain), ElementsAre(257, 256));
  EXPECT_THAT(tokenizer->Encode("", kPlain), ElementsAre());
}

TEST(BpeTokenizer, AnyBytesComeBackAsTheyWere) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  EXPECT_THAT(tokenizer->Encode("\xFF\xE2\x82", kPlain), ElementsAre(0xFF, 263));
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 50, '\0');
    for (char& c : text) c = "helo w\xE2\x82\xAC\xFF\n1"[random() % 12];
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain), true), text);
  }
}

TEST(BpeTokenizer, BytesWithoutATokenAreLeftOut) {
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "gpt2")
      .SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"})
      .SetStrings("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  const auto tokenizer = MustCreateTokenizer(writer);
  EXPECT_THAT(tokenizer->Encode("abxab", kPlain), ElementsAre(2, 2));
  EXPECT_THAT(tokenizer->Encode("axb", kPlain), ElementsAre(0, 1))
      << "a gap is not bridged by a merge";
}

TEST(BpeTokenizer, ControlTokensNeedParseSpecial) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  EXPECT_THAT(tokenizer->Encode("hello<|im_end|>hello", kParse), ElementsAre(259, 265, 259));
  const auto plain = tokenizer->Encode("hello<|im_end|>", kPlain);
  EXPECT_EQ(plain.size(), 11U) << "its ten letters are text";
  EXPECT_EQ(tokenizer->Decode(plain, false), "hello<|im_end|>");
}

TEST(BpeTokenizer, UserDefinedTokensAreAlwaysFoundTheLongestFirst) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  EXPECT_THAT(tokenizer->Encode("hello[tool][tool][tool]", kPlain), ElementsAre(259, 268, 267));
  EXPECT_THAT(tokenizer->Encode("[tool]", kParse), ElementsAre(267));
}

TEST(BpeTokenizer, AddsBosAndEosWhenTheFileAsks) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe()
                                                 .SetBool("tokenizer.ggml.add_bos_token", true)
                                                 .SetBool("tokenizer.ggml.add_eos_token", true));
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_THAT(tokenizer->Encode("he", {.add_special = true}), ElementsAre(264, 256, 265));
  EXPECT_THAT(tokenizer->Encode("", {.add_special = true}), ElementsAre(264, 265));
  EXPECT_THAT(tokenizer->Encode("he", kPlain), ElementsAre(256));
}

TEST(BpeTokenizer, Llama3AddsBosUnlessToldOtherwise) {
  const gguf::GgufWriter silent =
      TinyBpe().Set("tokenizer.ggml.pre", "llama-bpe").Remove("tokenizer.ggml.add_bos_token");
  EXPECT_TRUE(MustCreateTokenizer(silent)->adds_bos());
  EXPECT_FALSE(MustCreateTokenizer(TinyBpe().Set("tokenizer.ggml.pre", "llama-bpe"))->adds_bos());
}

TEST(BpeTokenizer, Llama3KeepsWordsThatAreTokensWithoutMerges) {
  const std::vector<std::string> no_merges = {"h e"};
  gguf::GgufWriter writer = TinyBpe().SetStrings("tokenizer.ggml.merges", no_merges);
  EXPECT_THAT(MustCreateTokenizer(writer)->Encode("hello", kPlain),
              ElementsAre(256, 'l', 'l', 'o'));
  writer.Set("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_THAT(MustCreateTokenizer(writer)->Encode("hello", kPlain), ElementsAre(259));
}

TEST(BpeTokenizer, TokensKnowTheirBytesAndNames) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  EXPECT_EQ(tokenizer->vocab_size(), 269U);
  EXPECT_EQ(tokenizer->TokenBytes(260, false), " hello");
  EXPECT_EQ(tokenizer->TokenBytes(0, false), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer->TokenBytes(265, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(265, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->TokenBytes(267, false), "[tool]");
  EXPECT_TRUE(tokenizer->IsSpecial(265));
  EXPECT_FALSE(tokenizer->IsSpecial(267));
  EXPECT_EQ(tokenizer->FindToken(" hello"), 260);
  EXPECT_EQ(tokenizer->FindToken("<|im_end|>"), 265);
  EXPECT_EQ(tokenizer->FindToken("[tool]"), 267);
  EXPECT_EQ(tokenizer->FindToken("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->bos_token(), 264);
  EXPECT_EQ(tokenizer->eos_token(), 265);
  EXPECT_THAT(tokenizer->end_tokens(), ElementsAre(265, 266));
}

TEST(BpeTokenizer, DecodesSpecialTokensOnlyOnRequest) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  const std::vector<TokenId> ids = {264, 259, 265};
  EXPECT_EQ(tokenizer->Decode(ids, false), "hello");
  EXPECT_EQ(tokenizer->Decode(ids, true), "<|bos|>hello<|im_end|>");
}

TEST(BpeTokenizer, RefusesMergesThatCannotBe) {
  const auto with_merge = [](std::string merge) {
    return TinyBpe().SetStrings("tokenizer.ggml.merges",
                                std::vector<std::string>{std::move(merge)});
  };
  ExpectError(with_merge("h"), ErrorCode::kCorrupt, {"merge 0 is 'h'"});
  ExpectError(with_merge(""), ErrorCode::kCorrupt, {"merge 0 is ''"});
  ExpectError(with_merge("h "), ErrorCode::kCorrupt, {"'' is not a token"});
  ExpectError(with_merge("h zz"), ErrorCode::kCorrupt, {"'zz' is not a token"});
  ExpectError(with_merge("zz h"), ErrorCode::kCorrupt, {"'zz' is not a token"});
  ExpectError(with_merge("h o"), ErrorCode::kCorrupt, {"'ho' is not a token"});
  ExpectError(TinyBpe().Remove("tokenizer.ggml.merges"), ErrorCode::kCorrupt,
              {"tokenizer.ggml.merges"});
}

TEST(BpeTokenizer, RefusesMergesThatForgeSpecialTokens) {
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "gpt2")
      .SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"<", "s>", "<s>"})
      .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1, 3})
      .SetStrings("tokenizer.ggml.merges", std::vector<std::string>{"< s>"});
  ExpectError(writer, ErrorCode::kCorrupt, {"'<s>' is a special token"});
}

TEST(BpeTokenizer, RefusesUnknownModelsAndCuts) {
  ExpectError(TinyBpe().Set("tokenizer.ggml.model", "bert"), ErrorCode::kUnsupported,
              {"'bert'", "gpt2", "llama"});
  ExpectError(TinyBpe().Set("tokenizer.ggml.pre", "other"), ErrorCode::kUnsupported,
              {"'other'", "smollm"});
  ExpectError(TinyBpe().Remove("tokenizer.ggml.model"), ErrorCode::kCorrupt,
              {"tokenizer.ggml.model"});
}

TEST(BpeTokenizer, ThreadsShareOneTokenizer) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  const std::string text = "hello <|im_end|> hell \xFF world\n\n 12";
  const auto wanted = tokenizer->Encode(text, kParse);
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) EXPECT_EQ(tokenizer->Encode(text, kParse), wanted);
    });
  }
}

TEST(BpeTokenizer, ALongTextWithoutAWordEndIsEncodedQuickly) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  std::string text;
  while (text.size() < 250'000) text += "hello";
  const auto ids = tokenizer->Encode(text, kPlain);
  EXPECT_EQ(ids, std::vector<TokenId>(text.size() / 5, 259));
}

}  // namespace
}  // namespace ashlar::text
