// Guessing ahead changes how long an answer takes, and nothing of it.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

// A phrase over and over, so that there is something to guess from, with tokens of its own.
std::vector<TokenId> Repeating(std::size_t tokens, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> phrase(3 + random() % 5);
  for (TokenId& token : phrase) token = static_cast<TokenId>(random() % 250);
  std::vector<TokenId> text(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    text[i] = random() % 12 == 0 ? static_cast<TokenId>(random() % 250) : phrase[i % phrase.size()];
  }
  return text;
}

std::vector<GenerationRequest> Requests() {
  std::vector<GenerationRequest> requests;
  requests.reserve(8);
  for (std::uint32_t i = 0; i < 8; ++i) {
    requests.push_back({.prompt = Repeating(20 + 17 * i, i),
                        .sampling = {.temperature = i % 3 == 2 ? 0.7 : 0.0,
                                     .repetition_penalty = i == 4 ? 1.1 : 1.0,
                                     .seed = i},
                        .max_tokens = 40 + 11 * i,
                        .top_logprobs = 3,
                        .prompt_logprobs = i == 1});
  }
  // One that ends at a token that plain generation gives half way.
  TinyEngine engine;
  const auto sink = std::make_shared<RecordingSink>();
  engine->Submit(RequestId(1), requests[6], sink, 0);
  while (engine->Step()) {
  }
  requests[6].stop_tokens = {sink->tokens[sink->tokens.size() / 2]};
  return requests;
}

std::vector<std::shared_ptr<RecordingSink>> RunTogether(
    Engine& engine, const std::vector<GenerationRequest>& requests) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  sinks.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    engine.Submit(RequestId(i), requests[i], sinks.back(), 0);
  }
  while (engine.Step()) engine.cache().CheckInvariants();
  EXPECT_EQ(engine.cache().live_bytes(), 0u);
  return sinks;
}

void ExpectSame(const RecordingSink& got, const RecordingSink& want) {
  EXPECT_EQ(got.reason, want.reason) << got.error;
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.usage.completion_tokens, want.usage.completion_tokens);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (std::size_t t = 0; t < want.logprobs.size(); ++t) {
    EXPECT_EQ(got.logprobs[t].logprob, want.logprobs[t].logprob);
    EXPECT_EQ(got.logprobs[t].top, want.logprobs[t].top);
  }
  EXPECT_EQ(got.prompt_logprobs.size(), want.prompt_logprobs.size());
}

class Speculation : public testing::TestWithParam<std::string> {};

TEST_P(Speculation, GivesTheTokensAndLogprobsOfPlainGeneration) {
  const std::vector<GenerationRequest> requests = Requests();
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(GetParam());
  TinyEngine plain(options);
  const auto want = RunTogether(*plain, requests);
  for (const std::uint32_t max_guesses : {1u, 5u, 20u}) {
    options.max_guesses = max_guesses;
    TinyEngine engine(options, /*threads=*/2);
    const auto got = RunTogether(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSame(*got[i], *want[i]);
    }
    const ServiceStats stats = engine->stats();
    EXPECT_GT(stats.accepted_tokens, 20u);
    EXPECT_LT(stats.accepted_tokens, stats.guessed_tokens);  // some were wrong
    EXPECT_LT(stats.steps, plain->stats().steps);
  }
}

TEST_P(Speculation, ChangesNothingWhenSequencesArePreempted) {
  const std::vector<GenerationRequest> requests = Requests();
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(GetParam());
  TinyEngine plain(options);
  const auto want = RunTogether(*plain, requests);
  options.max_guesses = 5;
  options.headroom_tokens = 1;
  // Room for two or three of the eight.
  TinyEngine probe(options);
  const std::uint64_t token_bytes = probe->info().kv_bytes_per_token;
  options.kv_memory_bytes = 700 * token_bytes + (256 << 10);
  std::uint64_t preemptions = 0;
  for (const std::uint64_t less : {0, 60, 120}) {
    EngineOptions tight = options;
    tight.kv_memory_bytes = (700 - less) * token_bytes;
    TinyEngine engine(tight);
    bool fits = true;
    for (const GenerationRequest& request : requests) fits = fits && engine->Check(request).ok();
    if (!fits) continue;
    const auto got = RunTogether(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSame(*got[i], *want[i]);
    }
    preemptions += engine->stats().preemptions;
  }
  EXPECT_GT(preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Speculation,
                         testing::Values("f16", "k=hq8,v=q8", "k=hq4,v=hq4,edge=1@hq8"),
                         [](const auto& param_info) {
                           return "codec" + std::to_string(param_info.index);
                         });

}  // namespace
}  // namespace ashlar::engine
