#include "server/openai_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/testing/byte_tokenizer.h"
#include "server/testing/captured_answer.h"
#include "server/testing/scripted_service.h"

namespace ashlar::server {
namespace {

using testing::ByteTokenizer;
using testing::CapturedAnswer;
using testing::FixedScript;
using testing::Script;
using testing::ScriptedService;

// "hello world", and then the end.
const Script kHello = [](std::span<const TokenId>, std::uint64_t, std::uint64_t index) -> TokenId {
  constexpr std::string_view kText = "hello world";
  return index < kText.size() ? kText[index] : ByteTokenizer::kEos;
};

// Letters that depend on the seed.
const Script kSeeded = [](std::span<const TokenId>, std::uint64_t seed, std::uint64_t) -> TokenId {
  return static_cast<TokenId>('a' + seed % 26);
};

Result<std::string> RenderRoles(const Json& context) {
  std::string text;
  for (const Json& message : context["messages"]) {
    text += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + "\n";
  }
  if (context.contains("style")) {
    text += context["style"].get<std::string>();
  }
  if (text.find("boom") != std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "roles must alternate");
  }
  return text + (context["add_generation_prompt"].get<bool>() ? ">" : "");
}

class OpenAiServerTest : public ::testing::Test {
 protected:
  void Use(Script script, ChatRenderer chat = RenderRoles, OpenAiServerOptions options = {}) {
    if (options.model_names.empty()) {
      options.model_names = {"tiny", "org/alias"};
    }
    options.version = "1.2.3";
    service_ = std::make_unique<ScriptedService>(std::move(script), testing::ScriptedInfo(200));
    server_ = std::make_unique<OpenAiServer>(*service_, tokenizer_, std::move(chat), options);
  }

  std::shared_ptr<CapturedAnswer> Start(std::string method, std::string path,
                                        std::string body = {}) {
    auto answer = CapturedAnswer::Create();
    net::HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    server_->Handle(std::move(request), answer->TakeResponder());
    return answer;
  }

  // For requests the engine does not see.
  std::shared_ptr<CapturedAnswer> Ask(std::string method, std::string path, std::string body = {}) {
    auto answer = Start(std::move(method), std::move(path), std::move(body));
    EXPECT_TRUE(answer->Wait());
    return answer;
  }

  // Starts, and steps the engine until everything is generated.
  std::shared_ptr<CapturedAnswer> Generate(std::string path, std::string body,
                                           std::size_t sequences = 1) {
    auto answer = Start("POST", std::move(path), std::move(body));
    EXPECT_TRUE(WaitUntil([&] { return service_->live() == sequences; }));
    service_->StepAll();
    EXPECT_TRUE(answer->Wait());
    return answer;
  }

  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > patience) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  const ByteTokenizer tokenizer_;
  std::unique_ptr<ScriptedService> service_;
  std::unique_ptr<OpenAiServer> server_;
};

// --- Routes
// ----------------------------------------------------------------------------------------

TEST_F(OpenAiServerTest, ListsItsModels) {
  Use(kHello);
  const Json models = Ask("GET", "/v1/models")->json();
  EXPECT_EQ(models["object"], "list");
  ASSERT_EQ(models["data"].size(), 2u);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["object"], "model");
  EXPECT_EQ(models["data"][0]["max_model_len"], 200);
  EXPECT_EQ(Ask("GET", "/v1/models/org%2Falias")->json()["id"], "org/alias");
  EXPECT_EQ(Ask("GET", "/v1/models/org/alias")->json()["id"], "org/alias");
  const auto missing = Ask("GET", "/v1/models/huge");
  EXPECT_EQ(missing->status(), 404);
  EXPECT_EQ(missing->json()["error"]["code"], "model_not_found");
  EXPECT_EQ(Ask("GET", "/v1/models/")->status(), 404);
}

TEST_F(OpenAiServerTest, SaysItIsWellAndWhatItIs) {
  Use(kHello);
  EXPECT_EQ(Ask("GET", "/health")->json()["status"], "ok");
  EXPECT_EQ(Ask("GET", "/version")->body(), R"({"version":"1.2.3"})");
}

TEST_F(OpenAiServerTest, AnswersWrongPathsAndMethodsInTheErrorShape) {
  Use(kHello);
  const auto path = Ask("GET", "/v2/nothing");
  EXPECT_EQ(path->status(), 404);
  EXPECT_EQ(path->json()["error"]["type"], "invalid_request_error");
  const auto method = Ask("GET", "/v1/completions");
  EXPECT_EQ(method->status(), 405);
  EXPECT_EQ(method->Header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("POST", "/v1/models", "{}")->status(), 405);
  const auto options = Ask("OPTIONS", "/v1/models");
  EXPECT_EQ(options->status(), 204);
  EXPECT_EQ(options->Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("HEAD", "/health")->status(), 200);
}

TEST_F(OpenAiServerTest, TokenizesAndBack) {
  Use(kHello);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"hi"})")->body(),
            R"({"count":3,"max_model_len":200,"tokens":[256,104,105],"token_strs":null})");
  EXPECT_EQ(Ask("POST", "/tokenize",
                R"({"prompt":"hi","add_special_tokens":false,)"
                R"("return_token_strs":true})")
                ->body(),
            R"({"count":2,"max_model_len":200,"tokens":[104,105],"token_strs":["h","i"]})");
  EXPECT_EQ(
      Ask("POST", "/tokenize", R"({"messages":[{"role":"user","content":"x"}]})")->json()["count"],
      8);  // "user:x\n>"
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens":[256,104,262]})")->body(),
            "{\"prompt\":\"<s>h\xef\xbf\xbd\"}");
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens":[1000]})")->json()["error"]["param"],
            "tokens[0]");
}

// --- Whole answers
// ---------------------------------------------------------------------------------

TEST_F(OpenAiServerTest, CompletesUntilTheEndToken) {
  Use(kHello);
  const Json json = Generate("/v1/completions", R"({"model":"org/alias","prompt":"say"})")->json();
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["model"], "org/alias");
  EXPECT_EQ(json["choices"].size(), 1u);
  EXPECT_EQ(json["choices"][0]["text"], "hello world");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["stop_reason"], ByteTokenizer::kEos);
  EXPECT_EQ(DumpJson(json["usage"]),
            R"({"prompt_tokens":4,"completion_tokens":12,"total_tokens":16,)"
            R"("prompt_tokens_details":{"cached_tokens":2}})");
}

TEST_F(OpenAiServerTest, ChatsThroughTheTemplate) {
  Use(kHello);
  const Json json = Generate("/v1/chat/completions",
                             R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5,)"
                             R"("chat_template_kwargs":{"style":"!"}})")
                        ->json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  const auto requests = service_->requests();
  EXPECT_EQ(tokenizer_.Decode(requests.at(0).prompt, true), "user:hi\n!>");
  EXPECT_EQ(requests.at(0).max_tokens, 5u);
}

TEST_F(OpenAiServerTest, AChatMayFillTheContext) {
  Use(FixedScript({'x'}));
  const Json json =
      Generate("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})")->json();
  EXPECT_EQ(service_->requests().at(0).max_tokens, 200u - 9u);
  EXPECT_EQ(json["usage"]["total_tokens"], 200);
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
}

TEST_F(OpenAiServerTest, PassesTheSettingsToTheEngine) {
  Use(kHello);
  Generate("/v1/completions",
           R"({"prompt":"p","temperature":0.5,"top_p":0.5,"top_k":3,"seed":9,"stop_token_ids":[7],)"
           R"("ignore_eos":true,"max_tokens":2,"logprobs":3})");
  const engine::GenerationRequest request = service_->requests().at(0);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_k, 3u);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_EQ(request.stop_tokens, (std::vector<TokenId>{7}));
  EXPECT_EQ(request.max_tokens, 2u);
  EXPECT_EQ(request.top_logprobs, 3u);
  EXPECT_FALSE(request.prompt_logprobs);
}

TEST_F(OpenAiServerTest, EachChoiceHasASeedOfItsOwn) {
  Use(kSeeded);
  const Json json =
      Generate("/v1/completions", R"({"prompt":["p","q"],"n":2,"seed":1,"max_tokens":2})", 4)
          ->json();
  ASSERT_EQ(json["choices"].size(), 4u);
  const std::vector<std::string> want = {"bb", "cc", "bb",
                                         "cc"};  // a prompt's place changes nothing
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(json["choices"][i]["text"], want[i]);
    EXPECT_EQ(json["choices"][i]["index"], i);
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4);  // each prompt once
  EXPECT_EQ(json["usage"]["completion_tokens"], 8);
}

TEST_F(OpenAiServerTest, WithoutASeedTheServersOwnOrARandomOneIsUsed) {
  Use(kSeeded, RenderRoles, {.seed = 25});
  EXPECT_EQ(
      Generate("/v1/completions", R"({"prompt":"p","max_tokens":1})")->json()["choices"][0]["text"],
      "z");
  Use(kSeeded);
  Generate("/v1/completions", R"({"prompt":"p","max_tokens":1})");
  Generate("/v1/completions", R"({"prompt":"p","max_tokens":1})");
  const auto requests = service_->requests();
  EXPECT_NE(requests.at(0).sampling.seed, requests.at(1).sampling.seed);
}

TEST_F(OpenAiServerTest, BestOfReturnsTheLikeliest) {
  Use(kSeeded);  // 'a' is the likeliest letter
  const Json json =
      Generate("/v1/completions", R"({"prompt":"p","n":2,"best_of":4,"seed":24,"max_tokens":3})", 4)
          ->json();
  ASSERT_EQ(json["choices"].size(), 2u);
  EXPECT_EQ(json["choices"][0]["text"], "aaa");  // seed 26
  EXPECT_EQ(json["choices"][1]["text"], "bbb");  // seed 27
  EXPECT_EQ(json["choices"][0]["index"], 0);
  EXPECT_TRUE(json["choices"][0]["logprobs"].is_null());  // they were not asked for
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
}

TEST_F(OpenAiServerTest, EchoesThePromptWithItsLogprobs) {
  Use(kHello);
  const Json json =
      Generate("/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1,"max_tokens":1})")
          ->json();
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], "abh");
  EXPECT_EQ(DumpJson(choice["logprobs"]),
            R"({"tokens":["<s>","a","b","h"],"token_logprobs":[null,0.0,-0.25,-1.75],)"
            R"("top_logprobs":[null,{"a":0.0},{"a":0.0,"b":-0.25},{"a":0.0,"h":-1.75}],)"
            R"("text_offset":[0,0,1,2]})");
  EXPECT_TRUE(service_->requests().at(0).prompt_logprobs);
}

TEST_F(OpenAiServerTest, EchoWithNoTokensOnlyScoresThePrompt) {
  Use(kHello);
  const Json json =
      Generate("/v1/completions", R"({"prompt":[97,98],"echo":true,"logprobs":0,"max_tokens":0})")
          ->json();
  EXPECT_EQ(json["choices"][0]["text"], "ab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(DumpJson(json["choices"][0]["logprobs"]["token_logprobs"]), "[null,-0.25]");
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

// --- Stopping
// --------------------------------------------------------------------------------------

TEST_F(OpenAiServerTest, AStopStringEndsTheTextAndTheEnginesWork) {
  Use(kHello);
  const Json json = Generate("/v1/completions", R"({"prompt":"p","stop":["zz","o w"]})")->json();
  EXPECT_EQ(json["choices"][0]["text"], "hell");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["stop_reason"], "o w");
  EXPECT_EQ(json["usage"]["completion_tokens"], 7);  // "hello w", however far the engine got
}

TEST_F(OpenAiServerTest, TheStopStringCancelsThatSequenceOnly) {
  Use(FixedScript({'a', 'b', 'c', 'd'}));
  auto answer =
      Start("POST", "/v1/completions", R"({"prompt":["p","q"],"stop":"b","max_tokens":4})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 2; }));
  service_->Step();
  service_->Step();
  ASSERT_TRUE(WaitUntil([&] { return service_->cancel_calls() == 2; }));
  service_->StepAll();
  ASSERT_TRUE(answer->Wait());
  EXPECT_EQ(answer->json()["choices"][1]["text"], "a");
}

// --- Streams
// ---------------------------------------------------------------------------------------

TEST_F(OpenAiServerTest, StreamsAChat) {
  Use(kHello);
  const auto answer = Generate("/v1/chat/completions",
                               R"({"messages":[{"role":"user","content":"hi"}],"stream":true,)"
                               R"("stream_options":{"include_usage":true}})");
  EXPECT_EQ(answer->status(), 200);
  EXPECT_TRUE(answer->Header("Content-Type").starts_with("text/event-stream"));
  EXPECT_TRUE(answer->body().ends_with("data: [DONE]\n\n"));
  const std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 1u + 11u + 1u + 1u);
  EXPECT_EQ(DumpJson(events[0]["choices"][0]["delta"]), R"({"role":"assistant","content":""})");
  std::string text;
  for (std::size_t i = 1; i < 12; ++i) {
    text += events[i]["choices"][0]["delta"]["content"].get<std::string>();
    EXPECT_TRUE(events[i]["choices"][0]["finish_reason"].is_null());
    EXPECT_TRUE(events[i]["usage"].is_null());
  }
  EXPECT_EQ(text, "hello world");
  EXPECT_EQ(events[12]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events[13]["choices"].empty());
  EXPECT_EQ(events[13]["usage"]["completion_tokens"], 12);
}

TEST_F(OpenAiServerTest, StreamsTextAsSoonAsItIsCertain) {
  Use(kHello);
  auto answer = Start("POST", "/v1/completions", R"({"prompt":"p","stream":true,"stop":"lo!"})");
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  for (int i = 0; i < 3; ++i) {
    service_->Step();
  }
  ASSERT_TRUE(answer->WaitFor(R"("text":"e")"));
  EXPECT_EQ(answer->body().find(R"("text":"l")"), std::string::npos);  // may begin the stop string
  service_->Step();
  ASSERT_TRUE(answer->WaitFor(R"("text":"l")"));  // the first l cannot, now that another has come
  service_->StepAll();
  ASSERT_TRUE(answer->Wait());
}

TEST_F(OpenAiServerTest, StreamsLogprobsWithTheirText) {
  Use(FixedScript({ByteTokenizer::kHalfEmoji, ByteTokenizer::kOtherHalf, 'x'}));
  const auto answer =
      Generate("/v1/completions", R"({"prompt":"p","stream":true,"logprobs":0,"max_tokens":3})");
  std::string text;
  std::string tokens;
  for (const Json& event : answer->events()) {
    const Json& choice = event["choices"][0];
    text += choice["text"].get<std::string>();
    if (!choice["logprobs"].is_null()) {
      tokens +=
          DumpJson(choice["logprobs"]["tokens"]) + DumpJson(choice["logprobs"]["text_offset"]);
    }
  }
  EXPECT_EQ(text, "\xf0\x9f\x98\x80x");
  EXPECT_EQ(tokens, R"(["bytes:\\xf0\\x9f"][0]["bytes:\\x98\\x80"][0]["x"][1])");
}

TEST_F(OpenAiServerTest, StreamsEveryChoiceWithItsIndex) {
  Use(kSeeded);
  const auto answer =
      Generate("/v1/completions",
               R"({"prompt":"p","n":3,"seed":0,"stream":true,"max_tokens":2,"echo":true})", 3);
  std::vector<std::string> texts(3);
  for (const Json& event : answer->events()) {
    texts.at(event["choices"][0]["index"].get<std::size_t>()) += event["choices"][0]["text"];
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"paa", "pbb", "pcc"}));
}

// --- Clients that leave
// ----------------------------------------------------------------------------

TEST_F(OpenAiServerTest, ADisconnectCancelsEverySequenceAtOnce) {
  for (const std::string stream : {"true", "false"}) {
    Use(FixedScript({'x'}));
    auto answer = Start("POST", "/v1/completions",
                        R"({"prompt":"p","n":3,"max_tokens":100,"stream":)" + stream + "}");
    ASSERT_TRUE(WaitUntil([&] { return service_->live() == 3; }));
    service_->Step();
    answer->Leave();
    EXPECT_EQ(service_->cancel_calls(), 3u);
    service_->Step();
    service_->Step();
    EXPECT_EQ(service_->live(), 0u);
  }
}

TEST_F(OpenAiServerTest, AReaderThatFallsBehindIsCancelled) {
  Use(FixedScript({'x'}));
  auto answer = CapturedAnswer::Create({.max_pending_bytes = 2000});
  net::HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt":"p","max_tokens":190,"stream":true})";
  server_->Handle(std::move(request), answer->TakeResponder());
  ASSERT_TRUE(WaitUntil([&] { return service_->live() == 1; }));
  ASSERT_TRUE(WaitUntil([&] { return !service_->Step() || service_->cancel_calls() > 0; }));
  EXPECT_EQ(service_->cancel_calls(), 1u);
  EXPECT_TRUE(answer->Wait());
  EXPECT_TRUE(answer->is_cut());
}

// --- Errors
// ----------------------------------------------------------------------------------------

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

TEST_F(OpenAiServerTest, TheEnginesRefusalBecomesAStatusAndCallsOffTheOthers) {
  Use(kHello);
  service_->FailSubmits({ErrorCode::kResourceExhausted, "the queue of 2 is full"}, 2);
  const auto full = Ask("POST", "/v1/completions", R"({"prompt":"p","n":3,"stream":true})");
  EXPECT_EQ(full->status(), 429);
  EXPECT_EQ(full->Header("Retry-After"), "1");
  EXPECT_EQ(full->json()["error"]["message"], "the queue of 2 is full");
  EXPECT_EQ(service_->cancel_calls(), 2u);
  service_->StepAll();
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
