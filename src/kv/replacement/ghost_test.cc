#include "kv/replacement/ghost.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "base/rng.h"

namespace ashlar::kv {
namespace {

TEST(Ghost, RemembersADepartureOnce) {
  Ghost ghost(4);
  EXPECT_FALSE(ghost.Take(7));
  ghost.Add(7);
  EXPECT_TRUE(ghost.Take(7));
  EXPECT_FALSE(ghost.Take(7));
}

TEST(Ghost, RemembersTheLastWindowAndNotOneMore) {
  for (const std::uint32_t window : {1u, 2u, 3u, 5u, 8u}) {  // few enough for one set
    Ghost last(window), first(window);
    for (std::uint64_t content = 0; content < window; ++content) last.Add(content);
    for (std::uint64_t content = 0; content <= window; ++content) first.Add(content);
    EXPECT_TRUE(last.Take(0)) << window;
    EXPECT_FALSE(first.Take(0)) << window;
    EXPECT_TRUE(first.Take(1)) << window;
  }
}

TEST(Ghost, CountsAContentThatLeftAgainFromItsLastDeparture) {
  Ghost ghost(3);
  for (const std::uint64_t content : {1, 2, 1, 3, 4}) ghost.Add(content);
  EXPECT_TRUE(ghost.Take(1));
  EXPECT_FALSE(ghost.Take(2));
}

TEST(Ghost, KnowsNothingAtFirst) {
  Ghost ghost(1000);
  for (std::uint64_t content = 0; content < 10'000; ++content) ASSERT_FALSE(ghost.Take(content));
}

TEST(Ghost, TakesAnEmptyEntryForNoDeparture) {
  constexpr std::uint64_t kContent = 0xF8364607E9C949BD;
  static_assert(MixBits(kContent) == 1);  // its fingerprint is that of an empty entry: 0
  for (const std::uint32_t window : {0, 1, 2, 1000}) EXPECT_FALSE(Ghost(window).Take(kContent));
}

TEST(Ghost, WithoutAWindowForgetsAtOnce) {
  Ghost ghost(0);
  ghost.Add(1);
  EXPECT_FALSE(ghost.Take(1));
}

TEST(Ghost, ForgetsFewTooEarlyAndInventsNone) {
  constexpr std::uint64_t kWindow = 1000;
  constexpr std::uint64_t kDepartures = 50'000;
  Ghost ghost(kWindow);
  std::vector<bool> was_taken(kDepartures, false);
  std::mt19937_64 random(1);
  int remembered = 0;
  int forgotten = 0;
  for (std::uint64_t departures = 0; departures < kDepartures;) {
    ghost.Add(departures++);  // contents are numbers of departures
    EXPECT_FALSE(ghost.Take(kDepartures + random() % kDepartures));
    if (departures < kWindow || departures % 10 != 0) continue;
    const std::uint64_t content = departures - 1 - random() % kWindow;
    if (was_taken[content]) continue;
    was_taken[content] = true;
    ghost.Take(content) ? ++remembered : ++forgotten;
  }
  EXPECT_LT(forgotten * 100, remembered);
}

}  // namespace
}  // namespace ashlar::kv
