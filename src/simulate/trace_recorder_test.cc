#include "simulate/trace_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <utility>
#include <vector>

#include "engine/runner.h"
#include "engine/testing/tiny_engine.h"
#include "simulate/virtual_engine.h"
#include "trace/reader.h"

namespace ashlar::simulate {
namespace {

using testing::HasSubstr;
using Trace = std::vector<trace::Request>;

constexpr trace::NamingKey kKey = {1, 2};

// Takes what it is asked; the test says what becomes of it.
class ScriptedService final : public engine::Service {
 public:
  const engine::ServiceInfo& info() const override { return info_; }
  engine::ServiceStats stats() const override { return {}; }
  Result<std::vector<RequestId>> SubmitAll(std::vector<engine::Submission> all) override {
    if (is_full) return MakeError(ErrorCode::kResourceExhausted, "full");
    std::vector<RequestId> ids;
    for (engine::Submission& one : all) {
      ids.emplace_back(submissions.size());
      submissions.push_back(std::move(one));
    }
    return ids;
  }
  void Cancel(RequestId id) override { cancelled.push_back(id); }

  // Generates tokens and ends.
  void End(std::size_t index, const std::vector<TokenId>& tokens) {
    engine::EventSink& sink = *submissions[index].sink;
    for (const TokenId token : tokens) sink.OnToken(token, nullptr);
    sink.OnFinish(engine::FinishReason::kLength, {}, "");
  }

  bool is_full = false;
  std::vector<engine::Submission> submissions;
  std::vector<RequestId> cancelled;

 private:
  engine::ServiceInfo info_;
};

// A stream whose text outlives it.
class Paper {
 public:
  std::unique_ptr<std::ostream> Stream() { return std::make_unique<std::ostream>(&text_); }
  std::string text() const { return text_.str(); }
  Trace Read() const {
    trace::Reader reader(std::make_unique<std::istringstream>(text()), "t", {});
    auto all = trace::ReadAll(reader);
    return all.ok() ? *std::move(all) : Trace{};
  }

 private:
  std::stringbuf text_;
};

engine::GenerationRequest Ask(std::vector<TokenId> prompt, std::uint64_t max_tokens = 4) {
  return {.prompt = std::move(prompt), .max_tokens = max_tokens};
}

TEST(TraceRecorder, WritesWhatWasAskedInOrderAndPassesEverythingOn) {
  ScriptedService service;
  Paper paper;
  ManualClock clock;
  clock.AdvanceNs(5'000'000'000);
  auto first = std::make_shared<engine::RecordingSink>();
  {
    TraceRecorder recorder(service, paper.Stream(), kKey, clock);
    clock.AdvanceNs(1'500'000);
    ASSERT_TRUE(recorder.Submit(Ask({7, 8, 9}), first).ok());
    clock.AdvanceNs(1'000'000);
    engine::GenerationRequest urgent = Ask({7, 8, 1}, 9);
    urgent.cache_salt = "secret salt";
    urgent.tenant = "acme";
    urgent.priority = -2;
    ASSERT_TRUE(recorder.Submit(std::move(urgent), std::make_shared<engine::RecordingSink>()).ok());
    recorder.Cancel(RequestId(1));
    EXPECT_EQ(service.cancelled, std::vector<RequestId>{RequestId(1)});
    service.End(1, {});  // ends first, is written second
    service.End(0, {5, 6});
  }
  EXPECT_EQ(first->tokens, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(first->finishes, 1);
  const Trace trace = paper.Read();
  ASSERT_EQ(trace.size(), 2U);
  EXPECT_EQ(trace[0].timestamp_ms, 1.5);
  EXPECT_EQ(trace[0].input_tokens, 3U);
  EXPECT_EQ(trace[0].output_tokens, 2U);
  EXPECT_EQ(trace[0].max_tokens, 4U);
  EXPECT_EQ(trace[0].scope, "");
  EXPECT_EQ(trace[1].timestamp_ms, 2.5);
  EXPECT_EQ(trace[1].output_tokens, 0U);
  EXPECT_EQ(trace[1].priority, -2);
  EXPECT_EQ(trace[1].scope.size(), 16U);
  EXPECT_EQ(trace[1].tenant.size(), 16U);
  EXPECT_THAT(paper.text(), Not(HasSubstr("secret")));
  EXPECT_THAT(paper.text(), Not(HasSubstr("acme")));
  EXPECT_EQ(trace[0].prefixes[1], trace[1].prefixes[1]);
  EXPECT_NE(trace[0].prefixes[2], trace[1].prefixes[2]);
}

TEST(TraceRecorder, WhatIsRefusedIsNotRecorded) {
  ScriptedService service;
  service.is_full = true;
  Paper paper;
  ManualClock clock;
  {
    TraceRecorder recorder(service, paper.Stream(), kKey, clock);
    EXPECT_FALSE(recorder.Submit(Ask({1}), std::make_shared<engine::RecordingSink>()).ok());
  }
  EXPECT_EQ(paper.text(), "");
}

TEST(TraceRecorder, OneThatNeverEndsHoldsUpOnlySoMany) {
  ScriptedService service;
  Paper paper;
  ManualClock clock;
  const auto sink = std::make_shared<engine::RecordingSink>();
  {
    TraceRecorder recorder(service, paper.Stream(), kKey, clock, /*max_held_names=*/20);
    for (TokenId i = 0; i < 6; ++i) ASSERT_TRUE(recorder.Submit(Ask({i, 1, 2, 3}), sink).ok());
    for (std::size_t i = 1; i < 5; ++i) service.End(i, {9});
    EXPECT_EQ(recorder.left_out(), 0U);  // 20 names wait
    service.End(5, {9});
    EXPECT_EQ(recorder.left_out(), 1U);
    service.End(0, {9});  // too late
  }
  ASSERT_EQ(paper.Read().size(), 5U);
  EXPECT_EQ(sink->finishes, 6);
}

TEST(TraceRecorder, AFullDiskEndsTheTraceAndNothingElse) {
  ScriptedService service;
  ManualClock clock;
  const auto sink = std::make_shared<engine::RecordingSink>();
  auto broken = std::make_unique<std::ostringstream>();
  broken->setstate(std::ios::badbit);
  TraceRecorder recorder(service, std::move(broken), kKey, clock);
  for (TokenId i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder.Submit(Ask({i}), sink).ok());
    service.End(static_cast<std::size_t>(i), {1});
  }
  EXPECT_EQ(sink->finishes, 3);
  EXPECT_EQ(recorder.written(), 0U);
}

TEST(TraceRecorder, AFileWithSomethingInItIsLeftAlone) {
  const auto path = std::filesystem::path(testing::TempDir()) / "trace_recorder_test.jsonl";
  std::filesystem::remove(path);
  ASSERT_TRUE(TraceRecorder::CreateFile(path.string()).ok());
  ASSERT_TRUE(TraceRecorder::CreateFile(path.string()).ok());  // still empty
  std::ofstream(path) << "x";
  EXPECT_THAT(TraceRecorder::CreateFile(path.string()).error().message,
              HasSubstr("has 1 bytes already"));
  std::filesystem::remove(path);
  EXPECT_THAT(TraceRecorder::CreateFile("/no/such/folder/t").error().message,
              HasSubstr("cannot create"));
}

// What an engine served of each prompt, and what the simulator says of its trace.
TEST(TraceRecorder, ARecordedDaySimulatedHitsTheSameTokens) {
  for (const char* const codec : {"f16", "k=hq8,v=hq4,edge=1@hq8"}) {
    SCOPED_TRACE(codec);
    engine::EngineOptions options = engine::TinyEngine::DefaultOptions();
    options.kv_codec = *model::ParseKvCodecSpec(codec);
    options.kv_memory_bytes = 96 << 10;  // little: it replaces
    engine::TinyEngine tiny(options);
    const kv::KvLayout layout = tiny->cache().layout();
    Paper paper;
    std::vector<std::uint64_t> served;
    {
      engine::EngineRunner runner(tiny.Take(), tiny.clock(), 100);
      TraceRecorder recorder(runner, paper.Stream(), kKey, tiny.clock());
      std::vector<std::vector<TokenId>> texts(5);
      for (std::uint64_t turn = 0; turn < 40; ++turn) {
        std::vector<TokenId>& text = texts[turn * 7 % texts.size()];
        if (text.size() > 300) text.resize(100 + turn);
        if (text.empty()) text.assign(40, 3);  // all begin alike
        for (TokenId i = 0; i < 11; ++i) {
          text.push_back(static_cast<TokenId>((turn * 13 + static_cast<std::uint64_t>(i)) % 250));
        }
        std::promise<void> done;
        class Waiting final : public engine::EventSink {
         public:
          Waiting(std::promise<void>& end, std::vector<TokenId>& tokens)
              : end_(end), tokens_(tokens) {}
          void OnToken(TokenId token, const engine::TokenLogprobs*) override {
            tokens_.push_back(token);
          }
          void OnFinish(engine::FinishReason, const engine::Usage& usage,
                        std::string_view) override {
            cached = usage.cached_tokens;
            end_.set_value();
          }
          std::uint64_t cached = 0;

         private:
          std::promise<void>& end_;
          std::vector<TokenId>& tokens_;
        };
        const auto sink = std::make_shared<Waiting>(done, text);
        ASSERT_TRUE(recorder.Submit(Ask(text, 9), sink).ok());
        done.get_future().wait();
        served.push_back(sink->cached);
      }
      runner.Stop();
    }
    const Trace trace = paper.Read();
    ASSERT_EQ(trace.size(), served.size());
    ManualClock clock;
    const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 1});
    Results results;
    const auto simulated = *VirtualEngine::Create(
        layout, {.kv_memory_bytes = options.kv_memory_bytes, .limits = options.limits}, cost, clock,
        results);
    std::uint64_t hits = 0;
    for (std::size_t i = 0; i < trace.size(); ++i) {
      VirtualRequest request = {.tokens = {trace[i].prefixes.begin(), trace[i].prefixes.end()},
                                .prompt_tokens = trace[i].input_tokens,
                                .output_tokens = trace[i].output_tokens,
                                .max_tokens = trace[i].max_tokens};
      simulated->Submit(SequenceId(i + 1), std::move(request), 0);
      while (simulated->has_work()) simulated->Step();
      EXPECT_EQ(results.hit_tokens - hits, served[i]) << i;
      hits = results.hit_tokens;
    }
    EXPECT_GT(hits, 500U);
    EXPECT_GT(simulated->cache().counters().replaced_blocks, 20U);
  }
}

}  // namespace
}  // namespace ashlar::simulate
