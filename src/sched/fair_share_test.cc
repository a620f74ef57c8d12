#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
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

// Three tenants that always have something waiting, with random weights, lengths and limits: in no
// step has one been served more than what runs at once beyond its share.
TEST(FairShare, NoRandomBacklogLeavesAnybodyBehind) {
  constexpr std::uint64_t kTenants = 3;
  constexpr std::uint64_t kEach = 40;
  std::uint64_t steps = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t draws = 0;
    const auto random = [&](std::uint64_t below) { return RandomBits(seed, 5, draws++) % below; };
    const auto running = static_cast<std::uint32_t>(1 + random(8));
    Scheduler scheduler({.max_step_tokens = running + static_cast<std::uint32_t>(random(40)),
                         .prefill_chunk = static_cast<std::uint32_t>(1 + random(30)),
                         .max_running = running});
    AdmitAll memory;
    struct Request {
      std::uint64_t tenant;
      std::uint64_t generate;
    };
    std::vector<Request> requests;
    std::uint32_t weights[kTenants];
    for (std::uint32_t& weight : weights) weight = static_cast<std::uint32_t>(1 + random(4));
    std::uint64_t longest = 0;
    for (std::uint64_t tenant = 0; tenant < kTenants; ++tenant) {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t prompt = 1 + random(60);
        requests.push_back({.tenant = tenant, .generate = 1 + random(20)});
        longest = std::max(longest, prompt + requests.back().generate - 1);
        scheduler.Add({.id = SequenceId(requests.size() - 1),
                       .tokens = prompt,
                       .tenant = std::string(1, static_cast<char>('a' + tenant)),
                       .weight = weights[tenant]});
      }
    }
    double served[kTenants] = {};  // over weight
    std::uint64_t waiting[kTenants] = {kEach, kEach, kEach};
    while (std::ranges::min(waiting) > 0) {
      const StepPlan plan = scheduler.Plan(memory);
      scheduler.Commit();
      ++steps;
      for (const AdmittedSequence& admitted : plan.admitted) {
        --waiting[requests[admitted.id.value()].tenant];
      }
      for (const StepItem& item : plan.items) {
        Request& request = requests[item.id.value()];
        served[request.tenant] += static_cast<double>(item.tokens) / weights[request.tenant];
        if (!item.reaches_end) continue;
        if (--request.generate == 0) {
          scheduler.Remove(item.id);
        } else {
          scheduler.Append(item.id);
        }
      }
      const auto [least, most] = std::ranges::minmax(served);
      ASSERT_LE(most - least, static_cast<double>(running * longest));
    }
  }
  EXPECT_GT(steps, 50'000u);
}

}  // namespace
}  // namespace ashlar::sched
