#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include <string>

#include "sched/scheduler.h"

namespace ashlar::sched {
namespace {

TEST(FairShare, WhoComesStartsAtTheLowestOfThoseThere) {
  FairShare shares;
  Tenant& a = shares.Join("a", 1);
  Tenant& b = shares.Join("b", 1);
  FairShare::Charge(a, 100);
  FairShare::Charge(b, 30);
  EXPECT_EQ(shares.Join("c", 1).used, 30u << 16);
}

TEST(FairShare, BeingIdleEarnsNothingAndPaysNothing) {
  FairShare shares;
  Tenant& a = shares.Join("a", 1);
  FairShare::Charge(shares.Join("b", 1), 10);
  FairShare::Charge(a, 100);
  shares.Leave(a);
  EXPECT_EQ(shares.tenants(), 2u);                  // it owes 90
  EXPECT_EQ(shares.Join("a", 1).used, 100u << 16);  // still
  shares.Leave(shares.Join("b", 1));
  Tenant& b = shares.Join("b", 1);
  FairShare::Charge(b, 500);
  shares.Leave(b);
  shares.Leave(b);
  shares.Leave(b);
  EXPECT_EQ(shares.Join("d", 1).used, 100u << 16);  // a is still there
}

TEST(FairShare, WhoOwesNothingIsForgottenAndTheRestIsBounded) {
  FairShare shares;
  Tenant& low = shares.Join("low", 1);
  for (std::uint64_t i = 0; i < FairShare::kMaxIdle + 10; ++i) {
    Tenant& tenant = shares.Join("debtor " + std::to_string(i), 1);
    FairShare::Charge(tenant, 1 + i);
    shares.Leave(tenant);
  }
  EXPECT_EQ(shares.tenants(), FairShare::kMaxIdle + 1);
  FairShare::Charge(low, 1'000'000);
  shares.Leave(low);
  EXPECT_EQ(shares.tenants(), 0u);
}

class AdmitAll final : public Memory {
 public:
  Admission Admit(SequenceId) override { return {.answer = Admission::Answer::kAdmitted}; }
  Admission AdmitAtOnce(SequenceId id) override { return Admit(id); }
  bool Grow(SequenceId, std::uint32_t) override { return true; }
  void Preempt(SequenceId) override {}
  std::uint64_t TokensAtStake(SequenceId) const override { return 0; }
  std::uint64_t CachedTokens(SequenceId) override { return 0; }
};

// Two tenants with much to do, of different weights: at any time they have been served in
// proportion, up to what can run at once.
TEST(FairShare, BackloggedTenantsAreServedByTheirWeights) {
  for (const std::uint32_t weight : {1u, 3u}) {
    Scheduler scheduler({.max_step_tokens = 32, .prefill_chunk = 16, .max_running = 4});
    AdmitAll memory;
    constexpr std::uint64_t kPrompt = 40;
    constexpr std::uint64_t kGenerate = 5;
    constexpr std::uint64_t kEach = 200;
    for (std::uint64_t i = 0; i < kEach; ++i) {  // the first comes with all of its before the other
      scheduler.Add({.id = SequenceId(i), .tokens = kPrompt, .tenant = "flood"});
    }
    for (std::uint64_t i = kEach; i < 2 * kEach; ++i) {
      scheduler.Add({.id = SequenceId(i), .tokens = kPrompt, .tenant = "other", .weight = weight});
    }
    std::uint64_t served[2] = {};
    std::map<SequenceId, std::uint64_t> generated;
    std::uint64_t left[2] = {kEach, kEach};
    while (left[0] > 0 && left[1] > 0) {
      const StepPlan plan = scheduler.Plan(memory);
      scheduler.Commit();
      for (const StepItem& item : plan.items) {
        const std::size_t tenant = item.id.value() < kEach ? 0 : 1;
        served[tenant] += item.tokens;
        if (!item.reaches_end) continue;
        if (++generated[item.id] == kGenerate) {
          scheduler.Remove(item.id);
          --left[tenant];
        } else {
          scheduler.Append(item.id);
        }
      }
      const double difference = static_cast<double>(served[0]) -
                                static_cast<double>(served[1]) / static_cast<double>(weight);
      ASSERT_LE(std::abs(difference), 4 * (kPrompt + kGenerate)) << weight;
    }
    EXPECT_GT(served[0], 1000u);
  }
}

}  // namespace
}  // namespace ashlar::sched
