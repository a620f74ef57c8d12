#include "server/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {
namespace {

TEST(StopMatcher, LetsEverythingOutWithoutStops) {
  StopMatcher matcher({}, false);
  EXPECT_EQ(matcher.Push("abc"), "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, HoldsBackExactlyWhatMayBeTheBeginning) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(matcher.Push("the E"), "the ");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_EQ(matcher.Push("E"), "EN");  // "ENE": the last E may begin one
  EXPECT_EQ(matcher.Push("x"), "Ex");
  EXPECT_EQ(matcher.Push(" EN"), " ");
  EXPECT_EQ(matcher.Finish(), "EN");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, EndsTheTextBeforeTheStopString) {
  StopMatcher matcher({"\n\n"}, false);
  EXPECT_EQ(matcher.Push("one\n"), "one");
  EXPECT_EQ(matcher.Push("\ntwo"), "");
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, LetsTheStopStringOutWhenAsked) {
  StopMatcher matcher({"##"}, true);
  EXPECT_EQ(matcher.Push("a#"), "a");
  EXPECT_EQ(matcher.Push("#b"), "##");
}

TEST(StopMatcher, TheFirstToBeCompleteWinsAndTheLongestOfThose) {
  StopMatcher first({"abcd", "bc"}, false);
  EXPECT_EQ(first.Push("xabcd"), "xa");
  EXPECT_EQ(first.matched(), 1u);
  StopMatcher longest({"c", "abc", "bc"}, false);
  EXPECT_EQ(longest.Push("xabc"), "x");
  EXPECT_EQ(longest.matched(), 1u);
}

struct Outcome {
  std::string text;
  std::optional<std::size_t> matched;
};

// The definition, searched for naively.
Outcome NaiveSearch(std::string_view text, const std::vector<std::string>& stops,
                    bool includes_stop) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    Outcome outcome;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const bool longer = !outcome.matched || stops[i].size() > stops[*outcome.matched].size();
      if (text.substr(0, end).ends_with(stops[i]) && longer) {
        outcome.matched = i;
      }
    }
    if (outcome.matched) {
      outcome.text = text.substr(0, includes_stop ? end : end - stops[*outcome.matched].size());
      return outcome;
    }
  }
  return {.text = std::string(text), .matched = {}};
}

// Over two letters, so that strings overlap themselves and each other.
TEST(StopMatcher, AgreesWithNaiveSearchHoweverThePiecesAreCut) {
  std::mt19937 random(7);
  const auto letters = [&random](std::size_t most) {
    std::string text(1 + random() % most, 'a');
    for (char& c : text) {
      c = random() % 3 == 0 ? 'b' : 'a';
    }
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) {
      stop = letters(7);
    }
    const bool includes_stop = random() % 2 == 0;
    const std::string text = letters(40);
    const Outcome want = NaiveSearch(text, stops, includes_stop);

    StopMatcher matcher(stops, includes_stop);
    std::string got;
    for (std::size_t at = 0; at < text.size() && !matcher.matched();) {
      const std::size_t size = random() % 5;
      got += matcher.Push(std::string_view(text).substr(at, size));
      at += std::min(size, text.size() - at);
      // Never a byte that is taken back later, nor one held that no stop string needs.
      ASSERT_TRUE(want.text.starts_with(got));
      if (!matcher.matched()) {
        std::size_t needed = 0;
        for (const std::string& stop : stops) {
          for (std::size_t length = 1; length < stop.size() && length <= at; ++length) {
            if (std::string_view(text).substr(0, at).ends_with(stop.substr(0, length))) {
              needed = std::max(needed, length);
            }
          }
        }
        ASSERT_EQ(got.size(), at - needed);
      }
    }
    got += matcher.Finish();
    ASSERT_EQ(got, want.text) << text;
    ASSERT_EQ(matcher.matched(), want.matched) << text;
    stopped += want.matched.has_value() ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
}

}  // namespace
}  // namespace ashlar::server
