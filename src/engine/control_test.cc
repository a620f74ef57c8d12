// What a running engine answers to those who watch and steer it.
#include "engine/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/runner.h"
#include "engine/testing/gate_sink.h"
#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

class ControlTest : public ::testing::Test {
 protected:
  explicit ControlTest(std::uint64_t max_events = 1000)
      : tiny_(Options(max_events)), runner_(tiny_.Take(), tiny_.clock(), 100) {}

  static EngineOptions Options(std::uint64_t max_events) {
    EngineOptions options = TinyEngine::DefaultOptions();
    options.max_events = max_events;
    return options;
  }

  static GenerationRequest Request(TokenId first, std::uint64_t prompt, std::uint64_t max_tokens) {
    GenerationRequest request{
        .prompt = {}, .sampling = {.temperature = 0}, .max_tokens = max_tokens};
    for (std::uint64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>((first + 7 * i) % 250));
    }
    return request;
  }

  // Tokens served from the cache.
  std::uint64_t Serve(TokenId first, std::uint64_t prompt, std::uint64_t max_tokens) {
    auto sink = std::make_shared<EndSink>();
    EXPECT_TRUE(runner_.Submit(Request(first, prompt, max_tokens), sink).ok());
    return sink->usage.get_future().get().cached_tokens;
  }

  // The report after the last step. Sinks hear of an end within the step, so the engine is asked
  // something first: it answers between steps.
  std::shared_ptr<const EngineReport> Idle() {
    EXPECT_TRUE(runner_.ReadTrace({}).ok());
    return runner_.Report();
  }

  // Asks while the engine works at a request, which it lets go on until there is an answer.
  template <typename Ask>
  auto WhileBusy(Ask ask, GateSink& gate) {
    return gate.AllowUntil(std::async(std::launch::async, ask));
  }

  struct EndSink final : EventSink {
    void OnToken(TokenId, const TokenLogprobs*) override {}
    void OnFinish(FinishReason, const Usage& used, std::string_view) override {
      usage.set_value(used);
    }
    std::promise<Usage> usage;
  };

  TinyEngine tiny_;
  EngineRunner runner_;
};

constexpr std::uint64_t kForever = 400;  // tokens: longer than any test lets it go on

std::uint64_t SumOf(const kv::MemoryReport& memory) {
  std::uint64_t bytes =
      memory.free_slot_bytes + memory.slack_bytes + memory.free_page_bytes + memory.remainder_bytes;
  for (const kv::MemoryRow& row : memory.rows) bytes += row.bytes;
  return bytes;
}

TEST_F(ControlTest, AReportIsThereFromTheFirstMoment) {
  const auto report = runner_.Report();
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->stats.steps, 0u);
  EXPECT_EQ(SumOf(report->memory), report->memory.arena_bytes);
  EXPECT_EQ(report->groups, std::vector<std::string>{"full"});
  EXPECT_EQ(report->oldest_event, 1u);
}

TEST_F(ControlTest, TheReportOfAnIdleEngineIsExact) {
  EXPECT_EQ(Serve(1, 40, 5), 0u);
  EXPECT_EQ(Serve(1, 40, 5), 39u);
  const auto report = Idle();
  EXPECT_EQ(report->stats.prompt_tokens, 80u);
  EXPECT_EQ(report->stats.cached_tokens, 39u);
  EXPECT_EQ(report->stats.generated_tokens, 10u);
  EXPECT_EQ(report->histograms.ttft.count(), 2u);
  EXPECT_EQ(report->histograms.itl.count(), 8u);
  EXPECT_EQ(report->histograms.queue.count(), 2u);
  EXPECT_EQ(report->histograms.step.count(), report->stats.steps);
  EXPECT_EQ(report->histograms.step_tokens.sum(),
            static_cast<double>(report->stats.prefill_tokens + report->stats.decode_tokens));
  const auto at = [](kv::MissReason reason) { return static_cast<std::size_t>(reason); };
  EXPECT_EQ(report->misses[at(kv::MissReason::kNeverSeen)], 1u);
  EXPECT_EQ(report->misses[at(kv::MissReason::kNone)], 1u);
  EXPECT_EQ(report->missed_tokens[at(kv::MissReason::kNeverSeen)], 40u);
  EXPECT_EQ(report->missed_tokens[at(kv::MissReason::kNone)], 1u);
  EXPECT_EQ(SumOf(report->memory), report->memory.arena_bytes);
}

TEST_F(ControlTest, DescribesTheCache) {
  Serve(1, 64, 3);
  const auto state = runner_.DescribeCache(10);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(SumOf(state->memory), state->memory.arena_bytes);
  EXPECT_EQ(state->block_tokens, 16u);
  ASSERT_EQ(state->groups.size(), 1u);
  EXPECT_EQ(state->groups[0].keys, "f16");
  ASSERT_EQ(state->accounts.size(), 1u);
  EXPECT_EQ(state->tree.nodes, 5u);  // 4 blocks and a tail of 2
  EXPECT_EQ(state->tree.tails, 1u);
}

TEST_F(ControlTest, ATraceHasTheStepsAndTheSequencesOfTheirTime) {
  Serve(1, 40, 3);
  Serve(100, 10, 1);
  Idle();
  const auto trace = runner_.ReadTrace({.max_steps = 100});
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->steps.size(), 6u);  // 16 + 16 + 8 tokens, two decodes; 10 tokens
  for (std::size_t i = 0; i < trace->steps.size(); ++i) EXPECT_EQ(trace->steps[i].number, i + 1);
  EXPECT_EQ(trace->steps[0].prefill_tokens, 16u);
  EXPECT_EQ(trace->steps[4].decode_tokens, 1u);
  ASSERT_EQ(trace->sequences.size(), 2u);
  EXPECT_EQ(trace->sequences[0].usage.prompt_tokens, 40u);
  EXPECT_LE(trace->sequences[0].submitted_ns, trace->sequences[0].admitted_ns);
  EXPECT_LT(trace->sequences[0].admitted_ns, trace->sequences[0].first_token_ns);
  EXPECT_LT(trace->sequences[0].first_token_ns, trace->sequences[0].ended_ns);
  const auto last = runner_.ReadTrace({.max_steps = 1});
  ASSERT_EQ(last->steps.size(), 1u);
  EXPECT_EQ(last->steps[0].number, 6u);
  EXPECT_EQ(last->sequences.size(), 1u);  // the first had ended before
}

TEST_F(ControlTest, ResetIsRefusedWhileBusyUnlessForced) {
  EXPECT_EQ(Serve(1, 64, 1), 0u);
  auto gate = std::make_shared<GateSink>();
  const auto id = runner_.Submit(Request(1, 64, kForever), gate);
  ASSERT_TRUE(id.ok());
  gate->WaitForFirst();
  EXPECT_FALSE(*WhileBusy([&] { return runner_.ResetPrefixCache(WhenBusy::kRefuse); }, *gate));
  EXPECT_EQ(WhileBusy([&] { return runner_.DescribeCache(1); }, *gate)->tree.nodes > 0, true);
  EXPECT_TRUE(*WhileBusy([&] { return runner_.ResetPrefixCache(WhenBusy::kForce); }, *gate));
  runner_.Cancel(*id);
  gate->Allow(kForever);
  EXPECT_EQ(gate->Wait(), FinishReason::kCancelled);
  EXPECT_EQ(Serve(1, 64, 1), 0u);  // also what the running one held is forgotten
  Idle();
  EXPECT_TRUE(*runner_.ResetPrefixCache(WhenBusy::kRefuse));
  EXPECT_EQ(Idle()->memory.rows.size(), 0u);
}

TEST_F(ControlTest, SleepIsRefusedWhileBusyAndCancelsWhenForced) {
  auto gate = std::make_shared<GateSink>();
  ASSERT_TRUE(runner_.Submit(Request(1, 64, kForever), gate).ok());
  gate->WaitForFirst();
  EXPECT_FALSE(*WhileBusy([&] { return runner_.Sleep(WhenBusy::kRefuse); }, *gate));
  EXPECT_FALSE(runner_.Report()->is_sleeping);
  EXPECT_TRUE(*WhileBusy([&] { return runner_.Sleep(WhenBusy::kForce); }, *gate));
  gate->Allow(kForever);
  EXPECT_EQ(gate->Wait(), FinishReason::kCancelled);
  const auto report = Idle();
  EXPECT_TRUE(report->is_sleeping);
  EXPECT_EQ(report->memory.free_page_bytes + report->memory.remainder_bytes,
            report->memory.arena_bytes);
  const auto refused = runner_.Submit(Request(1, 4, 1), std::make_shared<EndSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(runner_.WakeUp().ok());
  EXPECT_EQ(Serve(1, 64, 2), 0u);
  EXPECT_EQ(Serve(1, 64, 2), 63u);
}

TEST_F(ControlTest, EventsAreCopiesThatOutliveTheLog) {
  Serve(1, 64, 2);
  const auto batch = runner_.ReadEvents(1, 3);
  ASSERT_TRUE(batch.ok());
  ASSERT_EQ(batch->events.size(), 3u);
  for (TokenId first = 10; first < 250; first += 10) Serve(first, 100, 2);
  const GenerationRequest request = Request(1, 64, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch->events[i].sequence, i + 1);
    EXPECT_TRUE(
        std::ranges::equal(batch->events[i].tokens, std::span(request.prompt).subspan(16 * i, 16)));
  }
  const auto ahead = runner_.ReadEvents(1'000'000, 1);
  EXPECT_TRUE(ahead->gap.has_value());
  const auto part = runner_.ReadSnapshotPart(0, 3);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->sequence, ahead->last);
  EXPECT_EQ(part->next, 3u);
  EXPECT_FALSE(part->is_last);
}

TEST_F(ControlTest, QuestionsAreAnsweredWhenTheEngineStops) {
  auto gate = std::make_shared<GateSink>();
  ASSERT_TRUE(runner_.Submit(Request(1, 64, kForever), gate).ok());
  gate->WaitForFirst();
  std::vector<std::future<Result<CacheState>>> answers;
  answers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    answers.push_back(std::async(std::launch::async, [&] { return runner_.DescribeCache(1); }));
  }
  auto stop = std::async(std::launch::async, [&] { runner_.Stop(); });
  gate->Allow(kForever);
  stop.get();
  for (auto& answer : answers) (void)answer.get();  // either way; none is left waiting
  const auto late = runner_.DescribeCache(1);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(runner_.WakeUp().ok());
}

class NoEventsTest : public ControlTest {
 protected:
  NoEventsTest() : ControlTest(0) {}
};

TEST_F(NoEventsTest, ReadersAreToldThatEventsAreOff) {
  EXPECT_EQ(runner_.ReadEvents(1, 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(runner_.ReadSnapshotPart(0, 1).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ashlar::engine
