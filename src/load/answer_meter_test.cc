#include "load/answer_meter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace ashlar::load {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Pieces final : public PieceSink {
 public:
  void OnPiece(std::int64_t, std::optional<std::int64_t> gap_ns) override {
    gaps.push_back(gap_ns.value_or(-1));
  }
  std::vector<std::int64_t> gaps;
};

struct Outcome {
  std::string failure = {};  // its kind
  std::string message = {};
  std::string text = {};
  std::uint64_t pieces = 0;
  std::uint64_t tokens = 0;
  std::optional<std::uint64_t> cached = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// The answer in pieces of `step` bytes.
Outcome Read(std::string_view bytes, int status = 200, std::size_t step = 7,
             std::uint64_t max_tokens = 100) {
  Pieces sink;
  AnswerMeter meter(max_tokens, sink);
  meter.OnHead(status);
  std::optional<Failure> failure;
  for (std::size_t at = 0; at < bytes.size() && !failure; at += step) {
    failure = meter.OnBody(bytes.substr(at, step), static_cast<std::int64_t>(at));
  }
  if (!failure) failure = meter.OnEnd(0);
  return {.failure = failure ? failure->kind : "",
          .message = failure ? failure->message : "",
          .text = meter.text(),
          .pieces = meter.pieces(),
          .tokens = meter.completion_tokens(),
          .cached = meter.usage() ? meter.usage()->cached_tokens : std::nullopt};
}

constexpr std::string_view kOurs =
    R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{"content":" two"},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

)";

TEST(AnswerMeter, ReadsAChatWithUsage) {
  const Outcome want = {.text = "one two", .pieces = 2, .tokens = 3, .cached = 4};
  EXPECT_EQ(Read(kOurs), want);
  for (std::size_t step = 1; step < kOurs.size(); step += 5)
    EXPECT_EQ(Read(kOurs, 200, step), want);
}

TEST(AnswerMeter, ReadsACompletionOfLlamaCpp) {
  const Outcome read = Read(
      "data: {\"choices\":[{\"text\":\"a\",\"index\":0,\"finish_reason\":null}]}\n\n"
      ": keep alive\n\n"
      "data: {\"choices\":[{\"text\":\"\",\"index\":0,\"finish_reason\":\"length\"}],"
      "\"usage\":{\"completion_tokens\":2,\"prompt_tokens\":5,\"total_tokens\":7},"
      "\"timings\":{\"cache_n\":3,\"prompt_n\":2}}\n\n"
      "data: [DONE]\n\n");
  EXPECT_EQ(read, (Outcome{.text = "a", .pieces = 1, .tokens = 2, .cached = 3}));
}

TEST(AnswerMeter, ReasoningCountsAsTokensAndIsNoAnswer) {
  const Outcome read = Read(
      "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n");
  EXPECT_EQ(read, (Outcome{.text = "yes", .pieces = 2, .tokens = 2}));
}

TEST(AnswerMeter, GapsAreThoseBetweenPiecesOfText) {
  Pieces sink;
  AnswerMeter meter(10, sink);
  meter.OnHead(200);
  const std::string piece = "data: {\"choices\":[{\"text\":\"x\"}]}\n\n";
  EXPECT_FALSE(meter.OnBody(piece, 100));
  EXPECT_FALSE(meter.OnBody(": nothing\n\n", 500));
  EXPECT_FALSE(meter.OnBody(piece + piece, 1100));
  EXPECT_FALSE(meter.OnBody(piece, 1150));
  EXPECT_THAT(sink.gaps, ElementsAre(-1, 1000, 0, 50));
  EXPECT_EQ(meter.first_ns(), 100);
  EXPECT_EQ(meter.last_ns(), 1150);
}

TEST(AnswerMeter, EveryEndThatIsNoneIsAFailureWithItsReason) {
  const std::string piece = "data: {\"choices\":[{\"text\":\"x\"}]}\n\n";
  EXPECT_EQ(Read(piece).failure, "cut");
  EXPECT_EQ(Read(piece).message, "the stream ended after 1 pieces without a finish reason");
  EXPECT_EQ(Read("").failure, "malformed");
  EXPECT_EQ(Read("{\"choices\": []}").message, "no event in the answer: '{\"choices\": []}'");
  EXPECT_EQ(Read("data: {\"choices\n\n").failure, "malformed");
  EXPECT_THAT(Read("data: [1]\n\n").message, HasSubstr("'[1]'"));
  EXPECT_EQ(Read(piece + "data: {\"error\":{\"message\":\"out of\\u0007 memory\"}}\n\n").message,
            "out of  memory");
  EXPECT_EQ(Read("error: {\"code\":500,\"message\":\"boom\"}\n\n").failure, "server");
  EXPECT_EQ(Read("data: {\"error\":{\"code\":1}}\n\n").message, "{\"code\":1}");
}

TEST(AnswerMeter, AnswersThatAreRefusedHaveStatusAndMessage) {
  EXPECT_EQ(Read("{\"error\":{\"message\":\"queue is full\"}}", 429).failure, "http 429");
  EXPECT_EQ(Read("{\"error\":{\"message\":\"queue is full\"}}", 429).message, "queue is full");
  EXPECT_EQ(Read("<html>bad\r\ngateway", 502).message, "<html>bad  gateway");
  EXPECT_EQ(Read("{\"error\":\"no\"}", 400).message, "no");
  const Outcome endless = Read(std::string(100'000, 'x'), 500, 1000);
  EXPECT_EQ(endless.message.size(), kMaxMessageBytes + 3);
}

TEST(AnswerMeter, AnswersHaveLimits) {
  const std::string piece = "data: {\"choices\":[{\"text\":\"x\"}]}\n\n";
  std::string many;
  for (int i = 0; i < 1005; ++i) many += piece;
  EXPECT_EQ(Read(many, 200, 4096, 1).message, "more than 1004 events");
  EXPECT_EQ(Read("data: " + std::string(kMaxEventBytes, 'x'), 200, 4096).failure, "too long");
}

TEST(AnswerMeter, WrongTypesAreNotBelieved) {
  for (const char* chunk :
       {R"({"choices":5,"usage":[],"timings":1})", R"({"choices":[1,null,[]]})",
        R"({"choices":[{"delta":[],"text":7,"finish_reason":3}]})",
        R"({"usage":{"prompt_tokens":-1,"completion_tokens":"x"}})",
        R"({"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":[]}})",
        R"({"choices":[{"delta":{"content":{}}}]})"}) {
    EXPECT_EQ(Read(fmt::format("data: {}\n\n", chunk)).failure, "cut") << chunk;
  }
  EXPECT_EQ(Read("data: " + std::string(10'000, '[') + "\n\n").failure, "malformed");
}

TEST(AnswerMeter, RandomDamageNeverStopsIt) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::string bytes(kOurs);
    for (std::uint64_t i = 0; i < 1 + seed % 4; ++i) {
      bytes[RandomBits(seed, 0, i) % bytes.size()] = static_cast<char>(RandomBits(seed, 1, i));
    }
    const Outcome one = Read(bytes, 200, 1);
    ASSERT_EQ(Read(bytes, 200, bytes.size()), one) << seed;
  }
}

}  // namespace
}  // namespace ashlar::load
