#include "server/request_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {
namespace {

const RequestLimits kLimits{.vocab_size = 100};

template <typename Parser>
auto Parse(Parser parser, std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << text;
  return parser(*json, kLimits);
}

CompletionRequest Completion(std::string_view text) {
  auto request = Parse(ParseCompletionRequest, text);
  EXPECT_TRUE(request.ok()) << text << ": " << (request.ok() ? "" : request.error().message);
  return request.ok() ? *std::move(request) : CompletionRequest{};
}

ChatRequest Chat(std::string_view text) {
  auto request = Parse(ParseChatRequest, text);
  EXPECT_TRUE(request.ok()) << text << ": " << (request.ok() ? "" : request.error().message);
  return request.ok() ? *std::move(request) : ChatRequest{};
}

// The param of the error, "" when there is none.
std::string WrongIn(std::string_view text, bool is_chat) {
  const auto check = [](const auto& request) {
    if (request.ok()) {
      return std::string();
    }
    EXPECT_EQ(request.error().status, 400);
    // A message names its field.
    EXPECT_NE(request.error().message.find("'" + request.error().param), std::string::npos)
        << request.error().message;
    return request.error().param;
  };
  return is_chat ? check(Parse(ParseChatRequest, text))
                 : check(Parse(ParseCompletionRequest, text));
}

std::string WithPrompt(std::string_view fields) {
  return R"({"prompt":"p",)" + std::string(fields) + "}";
}

std::string WithMessages(std::string_view fields) {
  return R"({"messages":[{"role":"user","content":"p"}],)" + std::string(fields) + "}";
}

TEST(ParseCompletionRequest, TakesTheFourFormsOfAPrompt) {
  EXPECT_EQ(std::get<std::string>(Completion(R"({"prompt":"a"})").prompts.at(0)), "a");
  EXPECT_EQ(Completion(R"({"prompt":["a","b"]})").prompts.size(), 2u);
  const auto ids = Completion(R"({"prompt":[1,2.0,3]})").prompts;
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(ids[0]), (std::vector<TokenId>{1, 2, 3}));
  const auto lists = Completion(R"({"prompt":[[1],[2,3]]})").prompts;
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(lists[1]), (std::vector<TokenId>{2, 3}));
}

TEST(ParseCompletionRequest, HasOpenAisDefaults) {
  const CompletionRequest request = Completion(R"({"prompt":"p","n":null,"stop":null})");
  EXPECT_EQ(request.options.max_tokens, 16u);
  EXPECT_EQ(request.options.sampling.temperature, 1.0);
  EXPECT_EQ(request.options.n, 1u);
  EXPECT_EQ(request.options.best_of, 1u);
  EXPECT_FALSE(request.options.top_logprobs.has_value());
  EXPECT_FALSE(request.options.seed.has_value());
  EXPECT_FALSE(request.options.stream);
  EXPECT_FALSE(request.echo);
}

TEST(ParseCompletionRequest, ReadsEveryField) {
  const CompletionRequest request = Completion(WithPrompt(
      R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":-1,"min_p":0.1,"repetition_penalty":1.1,)"
      R"("presence_penalty":-1,"frequency_penalty":2,"logit_bias":{"7":-100,"3":5.5},"seed":-1,)"
      R"("max_tokens":0,"n":2,"best_of":3,"stop":["x","yy"],"stop_token_ids":[5],"logprobs":4,)"
      R"("include_stop_str_in_output":true,"ignore_eos":true,"echo":true,"add_special_tokens":false,)"
      R"("skip_special_tokens":false,"user":"u","cache_salt":"s","priority":-3,"timeout":2.5,"suffix":"",)"
      R"("use_beam_search":false,"repeat_penalty":1.0,"mirostat":0,"odd":{})"));
  const GenerationOptions& options = request.options;
  EXPECT_EQ(options.model, "m");
  EXPECT_EQ(options.sampling.temperature, 0.5);
  EXPECT_EQ(options.sampling.top_p, 0.9);
  EXPECT_EQ(options.sampling.top_k, 0u);
  EXPECT_EQ(options.sampling.min_p, 0.1);
  EXPECT_EQ(options.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(options.sampling.presence_penalty, -1);
  EXPECT_EQ(options.sampling.frequency_penalty, 2);
  const std::vector<std::pair<TokenId, float>> bias = {{3, 5.5F}, {7, -100.0F}};
  EXPECT_EQ(options.sampling.logit_bias, bias);
  EXPECT_EQ(options.seed, ~std::uint64_t{0});
  EXPECT_EQ(options.max_tokens, 0u);
  EXPECT_EQ(options.n, 2u);
  EXPECT_EQ(options.best_of, 3u);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(options.stop_token_ids, (std::vector<TokenId>{5}));
  EXPECT_EQ(options.top_logprobs, 4u);
  EXPECT_TRUE(options.include_stop_str_in_output);
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_FALSE(options.skip_special_tokens);
  EXPECT_EQ(options.user, "u");
  EXPECT_EQ(options.cache_salt, "s");
  EXPECT_EQ(options.priority, -3);
  EXPECT_EQ(options.timeout_s, 2.5);
  EXPECT_FALSE(options.use_beam_search);
  EXPECT_TRUE(request.echo);
  EXPECT_FALSE(request.add_special_tokens);
}

TEST(ParseCompletionRequest, NamesTheFieldThatIsWrong) {
  struct Case {
    std::string_view param;
    std::string_view fields;
  };
  const std::vector<Case> cases = {
      {"temperature", R"("temperature":"hot")"},
      {"temperature", R"("temperature":-0.1)"},
      {"temperature", R"("temperature":100.5)"},
      {"top_p", R"("top_p":0)"},
      {"top_p", R"("top_p":1.1)"},
      {"top_k", R"("top_k":-2)"},
      {"top_k", R"("top_k":4294967296)"},
      {"min_p", R"("min_p":2)"},
      {"repetition_penalty", R"("repetition_penalty":0)"},
      {"repetition_penalty", R"("repetition_penalty":0.009)"},
      {"repeat_penalty", R"("repeat_penalty":1.8)"},
      {"mirostat", R"("mirostat":2)"},
      {"dry_multiplier", R"("dry_multiplier":0.8)"},
      {"presence_penalty", R"("presence_penalty":2.5)"},
      {"frequency_penalty", R"("frequency_penalty":[1])"},
      {"seed", R"("seed":1.5)"},
      {"seed", R"("seed":1e30)"},
      {"n", R"("n":0)"},
      {"n", R"("n":129)"},
      {"n", R"("n":true)"},
      {"best_of", R"("n":3,"best_of":2)"},
      {"best_of", R"("best_of":2,"stream":true)"},
      {"max_tokens", R"("max_tokens":-1)"},
      {"max_tokens", R"("max_tokens":18446744073709551616)"},
      {"logprobs", R"("logprobs":21)"},
      {"logprobs", R"("logprobs":true)"},
      {"stop", R"("stop":"")"},
      {"stop", R"("stop":[1])"},
      {"stop", R"("stop":{})"},
      {"stop_token_ids", R"("stop_token_ids":7)"},
      {"stop_token_ids[1]", R"("stop_token_ids":[1,100])"},
      {"logit_bias", R"("logit_bias":[])"},
      {"logit_bias", R"("logit_bias":{"x":1})"},
      {"logit_bias", R"("logit_bias":{"100":1})"},
      {"logit_bias", R"("logit_bias":{"1":101})"},
      {"logit_bias", R"("logit_bias":{"1":1,"01":2})"},
      {"stream", R"("stream":"yes")"},
      {"stream_options", R"("stream_options":{"include_usage":true})"},
      {"stream_options.include_usage", R"("stream":true,"stream_options":{"include_usage":1})"},
      {"echo", R"("echo":1)"},
      {"model", R"("model":5)"},
      {"suffix", R"("suffix":"and then")"},
      {"response_format", R"("response_format":{"type":"json_schema"})"},
      {"guided_regex", R"("guided_regex":"a+")"},
      {"audio", R"("audio":{"voice":"x"})"},
      {"truncate_prompt_tokens", R"("truncate_prompt_tokens":5)"},
      {"max_completion_tokens", R"("max_completion_tokens":5)"},
      {"top_logprobs", R"("logprobs":1,"top_logprobs":5)"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(WrongIn(WithPrompt(c.fields), false), c.param) << c.fields;
  }
  for (const std::string_view prompt : {"null", "{}", "5", "[]", "true"}) {
    EXPECT_EQ(WrongIn(R"({"prompt":)" + std::string(prompt) + "}", false), "prompt") << prompt;
  }
  EXPECT_EQ(WrongIn(R"({"prompt":[1,-1]})", false), "prompt[1]");
  EXPECT_EQ(WrongIn(R"({"prompt":[1,"a"]})", false), "prompt[1]");
  EXPECT_EQ(WrongIn(R"({"prompt":["a",1]})", false), "prompt[1]");
  EXPECT_EQ(WrongIn(R"({"prompt":[[1],[]]})", false), "prompt[1]");
  EXPECT_EQ(WrongIn(R"({"prompt":[[1],[100]]})", false), "prompt[1]");
}

TEST(ParseCompletionRequest, NamesTheFieldOfServiceOrSearchThatIsWrong) {
  struct Case {
    std::string_view param;
    std::string_view fields;
  };
  const std::vector<Case> cases = {
      {"user", R"("user":5)"},
      {"cache_salt", R"("cache_salt":5)"},
      {"priority", R"("priority":"high")"},
      {"priority", R"("priority":1000001)"},
      {"priority", R"("priority":-1000001)"},
      {"timeout", R"("timeout":0)"},
      {"timeout", R"("timeout":-1)"},
      {"timeout", R"("timeout":86401)"},
      {"timeout", R"("timeout":"1s")"},
      {"min_tokens", R"("min_tokens":-1)"},
      {"use_beam_search", R"("use_beam_search":1)"},
      {"beam_width", R"("beam_width":4)"},
      {"length_penalty", R"("length_penalty":1)"},
      {"beam_width", R"("use_beam_search":true,"n":3,"beam_width":2)"},
      {"beam_width", R"("use_beam_search":true,"beam_width":129)"},
      {"length_penalty", R"("use_beam_search":true,"length_penalty":11)"},
      {"stream", R"("use_beam_search":true,"stream":true)"},
      {"beam_width", R"("use_beam_search":true,"beam_width":65)"},
      {"n", R"("use_beam_search":true,"n":65)"},
      {"best_of", R"("use_beam_search":true,"beam_width":4,"best_of":2)"},
      {"max_tokens", R"("use_beam_search":true,"max_tokens":0)"},
      {"context_overflow", R"("use_beam_search":true,"context_overflow":"stream")"},
      {"echo", R"("echo":true,"logprobs":0,"context_overflow":"stream")"},
      {"use_beam_search", R"("use_beam_search":true,"presence_penalty":1)"},
      {"use_beam_search", R"("use_beam_search":true,"logit_bias":{"5":1})"},
      {"echo", R"("use_beam_search":true,"echo":true,"logprobs":1)"},
      {"context_overflow", R"("context_overflow":"truncate")"},
      {"context_overflow", R"("context_overflow":true)"},
      {"context_overflow", R"("context_overflow":"")"},
      {"context_sinks", R"("context_sinks":4)"},
      {"context_window", R"("context_overflow":"refuse","context_window":9)"},
      {"context_window", R"("context_overflow":"stream","context_window":0)"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(WrongIn(WithPrompt(c.fields), false), c.param) << c.fields;
  }
}

TEST(ParseCompletionRequest, TheBodyMustBeAnObject) {
  const auto request = Parse(ParseCompletionRequest, "[1]");
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message, "the request body must be an object, not an array");
}

TEST(ParseCompletionRequest, BoundsTheNumberOfFields) {
  Json body{{"prompt", "p"}};
  for (int i = 1; i < 1000; ++i) {
    body["x" + std::to_string(i)] = i;
  }
  EXPECT_TRUE(ParseCompletionRequest(body, kLimits).ok());
  body["one more"] = true;
  EXPECT_FALSE(ParseCompletionRequest(body, kLimits).ok());
}

TEST(ParseCompletionRequest, AcceptsTheLimitsAndNothingAbove) {
  EXPECT_EQ(WrongIn(WithPrompt(R"("n":128)"), false), "");
  EXPECT_EQ(WrongIn(WithPrompt(R"("logprobs":20)"), false), "");
  EXPECT_EQ(WrongIn(WithPrompt(R"("temperature":100,"top_p":1,"min_p":1)"), false), "");
  const auto stops = [](std::size_t count, std::size_t bytes) {
    Json body{{"prompt", "p"}, {"stop", std::vector<std::string>(count, std::string(bytes, 's'))}};
    return DumpJson(body);
  };
  EXPECT_EQ(WrongIn(stops(32, 1024), false), "");
  EXPECT_EQ(WrongIn(stops(33, 1), false), "stop");
  EXPECT_EQ(WrongIn(stops(1, 1025), false), "stop");
  EXPECT_EQ(WrongIn(WithPrompt(R"("priority":1000000,"timeout":86400)"), false), "");
  EXPECT_EQ(WrongIn(WithPrompt(R"("user":")" + std::string(256, 'u') + "\""), false), "");
  EXPECT_EQ(WrongIn(WithPrompt(R"("user":")" + std::string(257, 'u') + "\""), false), "user");
  EXPECT_EQ(WrongIn(WithPrompt(R"("cache_salt":")" + std::string(4096, 's') + "\""), false), "");
  EXPECT_EQ(WrongIn(WithPrompt(R"("cache_salt":")" + std::string(4097, 's') + "\""), false),
            "cache_salt");
  const auto prompts = [](std::size_t count, int n) {
    return DumpJson(Json{{"prompt", std::vector<std::string>(count, "p")}, {"n", n}});
  };
  EXPECT_EQ(WrongIn(prompts(1024, 1), false), "");
  EXPECT_EQ(WrongIn(prompts(1025, 1), false), "prompt");
  EXPECT_EQ(WrongIn(prompts(513, 2), false), "n");
}

TEST(ParseChatRequest, ReadsMessagesAndSettings) {
  const ChatRequest request = Chat(
      R"({"messages":[{"role":"developer","content":"be brief"},)"
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"x\": 1}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"2"},{"role":"assistant"}],)"
      R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",)"
      R"("chat_template_kwargs":{"enable_thinking":false},"max_tokens":5,"max_completion_tokens":7,)"
      R"("logprobs":true,"top_logprobs":20,"stream":true,"stream_options":{"include_usage":true},)"
      R"("response_format":{"type":"text"},"parallel_tool_calls":true,"store":false})");
  EXPECT_EQ(
      DumpJson(request.chat.messages),
      R"([{"role":"system","content":"be brief"},{"role":"user","content":"a\nb"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"2"},{"role":"assistant","content":""}])");
  EXPECT_EQ(request.chat.tools.size(), 1u);
  EXPECT_EQ(DumpJson(request.chat.template_kwargs), R"({"enable_thinking":false})");
  EXPECT_EQ(request.options.max_tokens, 7u);
  EXPECT_EQ(request.options.top_logprobs, 20u);
  EXPECT_TRUE(request.options.include_usage);
  EXPECT_TRUE(request.chat.add_generation_prompt);
}

TEST(ParseChatRequest, LeavesMaxTokensToTheContext) {
  EXPECT_FALSE(Chat(WithMessages(R"("n":1)")).options.max_tokens.has_value());
}

TEST(ParseChatRequest, LogprobsAreOfTheTokenAloneUnlessMoreAreAskedFor) {
  EXPECT_EQ(Chat(WithMessages(R"("logprobs":true)")).options.top_logprobs, 0u);
  EXPECT_FALSE(Chat(WithMessages(R"("logprobs":false)")).options.top_logprobs.has_value());
}

TEST(ParseChatRequest, ToolsNotToBeUsedDoNotReachTheTemplate) {
  const ChatRequest request =
      Chat(WithMessages(R"("tools":[{"type":"function","function":{}}],"tool_choice":"none")"));
  EXPECT_TRUE(request.chat.tools.is_null());
}

TEST(ParseChatRequest, NamesTheFieldThatIsWrong) {
  struct Case {
    std::string_view param;
    std::string_view fields;
  };
  const std::vector<Case> cases = {
      {"echo", R"("echo":true)"},
      {"best_of", R"("best_of":2)"},
      {"logprobs", R"("logprobs":5)"},
      {"top_logprobs", R"("logprobs":true,"top_logprobs":21)"},
      {"top_logprobs", R"("top_logprobs":2)"},
      {"max_tokens", R"("max_tokens":0)"},
      {"max_completion_tokens", R"("max_completion_tokens":0)"},
      {"tools", R"("tools":{})"},
      {"tools[0]", R"("tools":[5])"},
      {"tool_choice", R"("tool_choice":"required")"},
      {"tool_choice", R"("tool_choice":{"type":"function","function":{"name":"f"}})"},
      {"functions", R"("functions":[{"name":"f"}])"},
      {"response_format", R"("response_format":{"type":"json_object"})"},
      {"response_format", R"("response_format":5)"},
      {"modalities", R"("modalities":["text","audio"])"},
      {"chat_template", R"("chat_template":"{{ x }}")"},
      {"chat_template_kwargs", R"("chat_template_kwargs":[])"},
      {"chat_template_kwargs", R"("chat_template_kwargs":{"messages":[]})"},
      {"continue_final_message", R"("continue_final_message":true)"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(WrongIn(WithMessages(c.fields), true), c.param) << c.fields;
  }
  const std::vector<Case> messages = {
      {"messages", "null"},
      {"messages", "[]"},
      {"messages", "\"hi\""},
      {"messages[0]", "[5]"},
      {"messages[0].role", R"([{"content":"x"}])"},
      {"messages[0].role", R"([{"role":"wizard","content":"x"}])"},
      {"messages[1].content", R"([{"role":"user","content":"x"},{"role":"user"}])"},
      {"messages[0].content", R"([{"role":"user","content":5}])"},
      {"messages[0].content[0]", R"([{"role":"user","content":["x"]}])"},
      {"messages[0].content[1].type",
       R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{}}]}])"},
      {"messages[0].content[0].text", R"([{"role":"user","content":[{"type":"text"}]}])"},
  };
  for (const Case& c : messages) {
    EXPECT_EQ(WrongIn(R"({"messages":)" + std::string(c.fields) + "}", true), c.param) << c.fields;
  }
}

TEST(ParseTokenizeRequest, TakesAPromptOrMessages) {
  const auto prompt = Parse(ParseTokenizeRequest, R"({"prompt":"x","add_special_tokens":false})");
  ASSERT_TRUE(prompt.ok());
  EXPECT_FALSE(prompt->add_special_tokens);
  const auto chat =
      Parse(ParseTokenizeRequest,
            R"({"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false})");
  ASSERT_TRUE(chat.ok());
  EXPECT_FALSE(std::get<ChatPrompt>(chat->input).add_generation_prompt);
  EXPECT_FALSE(Parse(ParseTokenizeRequest, "{}").ok());
  EXPECT_FALSE(Parse(ParseTokenizeRequest, R"({"prompt":["x"]})").ok());
}

TEST(ParseDetokenizeRequest, TakesTokensOfTheVocabulary) {
  EXPECT_TRUE(Parse(ParseDetokenizeRequest, R"({"tokens":[0,99]})").ok());
  EXPECT_TRUE(Parse(ParseDetokenizeRequest, R"({"tokens":[]})").ok());
  EXPECT_FALSE(Parse(ParseDetokenizeRequest, R"({"tokens":[100]})").ok());
  EXPECT_FALSE(Parse(ParseDetokenizeRequest, "{}").ok());
}

}  // namespace
}  // namespace ashlar::server
