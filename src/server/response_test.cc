#include "server/response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "server/testing/byte_tokenizer.h"

namespace ashlar::server {
namespace {

using testing::ByteTokenizer;

const AnswerIdentity kChat{.kind = ApiKind::kChat,
                           .id = "chatcmpl-1",
                           .created = 1700000000,
                           .model = "m",
                           .system_fingerprint = "fp"};
const AnswerIdentity kCompletion{.kind = ApiKind::kCompletion,
                                 .id = "cmpl-1",
                                 .created = 1700000000,
                                 .model = "m",
                                 .system_fingerprint = "fp"};
const UsageTotals kUsage{.prompt_tokens = 5, .cached_tokens = 3, .completion_tokens = 2};

TokenEntry Entry(TokenId token, float logprob, std::vector<std::pair<TokenId, float>> top,
                 std::size_t offset = 0) {
  return {.logprobs = {.token = token, .logprob = logprob, .top = std::move(top)},
          .text_offset = offset};
}

std::string Whole(const AnswerIdentity& identity, const ChoiceFields& choice) {
  std::string answer = AnswerHead(identity);
  AppendChoice(identity.kind, choice, answer);
  return answer + AnswerTail(kUsage);
}

std::string Logprobs(ApiKind kind, const std::vector<TokenEntry>& entries) {
  const ByteTokenizer tokenizer;
  LogprobsText text(kind, tokenizer, NamingOf(kind, false));
  for (const TokenEntry& entry : entries) {
    text.Append(entry);
  }
  return text.Take();
}

TEST(Response, AWholeChatAnswer) {
  EXPECT_EQ(Whole(kChat, {.index = 0,
                          .escaped_text = "Hi",
                          .finish_reason = "stop",
                          .stop_reason = std::string("\n")}),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m",)"
            R"("system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hi","refusal":null},"logprobs":null,"finish_reason":"stop",)"
            R"("stop_reason":"\n"}],"usage":{"prompt_tokens":5,"completion_tokens":2,)"
            R"("total_tokens":7,"prompt_tokens_details":{"cached_tokens":3}}})");
}

TEST(Response, AWholeCompletion) {
  EXPECT_EQ(
      Whole(kCompletion, {.index = 1,
                          .escaped_text = "Hi",
                          .logprobs = R"({"k":1})",
                          .finish_reason = "length",
                          .stop_reason = {}}),
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":1,"text":"Hi","logprobs":{"k":1},)"
      R"("finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":5,)"
      R"("completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":3}}})");
}

TEST(Response, TheChunksOfAChat) {
  const ChunkWriter chunks(kChat, true);
  std::string out;
  chunks.AppendRole(0, out);
  chunks.AppendText(0, "a\"b", {}, out);
  chunks.AppendFinish(0, "stop", TokenId{7}, out);
  chunks.AppendUsage(kUsage, out);
  ChunkWriter::AppendDone(out);
  const std::string head =
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[)";
  EXPECT_EQ(out,
            head +
                R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                R"("finish_reason":null}],"usage":null})"
                "\n\n" +
                head +
                R"({"index":0,"delta":{"content":"a\"b"},"logprobs":null,"finish_reason":null}],)"
                R"("usage":null})"
                "\n\n" +
                head +
                R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":7}],)"
                R"("usage":null})"
                "\n\n" +
                head +
                R"(],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
                R"("prompt_tokens_details":{"cached_tokens":3}}})"
                "\n\ndata: [DONE]\n\n");
}

TEST(Response, TheChunksOfACompletion) {
  const ChunkWriter chunks(kCompletion, false);
  std::string out;
  chunks.AppendText(2, "x", R"({"k":1})", out);
  chunks.AppendFinish(2, "length", {}, out);
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[)";
  EXPECT_EQ(out, head +
                     R"({"index":2,"text":"x","logprobs":{"k":1},"finish_reason":null}]})"
                     "\n\n" +
                     head +
                     R"({"index":2,"text":"","logprobs":null,"finish_reason":"length",)"
                     R"("stop_reason":null}]})"
                     "\n\n");
}

TEST(Response, LogprobsOfAChat) {
  EXPECT_EQ(
      Logprobs(ApiKind::kChat, {Entry(ByteTokenizer::kThe, -0.5F,
                                      {{'a', -0.25F}, {ByteTokenizer::kHalfEmoji, -2}})}),
      R"({"content":[{"token":" the","logprob":-0.5,"bytes":[32,116,104,101],"top_logprobs":[)"
      R"({"token":"a","logprob":-0.25,"bytes":[97]},)"
      "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2.0,\"bytes\":[240,159]}]}]}");
}

TEST(Response, LogprobsOfACompletion) {
  TokenEntry first = Entry(ByteTokenizer::kBos, 0, {});
  first.has_logprob = false;
  EXPECT_EQ(Logprobs(ApiKind::kCompletion, {first, Entry('h', -0.5F, {{'a', -0.25F}, {'b', -1}}),
                                            Entry(ByteTokenizer::kHalfEmoji, -INFINITY,
                                                  {{ByteTokenizer::kHalfEmoji, -INFINITY}}, 1)}),
            R"({"tokens":["<s>","h","bytes:\\xf0\\x9f"],"token_logprobs":[null,-0.5,-9999.0],)"
            R"("top_logprobs":[null,{"a":-0.25,"b":-1.0,"h":-0.5},{"bytes:\\xf0\\x9f":-9999.0}],)"
            R"("text_offset":[0,0,1]})");
}

TEST(Response, TokensAsIdsWhenAsked) {
  const ByteTokenizer tokenizer;
  LogprobsText text(ApiKind::kCompletion, tokenizer, NamingOf(ApiKind::kCompletion, true));
  text.Append(Entry('h', -1, {{'a', 0}}));
  EXPECT_EQ(text.bytes(), 58u);
  EXPECT_EQ(text.Take(),
            R"({"tokens":["token_id:104"],"token_logprobs":[-1.0],)"
            R"("top_logprobs":[{"token_id:97":0.0,"token_id:104":-1.0}],"text_offset":[0]})");
  EXPECT_EQ(text.bytes(), 0u);
}

TEST(Response, TextIsEscapedAsInAString) {
  std::string out = "<";
  AppendEscaped("a\"\n\xc3\xa9", out);
  AppendEscaped("", out);
  EXPECT_EQ(out, "<a\\\"\\n\xc3\xa9");
}

}  // namespace
}  // namespace ashlar::server
