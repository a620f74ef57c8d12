#include "simulate/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulate/figures.h"

namespace ashlar::simulate {
namespace {

using Runs = std::vector<Run>;  // within a test, Run is testing::Test's
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Run MakeRun(Mode mode, double capacity, const std::string& policy) {
  Run run = {.mode = mode, .capacity = capacity, .series = policy};
  run.params["trace"] = "a, \"quoted\" trace";
  run.setting["blocks"] = capacity;
  run.setting["replacement"] = policy;
  Results& results = run.results;
  results.requests = 2;
  results.prompt_tokens = 1000;
  results.hit_tokens = 250;
  results.blocks_total = 64;
  results.blocks_hit = 16;
  results.output_tokens = 20;
  results.misses[0] = 1;
  results.missed_tokens[0] = 750;
  if (mode == Mode::kCache) return run;
  results.ttft.Add(10'000'000);
  results.ttft.Add(30'000'000);
  results.itl.Add(5'000'000);
  results.duration_ns = 2'000'000'000;
  results.busy_ns = 1'000'000'000;
  results.growth_preemptions = 2;
  results.urgent_preemptions = 1;
  results.timeline.Add(1'000'000, {.live_bytes = 1 << 20, .running = 3});
  return run;
}

Runs MakeSweep(Mode mode) {
  return {MakeRun(mode, 100, "lru"), MakeRun(mode, 200, "lru"), MakeRun(mode, 100, "sieve"),
          MakeRun(mode, 200, "sieve")};
}

// Fields that others script against.
TEST(Report, JsonHasTheFiguresOfAServeRun) {
  const ReportJson json = JsonOf(MakeRun(Mode::kServe, 100, "lru"));
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["blocks_total"], 64);
  EXPECT_EQ(json["blocks_hit"], 16);
  EXPECT_EQ(json["hit_rate_blocks"], 0.25);
  EXPECT_EQ(json["hit_rate_tokens"], 0.25);
  EXPECT_EQ(json["hit_tokens_by_tier"]["ram"], 250);
  EXPECT_EQ(json["preemptions"], 3);
  EXPECT_EQ(json["preemptions_by_kind"]["urgent"], 1);
  EXPECT_EQ(json["ttft_ms"]["mean"], 20.0);
  for (const char* const column : {"mean", "p50", "p95", "p99"}) {
    EXPECT_TRUE(json["ttft_ms"].contains(column));
    EXPECT_TRUE(json["itl_ms"].contains(column));
  }
  EXPECT_EQ(json["output_tokens_per_s"], 10.0);
  EXPECT_EQ(json["params"]["replacement"], "lru");
  EXPECT_EQ(json["misses"]["none"]["tokens"], 750);
}

TEST(Report, ACacheRunHasNoTimes) {
  const ReportJson json = JsonOf(MakeRun(Mode::kCache, 100, "lru"));
  EXPECT_EQ(json["hit_rate_blocks"], 0.25);
  EXPECT_FALSE(json.contains("ttft_ms"));
  EXPECT_FALSE(json.contains("preemptions"));
}

TEST(Report, TextIsWholeForOneAndARowForEachOfSeveral) {
  const Runs sweep = MakeSweep(Mode::kServe);
  const std::string one = TextReport({sweep.data(), 1});
  EXPECT_THAT(one, HasSubstr("2 served"));
  EXPECT_THAT(one, HasSubstr("1000, of them 250 hit: 25.00%"));
  EXPECT_THAT(one, HasSubstr("2 for memory to grow, 1 for urgent requests"));
  EXPECT_THAT(one, HasSubstr("why no more was hit"));
  EXPECT_THAT(one, Not(HasSubstr("goodput")));  // no targets
  const std::string several = TextReport(sweep);
  EXPECT_EQ(std::ranges::count(several, '\n'), 2 + 1 + 4);
  EXPECT_THAT(several, HasSubstr("TTFT mean ms"));
  EXPECT_THAT(TextReport(MakeSweep(Mode::kCache)), Not(HasSubstr("TTFT")));
}

TEST(Report, CsvHasAHeadAndQuotesWhatNeedsIt) {
  const std::string csv = CsvReport(MakeSweep(Mode::kServe));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5);
  EXPECT_THAT(csv, StartsWith("name,mode,params.trace,params.blocks,params.replacement,requests,"));
  EXPECT_THAT(csv, HasSubstr("simulate,serve,\"a, \"\"quoted\"\" trace\",100.0,lru,2,"));
  EXPECT_THAT(csv, HasSubstr(",ttft_ms.p99,"));
}

TEST(Report, PlotsNeedTwoCapacities) {
  const Runs sweep = MakeSweep(Mode::kCache);
  EXPECT_EQ(SweepPlot({sweep.data(), 1}), "");
  const std::string plot = SweepPlot(sweep);
  EXPECT_THAT(plot, HasSubstr("lru"));
  EXPECT_THAT(plot, HasSubstr("sieve"));
  EXPECT_THAT(plot, HasSubstr("capacity in blocks"));
  Runs unlimited = {sweep[0], sweep[0]};
  unlimited[1].capacity = 0;  // nowhere on the axis
  EXPECT_EQ(SweepPlot(unlimited), "");
}

TEST(Report, PagesShowWhatWasSaidByOthersAsText) {
  Runs runs = {MakeRun(Mode::kServe, 100, "lru")};
  runs[0].params["trace"] = "<script>";
  const std::string page = HtmlReport(runs);
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, HasSubstr("KV memory"));
  EXPECT_THAT(page, HasSubstr("Latencies"));
  EXPECT_THAT(HtmlReport(MakeSweep(Mode::kServe)), HasSubstr("TTFT"));
}

TEST(Timeline, KeepsTheMostOfEachBinAsBinsGrow) {
  Timeline timeline;
  for (std::int64_t ms = 0; ms < 5000; ++ms) {
    timeline.Add(ms * 1'000'000,
                 {.live_bytes = ms == 4321 ? 99U : 1U, .waiting = static_cast<std::uint64_t>(ms)});
  }
  EXPECT_LE(timeline.bins().size(), Timeline::kBins);
  EXPECT_GT(timeline.bins().size(), Timeline::kBins / 4);
  const auto bin = static_cast<std::size_t>(4321 * std::int64_t{1'000'000} / timeline.bin_ns());
  for (std::size_t i = 0; i < timeline.bins().size(); ++i) {
    EXPECT_EQ(timeline.bins()[i].live_bytes, i == bin ? 99U : 1U) << i;
  }
  EXPECT_EQ(timeline.bins().back().waiting, 4999U);
  // A jump that doubles bins many times over.
  timeline.Add(std::int64_t{1} << 60, {.running = 7});
  EXPECT_LE(timeline.bins().size(), Timeline::kBins);
  EXPECT_EQ(timeline.bins()[0].live_bytes, 99U);
  EXPECT_EQ(timeline.bins().back().running, 7U);
}

}  // namespace
}  // namespace ashlar::simulate
