#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/testing/tiny_models.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace ashlar::text {
namespace {

TEST(Detokenizer, HoldsBackHalfACodePoint) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Push('a'), "a");
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(0x82), "");
  EXPECT_EQ(detokenizer.Push(0xAC), "€");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, ReplacesBytesAsSoonAsTheyCannotComplete) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Push(0x82), "\uFFFD");
  EXPECT_EQ(detokenizer.Push(263), "");  // the first two bytes of U+20AC
  EXPECT_EQ(detokenizer.Push('a'), "\uFFFDa");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, TakesOffTheSpaceBeforeAText) {
  const auto tokenizer = MustCreateTokenizer(TinySpm());
  Detokenizer text(*tokenizer);
  EXPECT_EQ(text.Push(1), "");
  EXPECT_EQ(text.Push(263), "a");
  EXPECT_EQ(text.Push(263), " a");
  Detokenizer completion(*tokenizer, {.with_special = false, .continues_text = true});
  EXPECT_EQ(completion.Push(263), " a");
}

TEST(Detokenizer, ShowsSpecialTokensOnRequest) {
  const auto tokenizer = MustCreateTokenizer(TinySpm());
  Detokenizer detokenizer(*tokenizer, {.with_special = true});
  EXPECT_EQ(detokenizer.Push(1), "<s>");
  EXPECT_EQ(detokenizer.Push(263), " a");
}

// The rule itself, for random tokens and every way they can come: all texts joined are Decode's
// bytes made whole, and every piece is whole UTF-8.
TEST(Detokenizer, PiecesJoinedAreTheDecodedText) {
  std::mt19937 random(13);
  for (const gguf::GgufWriter& writer : {TinyBpe(), TinySpm()}) {
    const auto tokenizer = MustCreateTokenizer(writer);
    // Tokens that begin, continue, break and end code points come up often enough to meet each
    // other.
    std::vector<TokenId> pool;
    for (TokenId token = 0; token < static_cast<TokenId>(tokenizer->vocab_size()); ++token) {
      const std::string_view bytes = tokenizer->TokenBytes(token, true);
      const bool is_rare = bytes.size() == 1 && static_cast<unsigned char>(bytes[0]) < 0xE0;
      if (!is_rare || random() % 8 == 0) pool.push_back(token);
    }
    for (int round = 0; round < 1000; ++round) {
      std::vector<TokenId> tokens(random() % 20);
      for (TokenId& token : tokens) token = pool[random() % pool.size()];
      const bool with_special = random() % 2 == 0;
      Detokenizer detokenizer(*tokenizer, {.with_special = with_special});
      std::string joined;
      for (const TokenId token : tokens) {
        const std::string text = detokenizer.Push(token);
        ASSERT_EQ(WholePrefix(text), text.size());
        joined += text;
      }
      joined += detokenizer.Finish();
      ASSERT_EQ(joined, ReplaceInvalid(tokenizer->Decode(tokens, with_special)));
    }
  }
}

// Every split of every byte string over a small alphabet of lead, continuation and plain bytes.
TEST(Detokenizer, AgreesWithDecodeForEveryShortByteString) {
  const auto tokenizer = MustCreateTokenizer(TinyBpe());
  constexpr unsigned char kBytes[] = {'a', 0x80, 0x9F, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xFF};
  std::vector<TokenId> tokens(4);
  for (unsigned code = 0; code < 9 * 9 * 9 * 9; ++code) {
    unsigned rest = code;
    for (TokenId& token : tokens) {
      token = kBytes[rest % 9];
      rest /= 9;
    }
    Detokenizer detokenizer(*tokenizer);
    std::string joined;
    for (const TokenId token : tokens) joined += detokenizer.Push(token);
    joined += detokenizer.Finish();
    ASSERT_EQ(joined, ReplaceInvalid(tokenizer->Decode(tokens, false)));
  }
}

}  // namespace
}  // namespace ashlar::text
