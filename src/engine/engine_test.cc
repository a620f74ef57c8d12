#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/testing/tiny_engine.h"
#include "kernels/kernel_set.h"
#include "model/sampler.h"

namespace ashlar::engine {
namespace {

std::vector<TokenId> Prompt(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % model::kTinyVocab);
  return tokens;
}

// Submits and steps until the engine is idle.
std::shared_ptr<RecordingSink> RunAlone(Engine& engine, const GenerationRequest& request) {
  EXPECT_TRUE(engine.Check(request).ok());
  auto sink = std::make_shared<RecordingSink>();
  engine.Submit(RequestId(1), request, sink, 0);
  while (engine.Step()) {
  }
  EXPECT_EQ(sink->finishes, 1);
  EXPECT_FALSE(engine.has_work());
  return sink;
}

TEST(Engine, GeneratesUntilTheLimitAndReturnsEveryBlock) {
  TinyEngine engine;
  const auto sink =
      RunAlone(*engine, {.prompt = Prompt(40, 1), .sampling = {.temperature = 0}, .max_tokens = 9});
  EXPECT_EQ(sink->tokens.size(), 9u);
  EXPECT_EQ(sink->reason, FinishReason::kLength);
  EXPECT_EQ(sink->usage.prompt_tokens, 40u);
  EXPECT_EQ(sink->usage.completion_tokens, 9u);
  // 40 + 8 stored tokens (the last one's K and V are never needed): exactly 3 blocks of 16.
  EXPECT_EQ(sink->usage.kv_bytes, 3 * engine->cache().layout().group(0).block_bytes());
  EXPECT_EQ(engine->cache().live_bytes(), 0u);
  EXPECT_EQ(engine->cache().idle_bytes(), sink->usage.kv_bytes);  // kept for prompts to come
  engine->cache().CheckInvariants();
}

TEST(Engine, StopTokensEndTheSequenceAndAreReported) {
  TinyEngine engine;
  GenerationRequest request = {
      .prompt = Prompt(5, 2), .sampling = {.temperature = 0}, .max_tokens = 20};
  const auto free_run = RunAlone(*engine, request);
  request.stop_tokens = {free_run->tokens[3]};
  const auto sink = RunAlone(*engine, request);
  const auto first =
      std::find(free_run->tokens.begin(), free_run->tokens.end(), free_run->tokens[3]);
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(free_run->tokens.begin(), first + 1));
  EXPECT_EQ(sink->reason, FinishReason::kStop);
}

TEST(Engine, MaxTokensZeroOnlyComputesThePrompt) {
  TinyEngine engine;
  const auto sink = RunAlone(
      *engine,
      {.prompt = Prompt(20, 3), .max_tokens = 0, .top_logprobs = 2, .prompt_logprobs = true});
  EXPECT_TRUE(sink->tokens.empty());
  EXPECT_EQ(sink->reason, FinishReason::kLength);
  EXPECT_EQ(sink->prompt_logprobs.size(), 19u);
}

TEST(Engine, ReportsLogitsOfEveryPositionOnceAndInOrder) {
  TinyEngine engine;
  for (const std::uint64_t max_tokens : {0u, 1u, 6u}) {
    const auto sink = RunAlone(*engine, {.prompt = Prompt(37, 4),
                                         .sampling = {.temperature = 0},
                                         .max_tokens = max_tokens,
                                         .report_logits = LogitReport::kAll});
    ASSERT_EQ(sink->logits.size(), 37 + max_tokens);
    for (std::size_t i = 0; i < sink->positions.size(); ++i) ASSERT_EQ(sink->positions[i], i);
    for (std::size_t i = 0; i < max_tokens; ++i) {
      EXPECT_EQ(sink->tokens[i],
                model::ArgMax(kernels::KernelsFor(kernels::BestIsa()), sink->logits[36 + i]));
    }
  }
}

TEST(Engine, LogprobsAgreeWithTheLogits) {
  TinyEngine engine;
  const std::vector<TokenId> prompt = Prompt(18, 5);
  const auto sink = RunAlone(*engine, {.prompt = prompt,
                                       .sampling = {.temperature = 0},
                                       .max_tokens = 3,
                                       .top_logprobs = 4,
                                       .prompt_logprobs = true,
                                       .report_logits = LogitReport::kAll});
  ASSERT_EQ(sink->prompt_logprobs.size(), 17u);
  for (std::size_t i = 0; i < 17; ++i) {
    EXPECT_EQ(sink->prompt_logprobs[i].token, prompt[i + 1]);
    const auto& row = sink->logits[i];
    EXPECT_FLOAT_EQ(
        sink->prompt_logprobs[i].logprob,
        static_cast<float>(row[static_cast<std::size_t>(prompt[i + 1])] -
                           model::LogSumExp(kernels::KernelsFor(kernels::BestIsa()), row)));
  }
  ASSERT_EQ(sink->logprobs.size(), 3u);
  for (const TokenLogprobs& logprobs : sink->logprobs) {
    ASSERT_EQ(logprobs.top.size(), 4u);
    EXPECT_EQ(logprobs.top[0].first, logprobs.token);  // greedy
    EXPECT_EQ(logprobs.top[0].second, logprobs.logprob);
  }
}

// Continuous batching: many requests at once, each as if alone, whatever the limits and threads.
TEST(Engine, ARequestGetsTheSameTokensAndLogitsInAnyCompany) {
  std::vector<GenerationRequest> requests;
  requests.reserve(12);
  for (std::uint32_t i = 0; i < 12; ++i) {
    requests.push_back({.prompt = Prompt(1 + 17 * i, 50 + i),
                        .sampling = {.temperature = i % 2 == 0 ? 0.0 : 0.9,
                                     .top_p = 0.95,
                                     .frequency_penalty = i % 3 == 0 ? 0.5 : 0.0,
                                     .seed = i},
                        .max_tokens = 5 + 3 * i,
                        .report_logits = LogitReport::kAll});
  }
  std::vector<std::shared_ptr<RecordingSink>> alone;
  for (const GenerationRequest& request : requests) {
    TinyEngine engine;
    alone.push_back(RunAlone(*engine, request));
  }
  for (const std::uint32_t chunk : {1u, 7u, 64u}) {
    EngineOptions options = TinyEngine::DefaultOptions();
    options.limits.prefill_chunk = chunk;
    options.kv_memory_bytes = 300'000;  // not enough for all: some wait for others to end
    TinyEngine engine(options, /*threads=*/2);
    std::vector<std::shared_ptr<RecordingSink>> together;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(engine->Check(requests[i]).ok());
      together.push_back(std::make_shared<RecordingSink>());
      engine->Submit(RequestId(i), requests[i], together.back(), 0);
    }
    std::uint64_t most_running = 0;
    while (engine->Step()) {
      most_running = std::max(most_running, engine->stats().running);
      engine->cache().CheckInvariants();
    }
    EXPECT_GT(most_running, 1u);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(together[i]->tokens, alone[i]->tokens) << i;
      EXPECT_EQ(together[i]->logits, alone[i]->logits) << i;
    }
    EXPECT_EQ(engine->cache().live_bytes(), 0u);
  }
}

// Principle 2, for the prefix cache: the same bits whether a prompt's beginning was computed or
// found, also beside others; and every distinct prompt token is computed once.
TEST(Engine, SharedPromptsAreComputedOnceAndGiveTheSameLogits) {
  const std::vector<TokenId> system = Prompt(100, 7);
  std::vector<GenerationRequest> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    GenerationRequest request = {.prompt = system,
                                 .sampling = {.temperature = 0.7, .seed = i},
                                 .max_tokens = 6,
                                 .top_logprobs = 5};
    const std::vector<TokenId> own = Prompt(16 + 9 * i, 70 + i);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    requests.push_back(std::move(request));
  }
  std::vector<std::shared_ptr<RecordingSink>> cold;
  for (const GenerationRequest& request : requests) {
    EngineOptions options = TinyEngine::DefaultOptions();
    options.reuse = kv::Reuse::kOff;
    TinyEngine engine(options);
    cold.push_back(RunAlone(*engine, request));
    EXPECT_EQ(cold.back()->usage.cached_tokens, 0u);
    EXPECT_EQ(engine->cache().idle_bytes(), 0u);
  }
  for (const std::uint32_t chunk : {7u, 64u}) {
    EngineOptions options = TinyEngine::DefaultOptions();
    options.limits.prefill_chunk = chunk;
    TinyEngine engine(options, /*threads=*/2);
    std::vector<std::shared_ptr<RecordingSink>> warm;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      warm.push_back(std::make_shared<RecordingSink>());
      engine->Submit(RequestId(i), requests[i], warm.back(), 0);
    }
    while (engine->Step()) engine->cache().CheckInvariants();
    std::uint64_t computed = 0;
    std::uint64_t distinct = system.size();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      computed += requests[i].prompt.size() - warm[i]->usage.cached_tokens;
      distinct += requests[i].prompt.size() - system.size();
      EXPECT_EQ(warm[i]->tokens, cold[i]->tokens) << i;
      for (std::size_t t = 0; t < cold[i]->logprobs.size(); ++t) {
        EXPECT_EQ(warm[i]->logprobs[t].top, cold[i]->logprobs[t].top) << i << " " << t;
      }
    }
    // The part of a block at the end of the common prefix is found once that block is full: with
    // large chunks that is in the step that completes the prefix, with small ones a little later.
    if (chunk == 64) {
      EXPECT_EQ(computed, distinct);
    } else {
      EXPECT_LE(computed, distinct + (requests.size() - 1) * (system.size() % 16));
    }
  }
}

TEST(Engine, AWholePromptThatIsKnownComputesOneToken) {
  TinyEngine engine;
  for (const std::size_t size : {15u, 16u, 32u, 40u}) {
    const GenerationRequest request = {
        .prompt = Prompt(size, 3), .sampling = {.temperature = 0}, .max_tokens = 4};
    const auto cold = RunAlone(*engine, request);
    const auto warm = RunAlone(*engine, request);
    EXPECT_EQ(warm->usage.cached_tokens, size - 1);
    EXPECT_EQ(warm->tokens, cold->tokens);
  }
}

TEST(Engine, GeneratedTextIsReusedByTheNextTurn) {
  TinyEngine engine;
  GenerationRequest request = {
      .prompt = Prompt(30, 8), .sampling = {.temperature = 0}, .max_tokens = 21};
  const auto first = RunAlone(*engine, request);
  request.prompt.insert(request.prompt.end(), first->tokens.begin(), first->tokens.end());
  const std::vector<TokenId> next = Prompt(5, 9);
  request.prompt.insert(request.prompt.end(), next.begin(), next.end());
  // All but the last generated token, whose K and V were never needed.
  EXPECT_EQ(RunAlone(*engine, request)->usage.cached_tokens, 50u);
}

TEST(Engine, SaltsShareNothing) {
  TinyEngine engine;
  GenerationRequest request = {
      .prompt = Prompt(64, 10), .sampling = {.temperature = 0}, .max_tokens = 2};
  RunAlone(*engine, request);
  request.cache_salt = "tenant";
  EXPECT_EQ(RunAlone(*engine, request)->usage.cached_tokens, 0u);
  EXPECT_EQ(RunAlone(*engine, request)->usage.cached_tokens, 63u);
}

TEST(Engine, CancelFreesEverythingWaitingOrRunning) {
  TinyEngine engine;
  auto running = std::make_shared<RecordingSink>();
  auto waiting = std::make_shared<RecordingSink>();
  engine->Submit(RequestId(1), {.prompt = Prompt(30, 1), .max_tokens = 100}, running, 0);
  for (int i = 0; i < 5; ++i) engine->Step();
  engine->Submit(RequestId(2), {.prompt = Prompt(30, 2), .max_tokens = 100}, waiting, 0);
  EXPECT_GT(engine->stats().kv_bytes_used, 0u);
  EXPECT_TRUE(engine->Cancel(RequestId(1)));
  EXPECT_TRUE(engine->Cancel(RequestId(2)));
  EXPECT_FALSE(engine->Cancel(RequestId(2)));
  EXPECT_FALSE(engine->Step());
  EXPECT_EQ(running->reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->reason, FinishReason::kCancelled);
  EXPECT_GT(running->usage.completion_tokens, 0u);
  EXPECT_EQ(engine->cache().live_bytes(), 0u);
  EXPECT_EQ(engine->cache().core().pool.promised(0), 0u);
}

TEST(Engine, LogitsThatAreNotFiniteAreAnErrorNotAToken) {
  gguf::GgufWriter writer = model::MakeTinyModel(TinyEngineModel());
  writer.AddTensorRaw(
      {.name = "output.bias",
       .dims = {model::kTinyVocab},
       .type_code = 0,                                                            // F32
       .data = std::vector<std::byte>(4 * model::kTinyVocab, std::byte{0xFF})});  // NaN
  const std::vector<std::byte> bytes = writer.Build();
  const auto file = gguf::ModelFile::Parse(bytes, "tiny");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ThreadPool pool(1);
  const SteadyClock clock;
  const auto model = model::Model::Load(*file, pool, nullptr);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto engine = Engine::Create(**model, kernels::KernelsFor(kernels::BestIsa()), pool, clock,
                                     TinyEngine::DefaultOptions());
  const auto sink = RunAlone(**engine, {.prompt = {1, 2, 3}, .max_tokens = 5});
  EXPECT_EQ(sink->reason, FinishReason::kError);
  EXPECT_NE(sink->error.find("finite"), std::string::npos);
  EXPECT_TRUE(sink->tokens.empty());
  EXPECT_EQ((*engine)->cache().live_bytes(), 0u);
}

TEST(Engine, RefusesWhatCanNeverRunWithTheArithmetic) {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_memory_bytes =
      5 * 8192;  // a block is 2 layers * 2 heads * 8 * 16 * 2 * 2 bytes = 2 KiB
  TinyEngine engine(options);
  const std::uint64_t block = engine->cache().layout().group(0).block_bytes();
  const std::uint64_t slots = engine->cache().memory_bytes() / block * 16;
  const auto message = [&](const GenerationRequest& request) {
    const Status status = engine->Check(request);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message({.prompt = Prompt(10, 1), .max_tokens = slots - 9}), "");
  const std::string too_big = message({.prompt = Prompt(10, 1), .max_tokens = slots - 8});
  EXPECT_NE(too_big.find(std::to_string((slots / 16 + 1) * block)), std::string::npos) << too_big;
  EXPECT_NE(message({.prompt = {}}).find("no tokens"), std::string::npos);
  EXPECT_NE(message({.prompt = {0, 259}}).find("259"), std::string::npos);
  EXPECT_NE(message({.prompt = {-1}}).find("-1"), std::string::npos);
  EXPECT_NE(message({.prompt = Prompt(500, 1), .max_tokens = 13}).find("500 prompt tokens and 13"),
            std::string::npos);
  EXPECT_NE(message({.prompt = Prompt(1, 1), .max_tokens = ~0ull}).find("context"),
            std::string::npos);
  EXPECT_NE(message({.prompt = {1}, .sampling = {.temperature = -1}}).find("temperature"),
            std::string::npos);
  EXPECT_NE(message({.prompt = {1}, .top_logprobs = 129}).find("129"), std::string::npos);
  EXPECT_NE(message({.prompt = {1}, .prompt_logprobs = true}), "");
}

}  // namespace
}  // namespace ashlar::engine
