// Texts longer than the context: refused, or cut and told.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

const model::SamplingParams kGreedy = {.temperature = 0.0};

std::vector<TokenId> Prompt(std::size_t tokens) {
  std::mt19937 random(9);
  std::vector<TokenId> prompt(tokens);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 250);
  return prompt;
}

std::shared_ptr<RecordingSink> RunOne(Engine& engine, const GenerationRequest& request) {
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_TRUE(engine.Check(request).ok()) << engine.Check(request).error().message;
  engine.Submit(RequestId(1), request, sink, 0);
  while (engine.Step()) engine.cache().CheckInvariants();
  EXPECT_EQ(engine.cache().live_bytes(), 0u);
  return sink;
}

EngineOptions SmallContext() {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.max_context = 64;
  return options;
}

// What a stream is, done by hand: plain requests, each on the text as it was cut.
struct HandMade {
  std::vector<TokenId> generated;
  std::uint64_t cuts = 0;
};

HandMade ByHand(std::vector<TokenId> text, std::size_t tokens, std::size_t sinks,
                std::size_t window) {
  constexpr std::size_t kStored = 63;
  HandMade made;
  std::vector<TokenId>& generated = made.generated;
  while (generated.size() < tokens) {
    if (text.size() > kStored) {
      ++made.cuts;
      text.erase(text.begin() + static_cast<std::ptrdiff_t>(sinks),
                 text.end() - static_cast<std::ptrdiff_t>(window));
    }
    TinyEngine engine(SmallContext());
    const std::size_t count = std::min(tokens - generated.size(), kStored + 1 - text.size());
    const auto sink = RunOne(*engine, {.prompt = text, .sampling = kGreedy, .max_tokens = count});
    generated.insert(generated.end(), sink->tokens.begin(), sink->tokens.end());
    text.insert(text.end(), sink->tokens.begin(), sink->tokens.end());
  }
  return made;
}

TEST(ContextStream, IsThePlainTextAsItWasCut) {
  for (const std::size_t prompt : {10u, 63u, 64u, 200u}) {
    TinyEngine engine(SmallContext());
    const auto sink = RunOne(*engine, {.prompt = Prompt(prompt),
                                       .sampling = kGreedy,
                                       .max_tokens = 150,
                                       .stream = ContextStream{.sinks = 4, .window = 20}});
    EXPECT_EQ(sink->reason, FinishReason::kLength);
    const HandMade want = ByHand(Prompt(prompt), 150, 4, 20);
    EXPECT_EQ(sink->tokens, want.generated) << prompt;
    EXPECT_EQ(sink->usage.prompt_tokens, prompt);
    EXPECT_EQ(sink->usage.completion_tokens, 150u);
    EXPECT_GT(sink->usage.dropped_tokens, 0u);
    EXPECT_EQ(engine->stats().context_cuts, want.cuts) << prompt;
  }
}

TEST(ContextStream, AShortTextIsNotCut) {
  TinyEngine engine(SmallContext());
  const auto streamed = RunOne(
      *engine,
      {.prompt = Prompt(20), .sampling = kGreedy, .max_tokens = 44, .stream = ContextStream{}});
  EXPECT_EQ(streamed->usage.dropped_tokens, 0u);
  EXPECT_EQ(streamed->tokens,
            RunOne(*engine, {.prompt = Prompt(20), .sampling = kGreedy, .max_tokens = 44})->tokens);
}

TEST(ContextStream, GoesOnInACodecAndWithGuesses) {
  EngineOptions options = SmallContext();
  options.kv_codec = *model::ParseKvCodecSpec("q8");
  TinyEngine plain(options);
  const GenerationRequest request = {.prompt = Prompt(30),
                                     .sampling = kGreedy,
                                     .max_tokens = 200,
                                     .stream = ContextStream{.sinks = 2, .window = 30}};
  const auto want = RunOne(*plain, request);
  options.max_guesses = 6;
  TinyEngine engine(options);
  EXPECT_EQ(RunOne(*engine, request)->tokens, want->tokens);
  EXPECT_GT(engine->stats().accepted_tokens, 0u);
}

TEST(ContextStream, WhatCannotBeCutIsRefusedWithTheNumbers) {
  TinyEngine engine(SmallContext());
  GenerationRequest request = {.prompt = Prompt(60), .max_tokens = 100};
  EXPECT_NE(engine->Check(request).error().message.find("60 prompt tokens and 100"),
            std::string::npos);
  request.stream = ContextStream{.sinks = 4, .window = 60};
  EXPECT_NE(engine->Check(request).error().message.find("4 first and 60 last"), std::string::npos);
  request.stream = ContextStream{.sinks = ~std::uint64_t{0}, .window = 1};
  EXPECT_FALSE(engine->Check(request).ok());
  request.stream = ContextStream{};
  EXPECT_TRUE(engine->Check(request).ok());
  request.report_logits = LogitReport::kAll;
  EXPECT_FALSE(engine->Check(request).ok());
}

}  // namespace
}  // namespace ashlar::engine
