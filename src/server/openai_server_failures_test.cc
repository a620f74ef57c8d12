// Clients that leave, requests that are wrong, an engine that refuses or fails.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/testing/api_fixture.h"

namespace ashlar::server {
namespace {

using testing::CapturedAnswer;
using testing::FixedScript;
using testing::kHello;
using testing::OpenAiServerTest;

// --- Clients that leave ---

constexpr std::string_view kBeams =
    R"({"prompt":"p","max_tokens":5,"use_beam_search":true,"beam_width":2})";

TEST_F(OpenAiServerTest, ADisconnectCancelsEverySequenceAtOnce) {
  for (const std::string stream : {"true", "false"}) {
    Use(FixedScript({'x'}));
    auto answer = Start("POST", "/v1/completions",
                        R"({"prompt":"p","n":3,"max_tokens":100,"stream":)" + stream + "}");
    ASSERT_TRUE(WaitUntil([&] { return service_->live() == 3; }));
    service_->Step();
    answer->Leave();
    // The last id may still be on its way from Submit to the answer, which then cancels it itself.
    ASSERT_TRUE(WaitUntil([&] { return service_->cancel_calls() >= 3; }));
    service_->Step();
    service_->Step();
    EXPECT_EQ(service_->live(), 0u);
  }
}

TEST_F(OpenAiServerTest, AReaderThatFallsBehindIsCancelled) {
  Use(FixedScript({'x'}));
  // The unsent head alone is above the limit, so the first text is refused however tokens are
  // gathered into writes.
  auto answer = CapturedAnswer::Create({.max_pending_bytes = 1});
  net::HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt":"p","max_tokens":190,"stream":true})";
  router_->Handle(std::move(request), answer->TakeResponder());
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  service_->Step();
  ASSERT_TRUE(WaitUntil([&] { return service_->cancel_calls() > 0; }));
  service_->Step();
  EXPECT_EQ(service_->live(), 0u);
  EXPECT_EQ(service_->cancel_calls(), 1u);
  EXPECT_TRUE(answer->Wait());
  EXPECT_TRUE(answer->is_cut());
}

// --- What is recorded of a request ---

TEST_F(OpenAiServerTest, AnAnswerIsRecordedWithItsTokens) {
  Use(kHello);
  Generate("/v1/completions", R"({"prompt":"say","n":2,"stop":["wor"],"max_tokens":20})", 2);
  ASSERT_TRUE(WaitUntil([&] { return observer_->ended().size() == 1; }));
  const auto ended = observer_->ended()[0];
  EXPECT_EQ(ended.route, "/v1/completions");
  EXPECT_EQ(ended.status, 200);
  ASSERT_TRUE(ended.generation.has_value());
  EXPECT_EQ(ended.generation->sequences, 2u);
  EXPECT_EQ(ended.generation->prompt_tokens, 8u);
  EXPECT_EQ(ended.generation->cached_tokens, 4u);
  EXPECT_EQ(ended.generation->completion_tokens, 18u);  // "hello wor", twice
  EXPECT_EQ(ended.generation->ending, Ending::kStop);
}

// Not when the client leaves: when the engine has given everything back.
TEST_F(OpenAiServerTest, ARequestOfAClientThatLeftEndsWithItsSequences) {
  for (const std::string stream : {"true", "false"}) {
    Use(FixedScript({'x'}));
    const std::size_t before = observer_->ended().size();
    auto answer = Start("POST", "/v1/completions",
                        R"({"prompt":"p","n":2,"max_tokens":100,"stream":)" + stream + "}");
    ASSERT_TRUE(WaitUntil([&] { return service_->live() == 2; }));
    service_->Step();
    answer->Leave();
    ASSERT_TRUE(WaitUntil([&] { return service_->cancel_calls() >= 2; }));
    EXPECT_EQ(observer_->ended().size(), before);
    service_->StepAll();
    ASSERT_TRUE(WaitUntil([&] { return observer_->ended().size() == before + 1; }));
    const auto ended = observer_->ended().back();
    EXPECT_TRUE(ended.client_left);
    EXPECT_EQ(ended.generation->ending, Ending::kAbort);
    EXPECT_EQ(ended.generation->completion_tokens, 2u);  // one of each before it left
  }
}

TEST_F(OpenAiServerTest, ARefusedRequestIsRecordedAsAnError) {
  Use(kHello);
  service_->FailSubmits({ErrorCode::kResourceExhausted, "full"});
  Ask("POST", "/v1/completions", R"({"prompt":"p"})");
  ASSERT_TRUE(WaitUntil([&] { return observer_->ended().size() == 1; }));
  Ask("POST", "/v1/completions", R"({"prompt":7})");
  ASSERT_TRUE(WaitUntil([&] { return observer_->ended().size() == 2; }));
  EXPECT_EQ(observer_->ended()[0].status, 429);
  EXPECT_EQ(observer_->ended()[0].generation->ending, Ending::kError);
  EXPECT_EQ(observer_->ended()[1].status, 400);
  EXPECT_FALSE(observer_->ended()[1].generation.has_value());
}

// --- Errors ---

TEST_F(OpenAiServerTest, NamesWhatIsWrongWithTheRequest) {
  Use(kHello);
  struct Case {
    int status;
    std::string_view param;  // "": null
    std::string_view code;
    std::string path;
    std::string body;
  };
  const std::string chat = "/v1/chat/completions";
  const std::string completion = "/v1/completions";
  const std::vector<Case> cases = {
      {400, "", "", completion, ""},
      {400, "prompt", "", completion, R"({"prompt": nonsense})"},
      {400, "", "", completion, "[]"},
      {400, "prompt", "", completion, "{}"},
      {400, "prompt", "", completion, R"({"prompt":"","add_special_tokens":false})"},
      {400, "n", "", completion, R"({"prompt":"p","n":0})"},
      {404, "model", "model_not_found", completion, R"({"prompt":"p","model":"gpt-9"})"},
      {404, "model", "model_not_found", chat,
       R"({"messages":[{"role":"user","content":"x"}],"model":"gpt-9"})"},
      {404, "model", "model_not_found", "/tokenize", R"({"prompt":"p","model":"gpt-9"})"},
      {400, "prompt", "context_length_exceeded", completion, R"({"prompt":"p","max_tokens":199})"},
      {400, "prompt", "context_length_exceeded", completion,
       R"({"prompt":")" + std::string(300, 'p') + R"(","max_tokens":0})"},
      {400, "messages", "context_length_exceeded", chat,
       R"({"messages":[{"role":"user","content":")" + std::string(300, 'p') + R"("}]})"},
      {400, "messages", "", chat, R"({"messages":[{"role":"user","content":"boom"}]})"},
  };
  for (const Case& c : cases) {
    const auto answer = Ask("POST", c.path, c.body);
    EXPECT_EQ(answer->status(), c.status) << c.body;
    const Json error = answer->json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], c.param.empty() ? Json() : Json(c.param)) << c.body;
    EXPECT_EQ(error["code"], c.code.empty() ? Json() : Json(c.code)) << c.body;
  }
  EXPECT_TRUE(service_->requests().empty());
}

TEST_F(OpenAiServerTest, ATextThatCannotFitIsRefusedUnencoded) {
  Use(kHello);
  // The longest token has 12 bytes, so 200 tokens hold at most 2411.
  const auto ask = [this](std::size_t bytes) {
    const std::string text(bytes, 'p');
    return Ask("POST", "/v1/completions", DumpJson(Json{{"prompt", text}}))
        ->json()["error"]["message"]
        .get<std::string>();
  };
  EXPECT_NE(ask(2411).find("the request needs"), std::string::npos);
  EXPECT_NE(ask(2412).find("2412 bytes of 'prompt' have at least 201"), std::string::npos);
}

TEST_F(OpenAiServerTest, TheLongestRequestThatFitsIsAccepted) {
  Use(FixedScript({'x'}));
  Generate("/v1/completions", R"({"prompt":"p","max_tokens":198})");  // 2 + 198
  EXPECT_EQ(service_->requests().size(), 1u);
}

TEST_F(OpenAiServerTest, AModelWithoutATemplateSaysWhatToDo) {
  Use(kHello, nullptr);
  const auto answer =
      Ask("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(answer->status(), 400);
  EXPECT_NE(answer->json()["error"]["message"].get<std::string>().find("/v1/completions"),
            std::string::npos);
}

TEST_F(OpenAiServerTest, TheEnginesRefusalBecomesAStatus) {
  Use(kHello);
  service_->FailSubmits({ErrorCode::kResourceExhausted, "the queue of 2 is full"});
  const auto full = Ask("POST", "/v1/completions", R"({"prompt":"p","n":3,"stream":true})");
  EXPECT_EQ(full->status(), 429);
  EXPECT_EQ(full->Header("Retry-After"), "1");
  EXPECT_EQ(full->json()["error"]["message"], "the queue of 2 is full");
  EXPECT_TRUE(service_->requests().empty());  // all or none
  service_->FailSubmits({ErrorCode::kUnavailable, "shutting down"});
  EXPECT_EQ(Ask("POST", "/v1/completions", R"({"prompt":"p"})")->status(), 503);
}

TEST_F(OpenAiServerTest, AnEngineFailureIsAnErrorInEitherForm) {
  Use(kHello);
  auto whole = Start("POST", "/v1/completions", R"({"prompt":"p"})");
  auto streamed = Start("POST", "/v1/completions", R"({"prompt":"p","stream":true})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 2; }));
  service_->Step();
  ASSERT_TRUE(streamed->WaitFor("\"h\""));
  service_->FailRunning("out of luck");
  service_->StepAll();
  ASSERT_TRUE(whole->Wait());
  EXPECT_EQ(whole->status(), 500);
  EXPECT_EQ(whole->json()["error"]["message"], "out of luck");
  ASSERT_TRUE(streamed->Wait());
  EXPECT_EQ(streamed->events().back()["error"]["message"], "out of luck");
  EXPECT_TRUE(streamed->body().ends_with("data: [DONE]\n\n"));
}

TEST_F(OpenAiServerTest, ABeamSearchTurnedAwayHalfwayMayComeAgain) {
  Use(FixedScript({'x'}));
  const auto answer = Start("POST", "/v1/completions", std::string(kBeams));
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  service_->FailSubmits({ErrorCode::kResourceExhausted, "the queue of 2 is full"});
  service_->Step();
  ASSERT_TRUE(answer->Wait());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_EQ(answer->Header("Retry-After"), "1");
  EXPECT_EQ(answer->json()["error"]["message"], "the queue of 2 is full");
}

TEST_F(OpenAiServerTest, AServerThatGoesFirstLetsGoOfABeamSearch) {
  Use(FixedScript({'x'}));
  const auto answer = Start("POST", "/v1/completions", std::string(kBeams));
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  server_.reset();
  service_->StepAll();
  EXPECT_EQ(observer_->ended().size(), 1u);
}

TEST_F(OpenAiServerTest, AServerThatGoesFirstLeavesNothingDangling) {
  Use(FixedScript({'x'}));
  auto answer = Start("POST", "/v1/completions", R"({"prompt":"p","max_tokens":50,"stream":true})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  service_->Step();
  server_.reset();
  service_->StepAll();
  EXPECT_TRUE(answer->Wait());
  EXPECT_TRUE(answer->is_cut());
}

}  // namespace
}  // namespace ashlar::server
