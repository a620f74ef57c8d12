#include "engine/runner.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "engine/testing/gate_sink.h"
#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

// Signals its end to the thread that waits for it.
class WaitableSink final : public EventSink {
 public:
  void OnToken(TokenId token, const TokenLogprobs*) override { tokens.push_back(token); }
  void OnFinish(FinishReason why, const Usage&, std::string_view) override {
    finished_.set_value(why);
  }
  FinishReason Wait() { return finished_.get_future().get(); }
  std::vector<TokenId> tokens;

 private:
  std::promise<FinishReason> finished_;
};

GenerationRequest Request(std::uint64_t seed, std::uint64_t max_tokens) {
  return {.prompt = {1, 2, static_cast<TokenId>(seed % 250)},
          .sampling = {.temperature = 0.7, .seed = seed},
          .max_tokens = max_tokens};
}

TEST(EngineRunner, ManyThreadsGetWhatTheyWouldGetAlone) {
  TinyEngine tiny(TinyEngine::DefaultOptions(), 2);
  EngineRunner runner(tiny.Take(), tiny.clock(), 1000);
  const auto tokens_of = [&](std::uint64_t seed) {
    auto sink = std::make_shared<WaitableSink>();
    EXPECT_TRUE(runner.Submit(Request(seed, 12), sink).ok());
    EXPECT_EQ(sink->Wait(), FinishReason::kLength);
    return sink->tokens;
  };
  std::vector<std::vector<TokenId>> alone;
  alone.reserve(6);
  for (std::uint64_t seed = 0; seed < 6; ++seed) alone.push_back(tokens_of(seed));
  std::vector<std::vector<TokenId>> together(6);
  {
    std::vector<std::jthread> threads;
    threads.reserve(6);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      threads.emplace_back([&, seed] { together[seed] = tokens_of(seed); });
    }
  }
  EXPECT_EQ(together, alone);
  runner.Stop();  // a sink hears of the end before the counters do
  EXPECT_EQ(runner.stats().running + runner.stats().waiting, 0u);
}

TEST(EngineRunner, CancelEndsARequest) {
  TinyEngine tiny;
  EngineRunner runner(tiny.Take(), tiny.clock(), 10);
  auto sink = std::make_shared<GateSink>();
  const auto id = runner.Submit(Request(1, 400), sink);
  ASSERT_TRUE(id.ok());
  sink->WaitForFirst();
  runner.Cancel(*id);
  sink->Allow(400);
  EXPECT_EQ(sink->Wait(), FinishReason::kCancelled);
  runner.Cancel(*id);  // no effect
}

TEST(EngineRunner, StopCancelsAndRefuses) {
  TinyEngine tiny;
  EngineRunner runner(tiny.Take(), tiny.clock(), 100);
  auto gate = std::make_shared<GateSink>();  // of all: a step is a token of each
  ASSERT_TRUE(runner.Submit(Request(0, 400), gate).ok());
  std::vector<std::shared_ptr<WaitableSink>> sinks;
  for (std::uint64_t i = 1; i < 20; ++i) {
    sinks.push_back(std::make_shared<WaitableSink>());
    ASSERT_TRUE(runner.Submit(Request(i, 400), sinks.back()).ok());
  }
  gate->AllowUntil(std::async(std::launch::async, [&] { runner.Stop(); }));
  EXPECT_EQ(gate->Wait(), FinishReason::kCancelled);
  for (const auto& sink : sinks) EXPECT_EQ(sink->Wait(), FinishReason::kCancelled);
  const auto refused = runner.Submit(Request(1, 1), std::make_shared<WaitableSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  runner.Stop();
}

TEST(EngineRunner, AFullQueueRefuses) {
  TinyEngine tiny;
  EngineRunner runner(tiny.Take(), tiny.clock(), /*max_waiting=*/0);
  const auto refused = runner.Submit(Request(1, 1), std::make_shared<WaitableSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

TEST(EngineRunner, TakesAllSequencesOfARequestOrNone) {
  TinyEngine tiny;
  EngineRunner runner(tiny.Take(), tiny.clock(), /*max_waiting=*/4);
  const auto submissions = [](std::size_t count) {
    std::vector<Submission> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back({.request = Request(i, 5), .sink = std::make_shared<WaitableSink>()});
    }
    return all;
  };
  const auto never = runner.SubmitAll(submissions(5));
  ASSERT_FALSE(never.ok());
  EXPECT_EQ(never.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(never.error().message.find("5 sequences"), std::string::npos);
  std::vector<Submission> four = submissions(4);
  const auto last = std::static_pointer_cast<WaitableSink>(four.back().sink);
  const auto ids = runner.SubmitAll(std::move(four));
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(ids->size(), 4u);
  EXPECT_EQ(last->Wait(), FinishReason::kLength);
}

TEST(EngineRunner, InvalidRequestsAreRefusedAtOnce) {
  TinyEngine tiny;
  EngineRunner runner(tiny.Take(), tiny.clock(), 10);
  const auto refused = runner.Submit({.prompt = {}}, std::make_shared<WaitableSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::engine
