#include "text/spm_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "text/testing/tiny_models.h"

namespace ashlar::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};
constexpr TokenId kByte0 = 3;  // "<0x00>"

gguf::GgufWriter WithoutPrefix() {
  return TinySpm().SetBool("tokenizer.ggml.add_space_prefix", false);
}

void ExpectError(const gguf::GgufWriter& writer, ErrorCode code,
                 const std::vector<std::string>& parts) {
  const auto tokenizer = CreateTokenizer(writer);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  for (const std::string& part : parts) EXPECT_THAT(tokenizer.error().message, HasSubstr(part));
}

TEST(SpmTokenizer, TheHighestScoreMergesFirst) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  EXPECT_THAT(tokenizer->Encode("ab", kPlain), ElementsAre(262));
  EXPECT_THAT(tokenizer->Encode("bab", kPlain), ElementsAre(261, 262)) << "'ab' before 'ba'";
  EXPECT_THAT(tokenizer->Encode("aab", kPlain), ElementsAre(260, 262)) << "'ab' before 'aa'";
  EXPECT_THAT(tokenizer->Encode(" ab", kPlain), ElementsAre(265)) << "'ab', then '▁ab'";
}

TEST(SpmTokenizer, OfEqualScoresTheLeftmostMergesFirst) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  EXPECT_THAT(tokenizer->Encode("aaa", kPlain), ElementsAre(267, 260));
  EXPECT_THAT(tokenizer->Encode("   ", kPlain), ElementsAre(268, 259));
}

TEST(SpmTokenizer, PutsASpaceBeforeTheTextAndAfterSpecialTokens) {
  const auto tokenizer = MustCreateTokenizer(TinySpm());
  EXPECT_TRUE(tokenizer->adds_space_prefix());
  EXPECT_THAT(tokenizer->Encode("a", kPlain), ElementsAre(263));
  EXPECT_THAT(tokenizer->Encode("a</s>a", kParse), ElementsAre(263, 2, 263));
  EXPECT_THAT(tokenizer->Encode("", kPlain), ElementsAre());
  EXPECT_THAT(MustCreateTokenizer(WithoutPrefix())->Encode("a</s>a", kParse),
              ElementsAre(260, 2, 260));
}

TEST(SpmTokenizer, AddsBosUnlessTheFileSaysOtherwise) {
  EXPECT_THAT(MustCreateTokenizer(TinySpm())->Encode("a", {}), ElementsAre(1, 263));
  EXPECT_THAT(MustCreateTokenizer(TinySpm().SetBool("tokenizer.ggml.add_bos_token", false))
                  ->Encode("a", {}),
              ElementsAre(263));
}

TEST(SpmTokenizer, TextWithoutATokenBecomesBytes) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  EXPECT_THAT(tokenizer->Encode("é", kPlain), ElementsAre(kByte0 + 0xC3, kByte0 + 0xA9));
  EXPECT_THAT(tokenizer->Encode("a\xFF", kPlain), ElementsAre(260, kByte0 + 0xFF));
  EXPECT_THAT(tokenizer->Encode("\xE2\x82", kPlain), ElementsAre(kByte0 + 0xE2, kByte0 + 0x82));
  EXPECT_THAT(tokenizer->Encode("€", kPlain), ElementsAre(266));
  EXPECT_THAT(tokenizer->Encode(std::string_view("\0", 1), kPlain), ElementsAre(kByte0));
}

TEST(SpmTokenizer, WithoutByteTokensARunOfUnknownTextIsOneUnknownToken) {
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "llama")
      .SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"})
      .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{2, 3, 3, 1})
      .SetFloats("tokenizer.ggml.scores", std::vector<double>{0, 0, 0, -1})
      .SetBool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_THAT(MustCreateTokenizer(writer)->Encode("axyaz", kPlain), ElementsAre(3, 0, 3, 0));
  EXPECT_THAT(MustCreateTokenizer(writer)->Encode("<unk>xy", kParse), ElementsAre(0, 0));
}

TEST(SpmTokenizer, TheSpaceMarkInATextIsASpace) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  EXPECT_EQ(tokenizer->Encode("▁a▁▁b", kPlain), tokenizer->Encode(" a  b", kPlain));
}

TEST(SpmTokenizer, PlainTextNeverBecomesASpecialOrByteToken) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  for (const std::string_view text : {"<s>", "</s>", "<unk>", "<0x61>"}) {
    for (const TokenId token : tokenizer->Encode(text, kPlain))
      EXPECT_FALSE(tokenizer->IsSpecial(token));
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain), false), text);
  }
  EXPECT_THAT(tokenizer->Encode("a<tool>b", kPlain), ElementsAre(260, 269, 261));
}

TEST(SpmTokenizer, DecodeUndoesEncode) {
  std::mt19937 random(11);
  for (const gguf::GgufWriter& writer : {TinySpm(), WithoutPrefix()}) {
    const auto tokenizer = MustCreateTokenizer(writer);
    for (int round = 0; round < 500; ++round) {
      std::string text(random() % 40, '\0');
      for (char& c : text) c = "ab \xE2\x82\xAC\xFFz\n"[random() % 9];
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain), true), text);
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, {}), false), text);
    }
  }
}

TEST(SpmTokenizer, TokensKnowTheirBytesAndNames) {
  const auto tokenizer = MustCreateTokenizer(TinySpm());
  EXPECT_EQ(tokenizer->TokenBytes(263, false), " a");
  EXPECT_EQ(tokenizer->TokenBytes(kByte0 + 'a', false), "a");
  EXPECT_EQ(tokenizer->TokenBytes(2, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(2, true), "</s>");
  EXPECT_EQ(tokenizer->FindToken(" a"), 263);
  EXPECT_EQ(tokenizer->FindToken("a"), 260);
  EXPECT_EQ(tokenizer->FindToken("</s>"), 2);
  EXPECT_EQ(tokenizer->FindToken("<0x61>"), std::nullopt);
  EXPECT_THAT(tokenizer->end_tokens(), ElementsAre(2));
}

TEST(SpmTokenizer, Phi3DropsWhiteSpaceAfterSpecialTokens) {
  const gguf::GgufWriter phi = TinySpm().Set("general.name", "Phi-3 Mini");
  EXPECT_THAT(MustCreateTokenizer(phi)->Encode("</s> \n a", kParse), ElementsAre(2, 263));
  EXPECT_THAT(MustCreateTokenizer(phi)->Encode("<s> a", kParse), ElementsAre(1, 259, 263))
      << "not after <s>";
  EXPECT_THAT(MustCreateTokenizer(TinySpm())->Encode("</s> a", kParse), ElementsAre(2, 259, 263));
}

TEST(SpmTokenizer, RefusesWhatCannotBe) {
  std::vector<double> scores(270, -1.0);
  ExpectError(TinySpm().Remove("tokenizer.ggml.scores"), ErrorCode::kCorrupt, {"scores"});
  ExpectError(TinySpm().SetFloats("tokenizer.ggml.scores", std::vector<double>(7)),
              ErrorCode::kCorrupt, {"7 entries for 270 tokens"});
  scores[5] = std::numeric_limits<double>::quiet_NaN();
  ExpectError(TinySpm().SetFloats("tokenizer.ggml.scores", scores), ErrorCode::kCorrupt,
              {"token 5", "nan"});
  scores[5] = -std::numeric_limits<double>::infinity();
  ExpectError(TinySpm().SetFloats("tokenizer.ggml.scores", scores), ErrorCode::kCorrupt,
              {"token 5", "inf"});
}

TEST(SpmTokenizer, RefusesByteTokensThatNameNoByte) {
  for (const char* text : {"<0x4>", "<0xGG>", "<0x414>", "byte", "<0x4g>", "<0x+4>"}) {
    gguf::GgufWriter writer;
    writer.Set("tokenizer.ggml.model", "llama")
        .SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", text})
        .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{2, 6})
        .SetFloats("tokenizer.ggml.scores", std::vector<double>{0, 0})
        .SetBool("tokenizer.ggml.add_bos_token", false);
    ExpectError(writer, ErrorCode::kCorrupt, {"token 1", text});
  }
}

TEST(SpmTokenizer, RefusesVocabulariesThatCannotEncodeEveryText) {
  std::vector<std::string> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte] = fmt::format("<0x{:02X}>", byte);
  const auto with_bytes = [&](std::size_t count) {
    gguf::GgufWriter writer;
    writer.Set("tokenizer.ggml.model", "llama")
        .SetStrings("tokenizer.ggml.tokens", std::span(tokens).first(count))
        .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>(count, 6))
        .SetFloats("tokenizer.ggml.scores", std::vector<double>(count));
    return writer;
  };
  EXPECT_TRUE(CreateTokenizer(with_bytes(256)).ok());
  ExpectError(with_bytes(255), ErrorCode::kCorrupt, {"'<0xFF>'", "unknown"});
}

TEST(SpmTokenizer, ALongTextWithoutASpaceIsEncodedQuickly) {
  const auto tokenizer = MustCreateTokenizer(WithoutPrefix());
  const std::string text(250'000, 'a');
  EXPECT_EQ(tokenizer->Encode(text, kPlain), std::vector<TokenId>(text.size() / 2, 267));
}

TEST(NeighbourSet, ContainsWhatWasAddedInThatOrder) {
  NeighbourSet set;
  EXPECT_FALSE(set.MayContain("a", "b"));
  set.Add("a", "b");
  set.Add("€", "a");
  EXPECT_TRUE(set.MayContain("a", "b"));
  EXPECT_TRUE(set.MayContain("€", "a"));
  EXPECT_FALSE(set.MayContain("b", "a"));
}

}  // namespace
}  // namespace ashlar::text
