#include "load/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ashlar::load {
namespace {

using testing::ElementsAre;

TextMaker Words() { return TextMaker::OfWords({CommonWords().begin(), CommonWords().end()}); }

std::size_t Tokens(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' '));
}

std::size_t SharedTokens(const std::string& a, const std::string& b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  return Tokens(std::string(a.begin(), end));
}

TEST(Workload, ConversationsShareTheirPrefixAndNothingElse) {
  const auto workload = MakeSyntheticWorkload({.conversations = 6,
                                               .prefix_tokens = 100,
                                               .prefixes = 2,
                                               .prompt_tokens = {20, 20},
                                               .output_tokens = {5, 5}},
                                              Words());
  ASSERT_EQ(workload->conversations(), 6U);
  EXPECT_EQ(workload->requests(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto turns = workload->Turns(i);
    ASSERT_EQ(turns.size(), 1U);
    EXPECT_EQ(Tokens(turns[0].text), 120U);
    EXPECT_EQ(turns[0].max_tokens, 5U);
    EXPECT_EQ(workload->Turns(i)[0].text, turns[0].text);
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t shared = SharedTokens(turns[0].text, workload->Turns(j)[0].text);
      // The first word behind the prefix may begin alike.
      EXPECT_LE(shared, i % 2 == j % 2 ? 103U : 3U);
      EXPECT_GE(shared, i % 2 == j % 2 ? 100U : 0U);
    }
  }
}

TEST(Workload, ALaterPartIsTheSameAsInTheWhole) {
  SyntheticOptions options = {.conversations = 6,
                              .prefix_tokens = 10,
                              .prefixes = 4,
                              .prompt_tokens = {5, 9},
                              .output_tokens = {5, 9}};
  const auto whole = MakeSyntheticWorkload(options, Words());
  options.conversations = 2;
  options.first = 4;
  const auto part = MakeSyntheticWorkload(options, Words());
  EXPECT_EQ(part->conversations(), 2U);
  EXPECT_EQ(part->Turns(1)[0].text, whole->Turns(5)[0].text);
  EXPECT_EQ(part->Turns(1)[0].max_tokens, whole->Turns(5)[0].max_tokens);
}

TEST(Workload, LengthsAreDrawnFromTheirRangesEndsIncluded) {
  const auto workload = MakeSyntheticWorkload(
      {.conversations = 500, .prompt_tokens = {3, 7}, .output_tokens = {1, 2}, .seed = 9}, Words());
  std::set<std::size_t> prompts;
  std::set<std::uint64_t> outputs;
  for (std::size_t i = 0; i < 500; ++i) {
    prompts.insert(Tokens(workload->Turns(i)[0].text));
    outputs.insert(workload->Turns(i)[0].max_tokens);
  }
  EXPECT_THAT(prompts, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(outputs, ElementsAre(1, 2));
}

TEST(Workload, LaterTurnsHaveLengthsOfTheirOwn) {
  const auto workload = MakeSyntheticWorkload({.conversations = 2,
                                               .prompt_tokens = {50, 50},
                                               .turns = 3,
                                               .turn_tokens = {10, 10},
                                               .output_tokens = {4, 4}},
                                              Words());
  EXPECT_EQ(workload->requests(), 6U);
  const auto turns = workload->Turns(1);
  EXPECT_THAT(std::vector({Tokens(turns[0].text), Tokens(turns[1].text), Tokens(turns[2].text)}),
              ElementsAre(50, 10, 10));
  EXPECT_NE(turns[1].text, turns[2].text);
}

TEST(Workload, AnotherSeedIsAnotherText) {
  SyntheticOptions options = {.prompt_tokens = {20, 20}, .output_tokens = {1, 1}};
  const std::string text = MakeSyntheticWorkload(options, Words())->Turns(0)[0].text;
  options.seed = 1;
  EXPECT_NE(MakeSyntheticWorkload(options, Words())->Turns(0)[0].text, text);
}

std::vector<trace::Request> SmallTrace() {
  return {{.timestamp_ms = 100, .input_tokens = 1000, .output_tokens = 8, .hash_ids = {4, 9}},
          {.timestamp_ms = 150, .input_tokens = 1024, .output_tokens = 1, .hash_ids = {4, 9}},
          {.timestamp_ms = 1100, .input_tokens = 600, .output_tokens = 1, .hash_ids = {4, 5}}};
}

TEST(Workload, EqualHashIdsOfATraceAreEqualBlocksOfTokens) {
  const auto workload = MakeTraceWorkload(SmallTrace(), {}, Words());
  EXPECT_EQ(workload->conversations(), 3U);
  const std::string first = workload->Turns(0)[0].text;
  const std::string second = workload->Turns(1)[0].text;
  const std::string third = workload->Turns(2)[0].text;
  EXPECT_EQ(Tokens(first), 1000U);
  EXPECT_EQ(Tokens(second), 1024U);
  EXPECT_EQ(Tokens(third), 600U);
  EXPECT_TRUE(second.starts_with(first));
  EXPECT_GE(SharedTokens(first, third), 512U);
  EXPECT_LE(SharedTokens(first, third), 515U);
  EXPECT_EQ(workload->Turns(0)[0].max_tokens, 8U);
}

TEST(Workload, ATraceCanBeMadeSmaller) {
  const auto workload = MakeTraceWorkload(SmallTrace(), {.length_scale = 1.0 / 64}, Words());
  EXPECT_EQ(Tokens(workload->Turns(0)[0].text), 16U);
  EXPECT_EQ(Tokens(workload->Turns(2)[0].text), 9U);
  EXPECT_GE(SharedTokens(workload->Turns(0)[0].text, workload->Turns(2)[0].text), 8U);
  EXPECT_EQ(workload->Turns(0)[0].max_tokens, 1U);
}

TEST(Workload, ArrivalsOfATraceBeginAtZeroAndScale) {
  EXPECT_THAT(TraceArrivals(SmallTrace(), 1), ElementsAre(0, 50'000'000, 1'000'000'000));
  EXPECT_THAT(TraceArrivals(SmallTrace(), 0.5), ElementsAre(0, 25'000'000, 500'000'000));
}

}  // namespace
}  // namespace ashlar::load
