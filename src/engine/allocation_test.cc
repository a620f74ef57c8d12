// The decode step does no heap allocation: counted, in a program of its own, by replacing operator
// new.
#include <gtest/gtest.h>

#include "base/testing/allocation_count.h"
#include "engine/monitor.h"
#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

class CountingSink final : public EventSink {
 public:
  void OnToken(TokenId, const TokenLogprobs*) override { ++tokens; }
  void OnFinish(FinishReason, const Usage&, std::string_view) override { is_finished = true; }
  int tokens = 0;
  bool is_finished = false;
};

class AllocationOf : public testing::TestWithParam<const char*> {};

TEST_P(AllocationOf, DecodeStepsDoNone) {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(GetParam());
  options.max_events = 1000;
  TinyEngine engine(options, /*threads=*/2);
  Monitor monitor;
  engine->Observe(&monitor);
  std::vector<std::shared_ptr<CountingSink>> sinks;
  const model::SamplingParams choices[] = {
      {.temperature = 0.8, .top_k = 40},
      {.temperature = 0.8, .top_p = 0.9},
      {.temperature = 0.8, .top_k = 1, .top_p = 0.9, .min_p = 0.01}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<CountingSink>());
    engine->Submit(RequestId(i), {.prompt = {1, 2, 3}, .sampling = choices[i], .max_tokens = 100},
                   sinks.back(), 0);
  }
  for (int i = 0; i < 3; ++i) engine->Step();  // prefill, and the first tokens
  const std::uint64_t before = AllocationsSoFar().calls;
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(engine->Step());  // crosses several block borders
  EXPECT_EQ(AllocationsSoFar().calls - before, 0u);
  EXPECT_GT(sinks[0]->tokens, 60);
  EngineReport report;
  monitor.AddTo(report);
  EXPECT_GT(report.histograms.itl.count(), 180u);
  EXPECT_GE(engine->cache().events().last_sequence(), 4u);  // the texts seal blocks
}

INSTANTIATE_TEST_SUITE_P(Codecs, AllocationOf,
                         testing::Values("f16", "k=hq8,v=hq4,edge=1@hq8", "kc4"),
                         [](const auto& param_info) {
                           return "codec_" + std::to_string(param_info.index);
                         });

TEST(Allocation, TheCounterCounts) {
  const std::uint64_t before = AllocationsSoFar().calls;
  int* volatile escaped = new int(1);  // volatile: or the compiler drops the pair
  delete escaped;
  EXPECT_GT(AllocationsSoFar().calls, before);
}

}  // namespace
}  // namespace ashlar::engine
