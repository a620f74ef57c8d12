#include "server/openai_server.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/testing/api_fixture.h"

namespace ashlar::server {
namespace {

using testing::ByteTokenizer;
using testing::FixedScript;
using testing::kHello;
using testing::kSeeded;
using testing::OpenAiServerTest;
using testing::RenderRoles;

// --- Routes ---

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

// --- Whole answers ---

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

// --- Stopping ---

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

// --- Streams ---

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

}  // namespace
}  // namespace ashlar::server
