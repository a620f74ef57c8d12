#include "load/pacer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"

namespace ashlar::load {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kMs = 1'000'000;

struct Begun {
  std::vector<std::int64_t> intended_ns;  // by conversation
  std::vector<std::int64_t> begun_ns;
  std::size_t peak = 0;
};

// Drives the pacer by its own word of when to be asked, conversation i taking service_ns[i].
Begun Simulate(PacerOptions options, const std::vector<std::int64_t>& service_ns) {
  ManualClock clock;
  Pacer pacer(std::move(options));
  std::multimap<std::int64_t, std::size_t> ends;
  Begun run;
  while (!pacer.is_done()) {
    while (const auto start = pacer.Begin(clock.NowNs())) {
      EXPECT_EQ(start->conversation, run.begun_ns.size());
      run.intended_ns.push_back(start->intended_ns);
      run.begun_ns.push_back(clock.NowNs());
      ends.emplace(clock.NowNs() + service_ns[start->conversation], start->conversation);
      run.peak = std::max(run.peak, pacer.running());
    }
    std::optional<std::int64_t> next = pacer.NextNs();
    if (!ends.empty() && (!next || ends.begin()->first <= *next)) next = ends.begin()->first;
    if (!next) break;  // nothing runs, nothing begins: is_done
    EXPECT_GE(*next, clock.NowNs());
    clock.AdvanceNs(*next - clock.NowNs());
    while (!ends.empty() && ends.begin()->first <= clock.NowNs()) {
      ends.erase(ends.begin());
      pacer.End();
    }
  }
  EXPECT_TRUE(pacer.is_done());
  return run;
}

TEST(Pacer, ClosedLoopBeginsOneWhenOneEnds) {
  const Begun run = Simulate({.conversations = 5, .concurrency = 2},
                             {10 * kMs, 30 * kMs, 5 * kMs, 5 * kMs, 5 * kMs});
  EXPECT_THAT(run.begun_ns, ElementsAre(0, 0, 10 * kMs, 15 * kMs, 20 * kMs));
  EXPECT_EQ(run.intended_ns, run.begun_ns);
  EXPECT_EQ(run.peak, 2U);
}

TEST(Pacer, OpenLoopKeepsTheIntendedStartWhenItMustWait) {
  // One at a time, 100 ms each, arriving every 10 ms: each begins later, and is late by its wait.
  const Begun run = Simulate(
      {.conversations = 4, .concurrency = 1, .arrivals_ns = {0, 10 * kMs, 20 * kMs, 500 * kMs}},
      {100 * kMs, 100 * kMs, 100 * kMs, 100 * kMs});
  EXPECT_THAT(run.intended_ns, ElementsAre(0, 10 * kMs, 20 * kMs, 500 * kMs));
  EXPECT_THAT(run.begun_ns, ElementsAre(0, 100 * kMs, 200 * kMs, 500 * kMs));
}

TEST(Pacer, OpenLoopDoesNotWaitForAnswers) {
  const Begun run =
      Simulate({.conversations = 3, .concurrency = 100, .arrivals_ns = {kMs, 2 * kMs, 3 * kMs}},
               {1000 * kMs, 1000 * kMs, 1000 * kMs});
  EXPECT_EQ(run.begun_ns, run.intended_ns);
  EXPECT_EQ(run.peak, 3U);
}

TEST(Pacer, NothingBeginsAfterTheEnd) {
  const std::vector<std::int64_t> service(100, 10 * kMs);
  EXPECT_EQ(Simulate({.conversations = 100, .concurrency = 1, .end_ns = 30 * kMs}, service)
                .begun_ns.size(),
            3U);
  EXPECT_THAT(
      Simulate(
          {.conversations = 2, .concurrency = 9, .arrivals_ns = {0, 30 * kMs}, .end_ns = 30 * kMs},
          service)
          .begun_ns,
      ElementsAre(0));
}

TEST(Pacer, RandomSchedulesKeepOrderAndLimitAndBeginWhenTheyMay) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::size_t count = RandomBits(seed, 0, 0) % 60;
    const std::size_t concurrency = 1 + RandomBits(seed, 0, 1) % 8;
    std::vector<std::int64_t> service;
    for (std::size_t i = 0; i < count; ++i) {
      service.push_back(static_cast<std::int64_t>(RandomBits(seed, 1, i) % (50 * kMs)));
    }
    const auto arrivals = PoissonArrivals(100, count, seed);
    const Begun run = Simulate(
        {.conversations = count, .concurrency = concurrency, .arrivals_ns = arrivals}, service);
    ASSERT_EQ(run.begun_ns.size(), count);
    EXPECT_LE(run.peak, concurrency);
    // The naive schedule: in order, at the arrival or when the first place is free.
    std::vector<std::int64_t> free_at(concurrency, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const auto place = std::ranges::min_element(free_at);
      const std::int64_t begin = std::max(arrivals[i], *place);
      ASSERT_EQ(run.begun_ns[i], begin) << seed << " " << i;
      *place = begin + service[i];
    }
  }
}

TEST(Pacer, PoissonGapsHaveTheRateAndItsScatter) {
  constexpr std::size_t kCount = 20'000;
  const auto arrivals = PoissonArrivals(50, kCount, 7);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals));
  EXPECT_NEAR(static_cast<double>(arrivals.back()) / kCount, 20 * kMs, 0.5 * kMs);
  double squares = 0;
  std::size_t above_mean = 0;
  for (std::size_t i = 1; i < kCount; ++i) {
    const double gap = static_cast<double>(arrivals[i] - arrivals[i - 1]) / (20 * kMs);
    squares += gap * gap;
    above_mean += gap > 1 ? 1 : 0;
  }
  EXPECT_NEAR(squares / kCount, 2, 0.1);  // of an exponential distribution with mean 1
  EXPECT_NEAR(static_cast<double>(above_mean) / kCount, std::exp(-1.0), 0.02);
  EXPECT_EQ(PoissonArrivals(50, 100, 7)[99], arrivals[99]);
  EXPECT_NE(PoissonArrivals(50, 100, 8)[99], arrivals[99]);
  EXPECT_THAT(EvenArrivals(1000, 3), ElementsAre(0, kMs, 2 * kMs));
}

}  // namespace
}  // namespace ashlar::load
