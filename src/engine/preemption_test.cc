// Memory on demand: whoever gave its memory up goes on as if nothing had been.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

std::vector<TokenId> Prompt(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 250);
  return tokens;
}

EngineOptions OptionsFor(const std::string& codec) {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(codec);
  options.headroom_tokens = 8;
  return options;
}

// Of everything a request may ask for.
std::vector<GenerationRequest> MixedRequests() {
  const std::vector<TokenId> common = Prompt(50, 1);
  std::vector<GenerationRequest> requests;
  requests.reserve(16);
  for (std::uint32_t i = 0; i < 16; ++i) {
    GenerationRequest request = {.prompt = Prompt(1 + 5 * i, 100 + i),
                                 .sampling = {.temperature = i % 2 == 0 ? 0.0 : 0.9,
                                              .frequency_penalty = i % 3 == 0 ? 0.5 : 0.0,
                                              .seed = i},
                                 .max_tokens = 60 + 7 * i};
    if (i % 2 == 0) request.prompt.insert(request.prompt.begin(), common.begin(), common.end());
    if (i % 4 == 1) {
      request.top_logprobs = 3;
      request.prompt_logprobs = i % 8 == 1;
    }
    if (i % 5 == 0) request.report_logits = LogitReport::kAll;
    if (i % 5 == 3) request.report_logits = LogitReport::kComputed;
    if (i % 4 == 2) {
      for (TokenId token = 0; token < 60; ++token) request.stop_tokens.push_back(token);
      request.min_tokens = 15 + i;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::uint64_t BytesOf(const GenerationRequest& request, const kv::KvCache& cache) {
  std::vector<std::uint64_t> blocks;
  cache.BlocksNeeded({.max_tokens = request.prompt.size() + request.max_tokens, .chunk = 64},
                     blocks);
  return cache.layout().BytesOf(blocks);
}

void ExpectSame(const RecordingSink& got, const RecordingSink& want) {
  EXPECT_EQ(got.finishes, 1);
  EXPECT_EQ(got.reason, want.reason);
  EXPECT_EQ(got.tokens, want.tokens);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (std::size_t i = 0; i < want.logprobs.size(); ++i) {
    EXPECT_EQ(got.logprobs[i].top, want.logprobs[i].top);
  }
  ASSERT_EQ(got.prompt_logprobs.size(), want.prompt_logprobs.size());
  for (std::size_t i = 0; i < want.prompt_logprobs.size(); ++i) {
    EXPECT_EQ(got.prompt_logprobs[i].token, want.prompt_logprobs[i].token);
    EXPECT_EQ(got.prompt_logprobs[i].top, want.prompt_logprobs[i].top);
  }
  // In company some positions may come from the cache, and are not reported then.
  ASSERT_LE(got.positions.size(), want.positions.size());
  const std::size_t cached = want.positions.size() - got.positions.size();
  for (std::size_t i = 0; i < got.positions.size(); ++i) {
    ASSERT_EQ(got.positions[i], want.positions[cached + i]);
    EXPECT_EQ(got.logits[i], want.logits[cached + i]);
  }
}

class Preemption : public testing::TestWithParam<std::string> {};

TEST_P(Preemption, ChangesNoAnswerInAQuarterOfTheMemory) {
  const std::vector<GenerationRequest> requests = MixedRequests();
  std::vector<std::shared_ptr<RecordingSink>> alone;
  std::uint64_t need = 0;
  std::uint64_t largest = 0;
  for (const GenerationRequest& request : requests) {
    EngineOptions options = OptionsFor(GetParam());
    options.reuse = kv::Reuse::kOff;
    TinyEngine engine(options);
    alone.push_back(std::make_shared<RecordingSink>());
    engine->Submit(RequestId(1), request, alone.back(), 0);
    while (engine->Step()) {
    }
    need += BytesOf(request, engine->cache());
    largest = std::max(largest, BytesOf(request, engine->cache()));
  }
  for (const kv::Reuse reuse : {kv::Reuse::kOn, kv::Reuse::kOff}) {
    EngineOptions options = OptionsFor(GetParam());
    options.reuse = reuse;
    options.kv_memory_bytes = std::max(need / 4, largest + largest / 4);
    ASSERT_LT(options.kv_memory_bytes, need / 3);
    TinyEngine engine(options, /*threads=*/2);
    std::vector<std::shared_ptr<RecordingSink>> together;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(engine->Check(requests[i]).ok());
      together.push_back(std::make_shared<RecordingSink>());
      engine->Submit(RequestId(i), requests[i], together.back(), 0);
    }
    while (engine->Step()) engine->cache().CheckInvariants();
    std::uint64_t preemptions = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSame(*together[i], *alone[i]);
      preemptions += together[i]->usage.preemptions;
    }
    EXPECT_GE(preemptions, 5u);
    EXPECT_EQ(engine->stats().preemptions, preemptions);
    EXPECT_GT(engine->stats().recomputed_tokens, 0u);
    EXPECT_EQ(engine->cache().live_bytes(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Preemption,
                         testing::Values("f16", "k=hq8,v=hq4,edge=1@hq8", "kc4"),
                         [](const auto& param_info) {
                           return "codec_" + std::to_string(param_info.index);
                         });

// Two sequences that fit one at a time: the second gives way when the first grows.
class TwoInAPinch : public testing::Test {
 protected:
  static constexpr std::uint64_t kGenerated = 150;

  TwoInAPinch() : engine_(Options()) {
    for (std::uint64_t id = 1; id <= 2; ++id) {
      sinks_.push_back(std::make_shared<RecordingSink>());
      engine_->Submit(RequestId(id), Request(id), sinks_.back(), 0);
    }
    while (engine_->stats().preemptions == 0) EXPECT_TRUE(engine_->Step());
    EXPECT_EQ(engine_->stats().running, 1u);
    EXPECT_EQ(engine_->stats().waiting, 1u);
  }

  static EngineOptions Options() {
    EngineOptions options = OptionsFor("f16");
    options.kv_memory_bytes = std::uint64_t{16} * 2048;  // 16 blocks of 16 tokens
    return options;
  }
  static GenerationRequest Request(std::uint64_t id) {
    return {.prompt = Prompt(40, static_cast<std::uint32_t>(id)),
            .sampling = {.temperature = 0.9, .seed = id},
            .max_tokens = kGenerated};
  }
  void RunAll() {
    while (engine_->Step()) engine_->cache().CheckInvariants();
  }

  TinyEngine engine_;
  std::vector<std::shared_ptr<RecordingSink>> sinks_;
};

TEST_F(TwoInAPinch, ThePreemptedOneResumesFromWhatIsLeft) {
  RunAll();
  EXPECT_EQ(sinks_[0]->usage.preemptions, 0u);
  EXPECT_EQ(sinks_[1]->usage.preemptions, 1u);
  EXPECT_EQ(sinks_[1]->tokens.size(), kGenerated);
  const std::uint64_t recomputed = sinks_[1]->usage.recomputed_tokens;
  EXPECT_GT(recomputed, 0u);
  EXPECT_LT(recomputed, 16u * 16 / 2);
  const ServiceStats stats = engine_->stats();
  EXPECT_EQ(stats.recomputed_tokens, recomputed);
  EXPECT_EQ(stats.admissions, 2u);
  EXPECT_EQ(stats.generated_tokens, 2 * kGenerated);
  EXPECT_EQ(stats.finished[static_cast<std::size_t>(FinishReason::kLength)], 2u);
  EXPECT_EQ(stats.prefill_tokens + stats.decode_tokens, 2 * (40 + kGenerated - 1) + recomputed);
}

TEST_F(TwoInAPinch, ThePreemptedOneCanBeCancelled) {
  const std::size_t generated = sinks_[1]->tokens.size();
  EXPECT_TRUE(engine_->Cancel(RequestId(2)));
  EXPECT_EQ(sinks_[1]->reason, FinishReason::kCancelled);
  EXPECT_EQ(sinks_[1]->usage.completion_tokens, generated);
  EXPECT_EQ(sinks_[1]->usage.preemptions, 1u);
  EXPECT_EQ(sinks_[1]->usage.kv_bytes, 0u);
  RunAll();
  EXPECT_EQ(sinks_[1]->tokens.size(), generated);
  EXPECT_EQ(sinks_[0]->tokens.size(), kGenerated);
  EXPECT_EQ(engine_->cache().live_bytes(), 0u);
  EXPECT_EQ(engine_->cache().core().pool.promised(0), 0u);
}

TEST_F(TwoInAPinch, CancellingTheOtherResumesIt) {
  EXPECT_TRUE(engine_->Cancel(RequestId(1)));
  RunAll();
  EXPECT_EQ(sinks_[1]->tokens.size(), kGenerated);
  TinyEngine alone(OptionsFor("f16"));
  const auto sink = std::make_shared<RecordingSink>();
  alone->Submit(RequestId(1), Request(2), sink, 0);
  while (alone->Step()) {
  }
  EXPECT_EQ(sinks_[1]->tokens, sink->tokens);
}

// --- Waiting for a prefix ---

class Waiters : public testing::TestWithParam<bool> {};

TEST_P(Waiters, SurviveWhoComputesTheirPrefix) {
  const bool is_preempted = GetParam();
  EngineOptions options = OptionsFor("f16");
  options.limits = {.max_step_tokens = 16, .prefill_chunk = 16, .max_running = 2};
  TinyEngine engine(options);
  const std::vector<TokenId> common = Prompt(200, 1);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<GenerationRequest> requests;
  for (std::uint32_t i = 0; i < 4; ++i) {
    GenerationRequest request = {.prompt = common,
                                 .sampling = {.temperature = 0.9, .seed = i},
                                 .max_tokens = 10,
                                 .priority = 1};
    request.prompt.push_back(static_cast<TokenId>(i));
    requests.push_back(request);
    sinks.push_back(std::make_shared<RecordingSink>());
    engine->Submit(RequestId(i), request, sinks.back(), 0);
  }
  for (int i = 0; i < 5; ++i) engine->Step();
  EXPECT_EQ(engine->stats().running, 1u);  // the others wait for its prefix
  if (is_preempted) {
    const auto urgent = std::make_shared<RecordingSink>();
    for (std::uint64_t id = 10; id < 12; ++id) {
      engine->Submit(RequestId(id), {.prompt = Prompt(50, 9), .max_tokens = 30, .priority = 0},
                     urgent, 0);
    }
    while (engine->stats().preemptions == 0) ASSERT_TRUE(engine->Step());
  } else {
    EXPECT_TRUE(engine->Cancel(RequestId(0)));
  }
  while (engine->Step()) engine->cache().CheckInvariants();
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == 0 && !is_preempted) continue;
    TinyEngine alone(OptionsFor("f16"));
    const auto sink = std::make_shared<RecordingSink>();
    alone->Submit(RequestId(1), requests[i], sink, 0);
    while (alone->Step()) {
    }
    EXPECT_EQ(sinks[i]->reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens, sink->tokens) << i;
  }
  // Its 200 tokens were computed once, but for the block that was open.
  const std::uint64_t own = 4 + (is_preempted ? 2 * 50 : 0);
  EXPECT_LE(engine->stats().prefill_tokens, 200 + own + 3 * 16 + (is_preempted ? 16 : 0));
  EXPECT_EQ(engine->cache().live_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ends, Waiters, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "preempted" : "cancelled");
});

// --- What else the scheduler is told ---

TEST(Engine, MinTokensKeepsStopTokensAway) {
  TinyEngine engine;
  GenerationRequest request = {
      .prompt = Prompt(5, 2), .sampling = {.temperature = 0}, .max_tokens = 20};
  for (TokenId token = 0; token < TokenId{model::kTinyVocab}; token += 2) {
    request.stop_tokens.push_back(token);
  }
  for (const std::uint64_t min_tokens : {0u, 1u, 7u, 20u}) {
    request.min_tokens = min_tokens;
    const auto sink = std::make_shared<RecordingSink>();
    ASSERT_TRUE(engine->Check(request).ok());
    engine->Submit(RequestId(1), request, sink, 0);
    while (engine->Step()) {
    }
    ASSERT_GE(sink->tokens.size(), min_tokens);
    for (std::size_t i = 0; i + 1 < sink->tokens.size(); ++i) EXPECT_EQ(sink->tokens[i] % 2, 1);
    EXPECT_EQ(sink->reason,
              sink->tokens.back() % 2 == 0 ? FinishReason::kStop : FinishReason::kLength);
  }
  request.min_tokens = 21;
  EXPECT_NE(engine->Check(request).error().message.find("21"), std::string::npos);
}

TEST(Engine, DeadlinesEndWaitingAndRunningRequests) {
  ManualClock clock;
  EngineOptions options = TinyEngine::DefaultOptions();
  options.limits.max_running = 1;
  TinyEngine engine(options, /*threads=*/1, &clock);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (std::uint64_t i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    const std::int64_t deadlines[] = {100, 0, 200, 300};
    engine->Submit(RequestId(i),
                   {.prompt = {1, 2, 3}, .max_tokens = 50, .deadline_ns = deadlines[i]},
                   sinks.back(), 0);
  }
  for (int i = 0; i < 10; ++i) engine->Step();
  clock.AdvanceNs(99);
  engine->Step();
  EXPECT_EQ(sinks[0]->finishes, 0);
  clock.AdvanceNs(1);
  engine->Step();
  EXPECT_EQ(sinks[0]->reason, FinishReason::kDeadline);
  EXPECT_EQ(sinks[0]->tokens.size(), 11u);
  EXPECT_NE(sinks[0]->error.find("deadline"), std::string::npos);
  clock.AdvanceNs(150);
  engine->Step();
  EXPECT_EQ(sinks[2]->reason, FinishReason::kDeadline);
  EXPECT_TRUE(sinks[2]->tokens.empty());
  while (engine->Step()) {
  }
  EXPECT_EQ(sinks[1]->reason, FinishReason::kLength);
  EXPECT_EQ(sinks[3]->reason, FinishReason::kLength);
  EXPECT_EQ(engine->stats().finished[static_cast<std::size_t>(FinishReason::kDeadline)], 2u);
  EXPECT_EQ(engine->cache().live_bytes(), 0u);
}

TEST(Engine, AnUrgentRequestDoesNotWaitForTheMemoryOfOthers) {
  EngineOptions options = OptionsFor("f16");
  options.headroom_tokens = sched::KvMemory::kWholeLength;
  options.kv_memory_bytes = std::uint64_t{16} * 2048;
  TinyEngine engine(options);
  const auto batch = std::make_shared<RecordingSink>();
  const auto urgent = std::make_shared<RecordingSink>();
  engine->Submit(RequestId(1), {.prompt = Prompt(50, 1), .max_tokens = 150, .priority = 1}, batch,
                 0);
  for (int i = 0; i < 10; ++i) engine->Step();
  engine->Submit(RequestId(2), {.prompt = Prompt(50, 2), .max_tokens = 100}, urgent, 0);
  while (urgent->finishes == 0) ASSERT_TRUE(engine->Step());
  EXPECT_EQ(batch->finishes, 0);
  while (engine->Step()) {
  }
  EXPECT_EQ(batch->tokens.size(), 150u);
  EXPECT_EQ(batch->usage.preemptions, 1u);
  EXPECT_EQ(engine->stats().urgent_preemptions, 1u);
}

// Pins are not requests: they do not give their memory back.
TEST(Engine, ARequestThatPinsLeaveNoRoomForEndsInAnErrorAndNotInALoop) {
  EngineOptions options = OptionsFor("f16");
  options.kv_memory_bytes = std::uint64_t{16} * 2048;
  TinyEngine engine(options);
  const auto first = std::make_shared<RecordingSink>();
  const std::vector<TokenId> prompt = Prompt(60, 1);
  engine->Submit(RequestId(1), {.prompt = prompt, .max_tokens = 1}, first, 0);
  while (engine->Step()) {
  }
  kv::Scope scope = engine->scope();
  const kv::ScopeDigest digest = kv::DigestOf(scope);
  auto pin = engine->cache().Pin(engine->cache().Lookup(
      {.scope = scope, .digest = digest, .tokens = prompt}, kv::kCommonAccount, nullptr));
  ASSERT_TRUE(pin.ok()) << pin.error().message;
  const auto second = std::make_shared<RecordingSink>();
  const GenerationRequest large = {.prompt = Prompt(230, 2), .max_tokens = 10};
  ASSERT_TRUE(engine->Check(large).ok());
  engine->Submit(RequestId(2), large, second, 0);
  for (int i = 0; i < 3 && second->finishes == 0; ++i) engine->Step();
  EXPECT_EQ(second->reason, FinishReason::kError);
  EXPECT_NE(second->error.find("pinned"), std::string::npos);
  ASSERT_TRUE(engine->cache().Unpin(*pin).ok());
}

TEST(Engine, CountsWhatItDoes) {
  TinyEngine engine;
  for (int i = 0; i < 2; ++i) {
    const auto sink = std::make_shared<RecordingSink>();
    engine->Submit(RequestId(1), {.prompt = Prompt(33, 1), .max_tokens = 5}, sink, 0);
    while (engine->Step()) {
    }
  }
  const ServiceStats stats = engine->stats();
  EXPECT_EQ(stats.admissions, 2u);
  EXPECT_EQ(stats.prompt_tokens, 66u);
  EXPECT_EQ(stats.cached_tokens, 32u);
  EXPECT_EQ(stats.prefill_tokens, 34u);
  EXPECT_EQ(stats.generated_tokens, 10u);
  EXPECT_EQ(stats.decode_tokens, 8u);
  EXPECT_EQ(stats.steps, 3u + 4u + 1u + 4u);
  EXPECT_EQ(stats.preemptions, 0u);
  EXPECT_GT(stats.forward_ns, 0);
  EXPECT_GT(stats.sample_ns, 0);
  EXPECT_GT(stats.plan_ns, 0);
}

}  // namespace
}  // namespace ashlar::engine
