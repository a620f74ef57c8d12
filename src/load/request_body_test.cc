#include "load/request_body.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ashlar::load {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kTexts = {" a question", " an answer", " another"};

TEST(RequestBody, ACompletionIsOneText) {
  const Json body = Json::parse(MakeBody({.model = "m"}, kTexts, 7));
  EXPECT_EQ(body["prompt"], " a question an answer another");
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["ignore_eos"], true);
}

TEST(RequestBody, AChatHasItsTurns) {
  const Json body = Json::parse(
      MakeBody({.endpoint = Endpoint::kChat, .model = "m", .ignores_eos = false}, kTexts, 7));
  ASSERT_EQ(body["messages"].size(), 3U);
  EXPECT_EQ(body["messages"][1], Json({{"role", "assistant"}, {"content", " an answer"}}));
  EXPECT_EQ(body["messages"][2]["role"], "user");
  EXPECT_FALSE(body.contains("prompt"));
  EXPECT_FALSE(body.contains("ignore_eos"));
}

TEST(RequestBody, ExtraFieldsAreAddedAndTakePrecedence) {
  const Json body =
      Json::parse(MakeBody({.model = "m", .extra = {{"top_k", 5}, {"temperature", 1}}}, kTexts, 7));
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["temperature"], 1);
}

TEST(RequestBody, BytesThatAreNoTextDoNotStopIt) {
  const std::vector<std::string> texts = {"a\xFF"};
  EXPECT_EQ(Json::parse(MakeBody({}, texts, 1))["prompt"], "a\uFFFD");
}

}  // namespace
}  // namespace ashlar::load
