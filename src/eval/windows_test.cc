#include "eval/windows.h"

#include <gtest/gtest.h>

#include <string>

#include "text/testing/tiny_models.h"

namespace ashlar::eval {
namespace {

// A byte a token.
std::unique_ptr<const text::Tokenizer> Bytes() {
  return text::MustCreateTokenizer(text::TinyBpe());
}

std::string Refusal(std::string_view text, const WindowOptions& options) {
  const Result<Windows> windows = CutWindows(*Bytes(), text, options);
  if (windows.ok()) return "";
  EXPECT_EQ(windows.error().code, ErrorCode::kInvalidArgument);
  return windows.error().message;
}

TEST(Windows, AreConsecutiveWholeAndAsManyAsAskedFor) {
  const std::string text = "abcdefghijk";
  for (const std::uint32_t most : {1u, 2u, 3u, 100u}) {
    const Result<Windows> windows =
        CutWindows(*Bytes(), text, {.window_tokens = 3, .max_windows = most});
    ASSERT_TRUE(windows.ok()) << windows.error().message;
    ASSERT_EQ(windows->size(), std::min(most, 3u));  // "jk" is no whole window
    EXPECT_EQ(windows->front(), (std::vector<TokenId>{'a', 'b', 'c'}));
    if (most >= 3) {
      EXPECT_EQ(windows->back(), (std::vector<TokenId>{'g', 'h', 'i'}));
    }
  }
}

TEST(Windows, BeginWithTheBeginningOfTextTokenWhereTheModelWantsOne) {
  gguf::GgufWriter writer = text::TinyBpe();
  writer.SetBool("tokenizer.ggml.add_bos_token", true);
  const auto tokenizer = text::MustCreateTokenizer(writer);
  const Result<Windows> windows =
      CutWindows(*tokenizer, "abcdef", {.window_tokens = 3, .max_windows = 9});
  ASSERT_TRUE(windows.ok()) << windows.error().message;
  EXPECT_EQ(*windows, (Windows{{264, 'a', 'b'}, {264, 'c', 'd'}, {264, 'e', 'f'}}));
}

TEST(Windows, SpecialTokensWrittenInTheTextArePlainText) {
  const Result<Windows> windows =
      CutWindows(*Bytes(), "<|bos|>", {.window_tokens = 7, .max_windows = 1});
  ASSERT_TRUE(windows.ok()) << windows.error().message;
  EXPECT_EQ(windows->front().front(), '<');
}

TEST(Windows, ATextOfOneTokenLessThanAWindowIsRefusedWithTheNumbers) {
  EXPECT_EQ(Refusal("abcd", {.window_tokens = 4}), "");
  EXPECT_NE(Refusal("abc", {.window_tokens = 4}).find("3 tokens"), std::string::npos);
  EXPECT_NE(Refusal("", {.window_tokens = 4}).find("0 tokens"), std::string::npos);
}

TEST(Windows, ATextThatIsNotUtf8IsRefusedWithTheByte) {
  EXPECT_EQ(Refusal("ab\xC3\xA9", {.window_tokens = 2}), "");
  EXPECT_NE(Refusal("ab\xE9xyz", {.window_tokens = 2}).find("byte 2 (0xe9)"), std::string::npos);
  EXPECT_NE(Refusal("abcd\xC3", {.window_tokens = 2}).find("byte 4 (0xc3)"), std::string::npos);
}

TEST(Windows, OptionsOutOfRangeAreRefused) {
  EXPECT_NE(Refusal("abcd", {.window_tokens = 1}), "");
  EXPECT_EQ(Refusal("abcd", {.window_tokens = 2}), "");
  EXPECT_NE(Refusal("abcd", {.window_tokens = 2, .max_windows = 0}), "");
}

TEST(Windows, ATextBeyondTheLimitIsRefused) {
  EXPECT_NE(Refusal(std::string(kMaxTextBytes + 1, 'a'), {.window_tokens = 2}).find("at most"),
            std::string::npos);
}

}  // namespace
}  // namespace ashlar::eval
