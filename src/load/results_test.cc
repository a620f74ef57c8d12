#include "load/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "base/rng.h"

namespace ashlar::load {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kMs = 1'000'000;

// A request that should have begun at 100 ms and did at 150.
RequestRecord Record(std::int64_t first_ms, std::int64_t end_ms, std::uint64_t tokens) {
  return {.intended_ns = 100 * kMs,
          .sent_ns = 150 * kMs,
          .first_ns = first_ms * kMs,
          .last_ns = end_ms * kMs,
          .end_ns = end_ms * kMs,
          .prompt_tokens = 10,
          .completion_tokens = tokens,
          .is_ok = true};
}

TEST(Results, LatenciesCountFromTheIntendedStart) {
  Results results({});
  results.OnSuccess(Record(200, 500, 4), AnswerUsage{10, 4, 6});
  EXPECT_EQ(results.delay().max_ns(), 50 * kMs);
  EXPECT_EQ(results.ttft().max_ns(), 100 * kMs);
  EXPECT_EQ(results.e2e().max_ns(), 400 * kMs);
  EXPECT_EQ(results.tpot().max_ns(), 100 * kMs);
  EXPECT_EQ(results.totals().prompt_tokens, 10U);
  EXPECT_EQ(results.totals().completion_tokens, 4U);
  EXPECT_EQ(results.totals().cached_tokens, 6U);
  EXPECT_TRUE(results.says_cached());
}

TEST(Results, ARequestOfOneTokenHasNoTimePerToken) {
  Results results({.itl_ns = 1});
  results.OnSuccess(Record(200, 500, 1), std::nullopt);
  EXPECT_EQ(results.tpot().count(), 0U);
  EXPECT_EQ(results.totals().good_requests, 1U);
  EXPECT_FALSE(results.says_cached());
}

TEST(Results, GoodAreThoseWithinBothTargetsTheTargetItselfIncluded) {
  Results results({.ttft_ns = 100 * kMs, .itl_ns = 10 * kMs});
  results.OnSuccess(Record(200, 230, 4), std::nullopt);  // 100 and 10: both met exactly
  results.OnSuccess(Record(201, 204, 4), std::nullopt);  // too late
  results.OnSuccess(Record(200, 234, 4), std::nullopt);  // too slow
  EXPECT_EQ(results.totals().completed, 3U);
  EXPECT_EQ(results.totals().good_requests, 1U);
  EXPECT_EQ(results.totals().good_tokens, 4U);
}

TEST(Results, FailuresAreCountedByKindWithTheFirstExample) {
  Results results({});
  results.OnFailure({}, {"cut", "first"});
  results.OnFailure({}, {"cut", "second"});
  results.OnFailure({}, {"http 429", "full"});
  EXPECT_EQ(results.totals().failed, 3U);
  EXPECT_EQ(results.failures().at("cut").count, 2U);
  EXPECT_EQ(results.failures().at("cut").example, "first");
  EXPECT_EQ(results.ttft().count(), 0U);
  // A server that invents statuses fills no memory.
  for (int i = 0; i < 1000; ++i) results.OnFailure({}, {"http " + std::to_string(i), "x"});
  EXPECT_LE(results.failures().size(), 65U);
  std::uint64_t sum = 0;
  for (const auto& [kind, failure] : results.failures()) sum += failure.count;
  EXPECT_EQ(sum, 1003U);
}

TEST(PieceTimeline, ABinHoldsWhatCameInItsTime) {
  PieceTimeline timeline;
  for (const std::int64_t ms : {0, 49, 50, 120}) timeline.Add(ms * kMs);
  EXPECT_THAT(timeline.bins(), ElementsAre(2, 1, 1));
}

TEST(PieceTimeline, LongRunsMakeBinsWiderAndLoseNothing) {
  PieceTimeline timeline;
  std::vector<std::int64_t> times;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    times.push_back(static_cast<std::int64_t>(i * i) * kMs);  // 7 hours
    timeline.Add(times.back());
    if (i % 7 == 0) timeline.Add(times[i / 2]);  // and some out of order
  }
  EXPECT_LE(timeline.bins().size(), PieceTimeline::kBins);
  EXPECT_EQ(std::accumulate(timeline.bins().begin(), timeline.bins().end(), std::uint64_t{0}),
            5000U + 715U);
  // The same as bins of the final width from the start.
  std::vector<std::uint64_t> want(timeline.bins().size());
  for (std::uint64_t i = 0; i < 5000; ++i) {
    ++want[static_cast<std::size_t>(times[i] / timeline.bin_ns())];
    if (i % 7 == 0) ++want[static_cast<std::size_t>(times[i / 2] / timeline.bin_ns())];
  }
  EXPECT_EQ(timeline.bins(), want);
}

}  // namespace
}  // namespace ashlar::load
