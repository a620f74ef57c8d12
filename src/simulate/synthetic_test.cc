#include "simulate/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace ashlar::simulate {
namespace {

using testing::HasSubstr;

std::vector<trace::Request> All(const SyntheticOptions& options) {
  EXPECT_TRUE(Validate(options).ok());
  std::vector<trace::Request> all;
  const auto source = MakeSynthetic(options);
  for (trace::Request request; *source->Next(request);) all.push_back(request);
  return all;
}

SyntheticOptions Preset(const char* name, std::uint64_t requests) {
  SyntheticOptions options = *SyntheticPreset(name);
  options.requests = requests;
  return options;
}

TEST(Synthetic, EveryKindIsSortedWholeAndTheSameAgain) {
  for (const char* const name : {"shared-prompt", "chat", "rag", "agent"}) {
    SCOPED_TRACE(name);
    const auto all = All(Preset(name, 300));
    const auto again = All(Preset(name, 300));
    ASSERT_EQ(all.size(), 300U);
    std::map<std::uint64_t, std::uint64_t> parent;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].hash_ids, again[i].hash_ids);
      EXPECT_EQ(all[i].timestamp_ms, again[i].timestamp_ms);
      EXPECT_GE(all[i].timestamp_ms, all[i > 0 ? i - 1 : 0].timestamp_ms);
      EXPECT_EQ((all[i].input_tokens + all[i].output_tokens) / 16, all[i].hash_ids.size());
      // Equal ids, equal prefixes.
      std::uint64_t before = 0;
      for (const std::uint64_t id : all[i].hash_ids) {
        EXPECT_EQ(parent.try_emplace(id, before).first->second, before);
        before = id;
      }
    }
    SyntheticOptions other = Preset(name, 300);
    other.seed = 1;
    EXPECT_NE(All(other)[0].hash_ids, all[0].hash_ids);
  }
  EXPECT_THAT(SyntheticPreset("bursts").error().message, HasSubstr("shared-prompt, chat, rag"));
}

TEST(Synthetic, ConversationsArriveAtTheRate) {
  SyntheticOptions options = Preset("shared-prompt", 5000);
  options.conversations_per_s = 20;
  const auto all = All(options);
  EXPECT_NEAR(all.back().timestamp_ms / 1000, 250, 15);
}

TEST(Synthetic, SomeDocumentsAreFarMorePopular) {
  SyntheticOptions options = Preset("rag", 4000);
  options.documents = 100;
  std::map<std::uint64_t, int> asked;  // by the document's last block
  const std::size_t last = (options.prefix_tokens + options.document_tokens) / 16 - 1;
  for (const trace::Request& request : All(options)) ++asked[request.hash_ids[last]];
  EXPECT_LE(asked.size(), 100U);
  EXPECT_GT(asked.size(), 80U);
  int most = 0;
  for (const auto& [id, count] : asked) most = std::max(most, count);
  EXPECT_GT(most, 4000 / 10);
  EXPECT_LT(most, 4000 / 4);
}

TEST(Synthetic, ALaterTurnGoesOnWhereTheOneBeforeEnded) {
  SyntheticOptions options = Preset("chat", 500);
  options.turns = {3, 3};
  std::set<std::uint64_t> ends;
  std::size_t later_turns = 0;
  const std::size_t prefix = options.prefix_tokens / 16;
  for (const trace::Request& request : All(options)) {
    bool is_later = false;
    for (std::size_t i = prefix; i < request.hash_ids.size(); ++i) {
      is_later = is_later || ends.contains(request.hash_ids[i]);
    }
    later_turns += is_later ? 1 : 0;
    ends.insert(request.hash_ids.back());
  }
  EXPECT_GT(later_turns, 250U);
}

TEST(Synthetic, WhatIsOutOfRangeIsNamed) {
  SyntheticOptions options;
  options.requests = 0;
  EXPECT_THAT(Validate(options).error().message, HasSubstr("the number of requests is 0"));
  options = {};
  options.conversations_per_s = std::nan("");
  EXPECT_THAT(Validate(options).error().message, HasSubstr("conversations per second"));
  options = {};
  options.output_tokens = {5, 4};
  EXPECT_THAT(Validate(options).error().message, HasSubstr("the output's tokens is 4"));
  options = {};
  options.turns = {0, 4};
  EXPECT_THAT(Validate(options).error().message, HasSubstr("the number of turns is 0"));
}

}  // namespace
}  // namespace ashlar::simulate
