// Keys, quotas, bounds of answers, shutting down.
#include <gtest/gtest.h>

#include <future>
#include <memory>
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
using testing::RenderRoles;

constexpr std::string_view kKeys =
    R"({"tenants": [{"name": "acme", "keys": ["acme-0123456789abc"], "max_requests": 1},)"
    R"({"name": "metered", "keys": ["metered-0123456789"], "tokens_per_minute": 10},)"
    R"({"name": "other", "keys": ["other-0123456789ab"]}]})";

class LimitsTest : public OpenAiServerTest {
 protected:
  void ComeAs(const std::string& key) { headers_ = {{"authorization", "Bearer " + key}}; }
};

// --- Keys ---

TEST_F(LimitsTest, AKeyIsAskedForEverywhereButAtHealthAndVersion) {
  Use(kHello);
  UseKeys(kKeys);
  const auto refused = Ask("POST", "/v1/completions", R"({"prompt":"p"})");
  EXPECT_EQ(refused->status(), 401);
  EXPECT_EQ(refused->Header("WWW-Authenticate"), "Bearer realm=\"ashlar\"");
  EXPECT_EQ(refused->json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(Ask("GET", "/v1/models")->status(), 401);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"p"})")->status(), 401);
  EXPECT_EQ(Ask("GET", "/health")->status(), 200);
  EXPECT_EQ(Ask("GET", "/version")->status(), 200);
  ComeAs("acme-0123456789abd");
  EXPECT_EQ(Ask("GET", "/v1/models")->status(), 401);
  ComeAs("acme-0123456789abc");
  EXPECT_EQ(Ask("GET", "/v1/models")->status(), 200);
  EXPECT_EQ(Generate("/v1/completions", R"({"prompt":"p"})")->status(), 200);
}

// --- Quotas ---

TEST_F(LimitsTest, ATenantsPlaceIsFreeAsSoonAsItsAnswerIsComplete) {
  Use(kHello);
  UseKeys(kKeys);
  ComeAs("acme-0123456789abc");
  for (const std::string stream : {"false", "true"}) {
    const std::string body = R"({"prompt":"p","stream":)" + stream + "}";
    const auto first = Start("POST", "/v1/completions", body);
    ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
    const auto second = Ask("POST", "/v1/completions", body);
    EXPECT_EQ(second->status(), 429);
    EXPECT_EQ(second->Header("Retry-After"), "1");
    ComeAs("other-0123456789ab");
    EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"p"})")->status(), 200);
    ComeAs("acme-0123456789abc");
    service_->StepAll();
    if (stream == "true") {
      ASSERT_TRUE(first->WaitFor("[DONE]"));  // and not its end
    } else {
      ASSERT_TRUE(first->Wait());
    }
    EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"p"})")->status(), 200);
    EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":5})")->status(), 400);
    EXPECT_TRUE(first->Wait());
  }
}

TEST_F(LimitsTest, TokensAreChargedAsUsed) {
  Use(kHello);
  UseKeys(kKeys);
  ComeAs("metered-0123456789");
  // A prompt of 2 and a completion of 12, of 10 a minute.
  EXPECT_EQ(Generate("/v1/completions", R"({"prompt":"p"})")->status(), 200);
  const auto refused = Ask("POST", "/v1/completions", R"({"prompt":"p"})");
  EXPECT_EQ(refused->status(), 429);
  EXPECT_EQ(refused->json()["error"]["code"], "rate_limit_exceeded");
  EXPECT_GT(std::stoi(refused->Header("Retry-After")), 20);  // 5 tokens at 10 a minute, or so
}

TEST_F(LimitsTest, AnAnswerThatFailsIsChargedForAllItsSequences) {
  Use(FixedScript({'x'}), RenderRoles, {.answers = {.max_bytes = 10}});
  UseKeys(kKeys);
  ComeAs("metered-0123456789");
  const auto failed =
      Start("POST", "/v1/completions", R"({"prompt":"p","n":5,"logprobs":1,"max_tokens":100})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 5; }));
  service_->Step();
  ASSERT_TRUE(failed->Wait());
  EXPECT_EQ(failed->status(), 400);
  EXPECT_EQ(failed->json()["error"]["code"], "answer_too_large");
  service_->StepAll();  // 5 prompts of 2, of 10 tokens a minute
  ASSERT_TRUE(WaitUntil([&] { return observer_->ended().size() == 1; }));
  const GenerationRecord record = observer_->ended().at(0).generation.value();
  EXPECT_EQ(record.prompt_tokens, 10u);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"p"})")->status(), 429);
}

TEST_F(LimitsTest, TheServerTakesSoManyRequests) {
  Use(kHello, RenderRoles, {.max_requests = 1});
  const auto first = Start("POST", "/v1/completions", R"({"prompt":"p"})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  EXPECT_EQ(Ask("POST", "/v1/completions", R"({"prompt":"p"})")->status(), 503);
  EXPECT_EQ(Ask("GET", "/v1/models")->status(), 200);
  service_->StepAll();
  EXPECT_TRUE(first->Wait());
  EXPECT_EQ(Generate("/v1/completions", R"({"prompt":"p"})")->status(), 200);
}

TEST_F(LimitsTest, AClientThatLeftHasItsPlaceUntilTheEngineHasLetGo) {
  Use(FixedScript({'x'}), RenderRoles, {.max_requests = 1});
  const auto first = Start("POST", "/v1/completions", R"({"prompt":"p","max_tokens":100})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  first->Leave();
  ASSERT_TRUE(WaitUntil([&] { return service_->cancel_calls() >= 1; }));
  EXPECT_EQ(server_->requests(), 1u);
  service_->StepAll();
  EXPECT_TRUE(WaitUntil([&] { return server_->requests() == 0; }));
}

TEST_F(LimitsTest, APromptMayHaveSoManyTokens) {
  Use(kHello, RenderRoles, {.max_prompt_tokens = 4});
  EXPECT_EQ(Generate("/v1/completions", R"({"prompt":"abc"})")->status(), 200);  // and <s>
  const auto refused = Ask("POST", "/v1/completions", R"({"prompt":["a","abcd"]})");
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["param"], "prompt");
  EXPECT_EQ(refused->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})")
                ->json()["error"]["param"],
            "messages");
}

// --- Tenants and the prefix cache ---

TEST_F(LimitsTest, TenantsShareNoPrefixWhenIsolated) {
  Use(kHello, RenderRoles, {.isolates_tenants = true});
  UseKeys(kKeys);
  const std::string body = R"({"prompt":"p","cache_salt":"s","user":"u"})";
  for (const std::string key : {"acme-0123456789abc", "other-0123456789ab"}) {
    ComeAs(key);
    Generate("/v1/completions", body);
    Generate("/v1/completions", body);
    Generate("/v1/completions", R"({"prompt":"p","user":"u"})");
  }
  const auto requests = service_->requests();
  ASSERT_EQ(requests.size(), 6u);
  EXPECT_EQ(requests[0].cache_salt, requests[1].cache_salt);
  EXPECT_NE(requests[0].cache_salt, requests[2].cache_salt);
  EXPECT_NE(requests[0].cache_salt, requests[3].cache_salt);
  EXPECT_NE(requests[2].cache_salt, requests[5].cache_salt);
  EXPECT_LE(requests[0].cache_salt.size(), 4096u);
}

TEST_F(LimitsTest, TenantsShareWhatTheirSaltsAllowOtherwise) {
  Use(kHello);
  Generate("/v1/completions", R"({"prompt":"p","cache_salt":"s","user":"u"})");
  EXPECT_EQ(service_->requests().at(0).cache_salt, "s");
}

// --- Answers that grow ---

TEST_F(LimitsTest, AWholeAnswerThatGrowsTooLargeIsAnError) {
  Use(FixedScript({'x'}), RenderRoles, {.answers = {.max_bytes = 100}});
  const auto fits = Generate("/v1/completions", R"({"prompt":"p","max_tokens":100})");
  EXPECT_EQ(fits->json()["choices"][0]["text"].get<std::string>().size(), 100u);
  const auto refused = Generate("/v1/completions", R"({"prompt":"p","max_tokens":101})");
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["code"], "answer_too_large");
  // Of all its choices together, with their logprobs.
  const std::size_t cancelled = service_->cancel_calls();
  const auto start =
      Start("POST", "/v1/completions", R"({"prompt":"p","max_tokens":150,"n":4,"logprobs":5})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 4; }));
  service_->Step();
  EXPECT_TRUE(start->Wait());
  EXPECT_EQ(start->status(), 400);
  service_->StepAll();  // the engine has been told to end them
  EXPECT_EQ(service_->cancel_calls(), cancelled + 4);
  // A stream does not wait to be whole.
  const auto streamed =
      Generate("/v1/completions", R"({"prompt":"p","max_tokens":150,"stream":true})");
  EXPECT_TRUE(streamed->body().ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(streamed->events().back()["choices"][0]["finish_reason"], "length");
}

// --- Texts longer than the context, which has 200 tokens here ---

TEST_F(LimitsTest, ATextThatMayBeCutMayBeLongerThanTheContext) {
  const std::string text(5000, 'a');
  const std::string prompt = R"({"prompt":")" + text + '"';
  Use(kHello);
  EXPECT_EQ(Ask("POST", "/v1/completions", prompt + "}")->json()["error"]["code"],
            "context_length_exceeded");
  EXPECT_EQ(Generate("/v1/completions", prompt + R"(,"context_overflow":"stream"})")->status(),
            200);
  const std::string chat = R"({"messages":[{"role":"user","content":")" + text + R"("}])";
  EXPECT_EQ(Generate("/v1/chat/completions", chat + R"(,"context_overflow":"stream"})")->status(),
            200);
  Use(kHello, RenderRoles, {.context_stream = engine::ContextStream{}});
  EXPECT_EQ(Generate("/v1/completions", prompt + "}")->status(), 200);
  EXPECT_EQ(Ask("POST", "/v1/completions", prompt + R"(,"context_overflow":"refuse"})")->status(),
            400);
}

TEST_F(LimitsTest, ACutMustLeaveRoomInTheContext) {
  Use(kHello);
  const auto ask = [&](const std::string& fields) {
    return Start("POST", "/v1/completions",
                 R"({"prompt":"p","context_overflow":"stream",)" + fields + "}");
  };
  const auto refused = [&](const std::string& fields) {
    const auto answer = ask(fields);
    EXPECT_TRUE(answer->Wait());
    EXPECT_EQ(answer->status(), 400);
    return answer->json()["error"]["param"].get<std::string>();
  };
  EXPECT_EQ(refused(R"("context_sinks":100,"context_window":100)"), "context_window");
  EXPECT_EQ(refused(R"("context_sinks":100)"), "context_sinks");  // and half of the context
  EXPECT_EQ(refused(R"("context_sinks":9223372036854775807)"), "context_sinks");
  const auto fits = ask(R"("context_sinks":99)");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  service_->StepAll();
  EXPECT_TRUE(fits->Wait());
  EXPECT_EQ(fits->status(), 200);
}

TEST_F(LimitsTest, WhatCannotBeCutKeepsToTheContext) {
  Use(kHello, RenderRoles, {.context_stream = engine::ContextStream{}});
  const auto beams =
      Ask("POST", "/v1/completions", R"({"prompt":"p","use_beam_search":true,"max_tokens":199})");
  EXPECT_EQ(beams->json()["error"]["code"], "context_length_exceeded");
  Generate("/v1/completions", R"({"prompt":"p","echo":true,"logprobs":1,"max_tokens":1})");
  EXPECT_FALSE(service_->requests().at(0).stream.has_value());
}

// --- What takes long to read ---

TEST_F(LimitsTest, LongTextsHoldUpNoShortOnes) {
  std::promise<void> go_on;
  Use(kHello, [wait = go_on.get_future().share()](const Json&) -> Result<std::string> {
    wait.wait();
    return std::string("p");
  });
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + std::string(kLongBodyBytes, 'a') + R"("}]})";
  std::vector<std::shared_ptr<CapturedAnswer>> long_ones;
  for (int i = 0; i < 4; ++i) long_ones.push_back(Start("POST", "/tokenize", body));
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"p"})")->status(), 200);
  go_on.set_value();
  for (const auto& answer : long_ones) {
    EXPECT_TRUE(answer->Wait());
    EXPECT_EQ(answer->status(), 200);
  }
}

// --- What the queue can never take ---

TEST_F(LimitsTest, ARequestHasNoMoreSequencesThanTheQueueTakes) {
  Use(kHello, RenderRoles, {.max_waiting = 4});
  const auto param = [&](const std::string& fields) {
    return Ask("POST", "/v1/completions", R"({"prompt":"p",)" + fields + "}")
        ->json()["error"]["param"];
  };
  EXPECT_EQ(param(R"("n":5)"), "n");
  EXPECT_EQ(param(R"("use_beam_search":true,"beam_width":5)"), "beam_width");
  EXPECT_EQ(Generate("/v1/completions", R"({"prompt":"p","n":4})", 4)->status(), 200);
}

// --- Shutting down ---

TEST_F(LimitsTest, ADrainingServerFinishesWhatItHasAndTakesNoMore) {
  Use(kHello);
  const auto first = Start("POST", "/v1/completions", R"({"prompt":"p","stream":true})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  server_->BeginDrain(9);
  const auto health = Ask("GET", "/health");
  EXPECT_EQ(health->status(), 503);
  EXPECT_EQ(health->json()["status"], "draining");
  const auto refused = Ask("POST", "/v1/completions", R"({"prompt":"p"})");
  EXPECT_EQ(refused->status(), 503);
  EXPECT_EQ(refused->Header("Retry-After"), "9");
  EXPECT_EQ(Ask("GET", "/v1/models")->status(), 200);
  EXPECT_EQ(server_->requests(), 1u);
  service_->StepAll();
  EXPECT_TRUE(first->Wait());
  EXPECT_EQ(first->events().back()["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(WaitUntil([&] { return server_->requests() == 0; }));
}

}  // namespace
}  // namespace ashlar::server
