// What is remembered of what is gone, and how a miss is explained.
#include "kv/miss.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace ashlar::kv {
namespace {

Scope ScopeOf(std::uint64_t epoch) { return {.model_fingerprint = "m", .weights_epoch = epoch}; }

void See(MissMemory& memory, std::uint64_t tokens_hash, const Scope& scope) {
  memory.OnFirstBlock(tokens_hash, memory.OnScope(scope));
}

TEST(MissMemory, KnowsWhenAPrefixWasReplaced) {
  MissMemory memory;
  EXPECT_EQ(memory.WhenReplaced(7), 0);
  memory.OnReplaced(7, 123);
  EXPECT_EQ(memory.WhenReplaced(7), 123);
  EXPECT_EQ(memory.WhenReplaced(8), 0);
  memory.OnReplaced(7, 456);
  EXPECT_EQ(memory.WhenReplaced(7), 456);
  memory.OnReplaced(9, 0);
  EXPECT_EQ(memory.WhenReplaced(9), 1);  // 0 says: not known
}

TEST(MissMemory, NewerFactsPushOutOlderOnesAndNeverLie) {
  MissMemory memory;
  constexpr std::uint64_t kStep = std::uint64_t{1} << 40;  // the same place, other hashes
  memory.OnReplaced(5, 1);
  memory.OnReplaced(5 + kStep, 2);
  EXPECT_EQ(memory.WhenReplaced(5), 0);
  EXPECT_EQ(memory.WhenReplaced(5 + kStep), 2);
  See(memory, 5, ScopeOf(1));
  See(memory, 5 + kStep, ScopeOf(2));
  EXPECT_EQ(memory.OtherScope(5, ScopeOf(3)), ScopeDifference::kNone);
  EXPECT_EQ(memory.OtherScope(5 + kStep, ScopeOf(3)), ScopeDifference::kEpoch);
}

TEST(MissMemory, ComparesWithTheScopeThatStoredTheTokensLast) {
  MissMemory memory;
  Scope salted = ScopeOf(1);
  salted.tenant_salt = "s";
  See(memory, 5, ScopeOf(1));
  EXPECT_EQ(memory.OtherScope(5, salted), ScopeDifference::kSalt);
  EXPECT_EQ(memory.OtherScope(5, ScopeOf(1)), ScopeDifference::kNone);
  See(memory, 5, salted);
  EXPECT_EQ(memory.OtherScope(5, ScopeOf(1)), ScopeDifference::kSalt);
  EXPECT_EQ(memory.OtherScope(6, ScopeOf(1)), ScopeDifference::kNone);
}

TEST(MissMemory, ForgetsScopesAfterManyNewerOnes) {
  MissMemory memory;
  See(memory, 1, ScopeOf(0));
  for (std::uint64_t epoch = 1; epoch <= 255; ++epoch) See(memory, 1 + epoch, ScopeOf(epoch));
  EXPECT_EQ(memory.OtherScope(1, ScopeOf(999)), ScopeDifference::kEpoch);
  See(memory, 300, ScopeOf(300));  // takes the first one's place
  EXPECT_EQ(memory.OtherScope(1, ScopeOf(999)), ScopeDifference::kNone);
  EXPECT_EQ(memory.OtherScope(2, ScopeOf(999)), ScopeDifference::kEpoch);
}

TEST(LookupReport, EveryReasonHasANameAndASentenceOfItsOwn) {
  std::set<std::string> names;
  std::set<std::string> sentences;
  constexpr auto kReasons = static_cast<std::uint8_t>(MissReason::kDisabled) + 1;
  for (std::uint8_t i = 0; i < kReasons; ++i) {
    const LookupReport report{.prompt_tokens = 50,
                              .hit_tokens = 32,
                              .reason = static_cast<MissReason>(i),
                              .position = 32,
                              .time_ns = 1'500'000'000,
                              .pending_tokens = 16};
    names.insert(std::string(NameOf(report.reason)));
    sentences.insert(report.Explain());
    EXPECT_TRUE(report.Explain().starts_with("32 of 50 prompt tokens")) << report.Explain();
  }
  EXPECT_EQ(names.size(), kReasons);
  EXPECT_EQ(sentences.size(), kReasons);
}

TEST(LookupReport, SentencesHaveTheNumbers) {
  LookupReport report{.prompt_tokens = 50, .hit_tokens = 32, .position = 32};
  report.reason = MissReason::kReplaced;
  report.time_ns = 1'500'000'000;
  EXPECT_EQ(report.Explain(),
            "32 of 50 prompt tokens were served from the cache; the block at token 32 was replaced "
            "at 1.500 s");
  report.reason = MissReason::kOtherSalt;
  EXPECT_EQ(report.Explain(),
            "32 of 50 prompt tokens were served from the cache; the same tokens are held under "
            "another salt");
}

}  // namespace
}  // namespace ashlar::kv
