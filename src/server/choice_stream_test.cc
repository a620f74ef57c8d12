#include "server/choice_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/testing/byte_tokenizer.h"
#include "server/testing/scripted_service.h"

namespace ashlar::server {
namespace {

using testing::ByteTokenizer;

class ChoiceStreamTest : public ::testing::Test {
 protected:
  static TextPiece Push(ChoiceStream& stream, TokenId token) {
    const engine::TokenLogprobs logprobs{
        .token = token, .logprob = testing::ScriptedLogprob(token), .top = {}};
    return stream.Push(token, &logprobs);
  }

  static std::vector<TokenId> TokensOf(const TextPiece& piece) {
    std::vector<TokenId> tokens;
    for (const TokenEntry& entry : piece.tokens) {
      tokens.push_back(entry.logprobs.token);
    }
    return tokens;
  }

  const ByteTokenizer tokenizer_;
};

TEST_F(ChoiceStreamTest, ATokensTextAndLogprobComeTogether) {
  ChoiceStream stream(tokenizer_, {});
  const TextPiece hello = Push(stream, ByteTokenizer::kHello);
  EXPECT_EQ(hello.text, "Hello");
  EXPECT_EQ(TokensOf(hello), (std::vector<TokenId>{ByteTokenizer::kHello}));
  EXPECT_EQ(hello.tokens[0].text_offset, 0u);
  const TextPiece the = Push(stream, ByteTokenizer::kThe);
  EXPECT_EQ(the.tokens[0].text_offset, 5u);
  EXPECT_EQ(stream.completion_tokens(), 2u);
  EXPECT_TRUE(stream.Finish().empty());
}

TEST_F(ChoiceStreamTest, NeverLetsHalfACodePointOut) {
  ChoiceStream stream(tokenizer_, {});
  const TextPiece half = Push(stream, ByteTokenizer::kHalfEmoji);
  EXPECT_EQ(half.text, "");
  EXPECT_EQ(half.tokens.size(), 1u);
  const TextPiece whole = Push(stream, ByteTokenizer::kOtherHalf);
  EXPECT_EQ(whole.text, "\xf0\x9f\x98\x80");
  EXPECT_EQ(Push(stream, 'x').tokens[0].text_offset, 1u);  // one code point before it
}

TEST_F(ChoiceStreamTest, ACodePointThatStaysUnfinishedIsReplaced) {
  ChoiceStream stream(tokenizer_, {});
  Push(stream, ByteTokenizer::kHalfEmoji);
  EXPECT_EQ(stream.Finish().text, "\xef\xbf\xbd");
}

TEST_F(ChoiceStreamTest, AStopStringOverTokensIsNeverSeenNorItsTokensLogprobs) {
  ChoiceStream stream(tokenizer_, {.stop = {"##"}});
  EXPECT_EQ(Push(stream, 'a').text, "a");
  EXPECT_TRUE(Push(stream, '#').empty());
  const TextPiece last = Push(stream, '#');
  EXPECT_TRUE(last.empty());
  EXPECT_TRUE(stream.is_stopped());
  EXPECT_EQ(std::get<std::string>(stream.stop_reason()), "##");
  EXPECT_EQ(stream.completion_tokens(), 3u);
  // What the engine had under way.
  EXPECT_TRUE(Push(stream, 'b').empty());
  EXPECT_EQ(stream.completion_tokens(), 3u);
  EXPECT_TRUE(stream.Finish().empty());
}

TEST_F(ChoiceStreamTest, HeldBackTokensComeOutWithTheirTextWhenNoStopFollows) {
  ChoiceStream stream(tokenizer_, {.stop = {"##"}});
  EXPECT_TRUE(Push(stream, '#').empty());
  const TextPiece piece = Push(stream, 'x');
  EXPECT_EQ(piece.text, "#x");
  EXPECT_EQ(TokensOf(piece), (std::vector<TokenId>{'#', 'x'}));
  EXPECT_TRUE(Push(stream, '#').empty());
  const TextPiece rest = stream.Finish();
  EXPECT_EQ(rest.text, "#");
  EXPECT_EQ(TokensOf(rest), (std::vector<TokenId>{'#'}));
}

TEST_F(ChoiceStreamTest, ATokenThatBeginsBeforeTheStopStringIsReported) {
  ChoiceStream stream(tokenizer_, {.stop = {"ND"}});
  const TextPiece piece = Push(stream, ByteTokenizer::kStopSign);  // "END."
  EXPECT_EQ(piece.text, "E");
  EXPECT_EQ(piece.tokens.size(), 1u);
  EXPECT_TRUE(stream.is_stopped());
}

TEST_F(ChoiceStreamTest, IncludesTheStopStringWhenAsked) {
  ChoiceStream stream(tokenizer_, {.stop = {"ND"}, .include_stop_str_in_output = true});
  EXPECT_EQ(Push(stream, ByteTokenizer::kStopSign).text, "END");
}

TEST_F(ChoiceStreamTest, AnEndTokenHasNoTextButCounts) {
  ChoiceStream stream(tokenizer_, {.end_tokens = {'z'}});
  Push(stream, 'a');
  EXPECT_TRUE(Push(stream, 'z').empty());
  EXPECT_EQ(std::get<TokenId>(stream.stop_reason()), 'z');
  EXPECT_EQ(stream.completion_tokens(), 2u);
  EXPECT_FLOAT_EQ(static_cast<float>(stream.sum_logprobs()),
                  testing::ScriptedLogprob('a') + testing::ScriptedLogprob('z'));
}

TEST_F(ChoiceStreamTest, AnEndTokenLeavesHeldTextToFinish) {
  ChoiceStream stream(tokenizer_, {.stop = {"##"}, .end_tokens = {ByteTokenizer::kEos}});
  EXPECT_TRUE(Push(stream, '#').empty());
  EXPECT_TRUE(Push(stream, ByteTokenizer::kEos).empty());
  EXPECT_EQ(stream.Finish().text, "#");
}

TEST_F(ChoiceStreamTest, SpecialTokensShowOnlyWhenAsked) {
  ChoiceStream hidden(tokenizer_, {});
  EXPECT_EQ(Push(hidden, ByteTokenizer::kImStart).text, "");
  ChoiceStream shown(tokenizer_, {.skip_special_tokens = false});
  EXPECT_EQ(Push(shown, ByteTokenizer::kImStart).text, "<|im_start|>");
}

TEST_F(ChoiceStreamTest, WithoutLogprobsThereAreNoEntries) {
  ChoiceStream stream(tokenizer_, {});
  EXPECT_TRUE(stream.Push('a', nullptr).tokens.empty());
}

}  // namespace
}  // namespace ashlar::server
