#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ashlar::sched {
namespace {

using Answer = Admission::Answer;

SequenceId Id(std::uint64_t value) { return SequenceId(value); }

// Says what it was told to say, and keeps what it was asked.
class ScriptedMemory final : public Memory {
 public:
  Admission Admit(SequenceId id) override {
    asked.push_back(id);
    return admit(id);
  }
  Admission AdmitAtOnce(SequenceId id) override {
    asked_at_once.push_back(id);
    return {.answer = Answer::kAdmitted};
  }
  bool Grow(SequenceId id, std::uint32_t tokens) override { return grow(id, tokens); }
  void Preempt(SequenceId id) override { preempted.push_back(id); }
  std::uint64_t TokensAtStake(SequenceId id) const override {
    const auto it = stakes.find(id);
    return it == stakes.end() ? 0 : it->second;
  }
  std::uint64_t CachedTokens(SequenceId id) override { return cached[id]; }

  std::function<Admission(SequenceId)> admit = [](SequenceId) {
    return Admission{.answer = Answer::kAdmitted};
  };
  std::function<bool(SequenceId, std::uint32_t)> grow = [](SequenceId, std::uint32_t) {
    return true;
  };
  std::map<SequenceId, std::uint64_t> stakes;
  std::map<SequenceId, std::uint64_t> cached;
  std::vector<SequenceId> asked;
  std::vector<SequenceId> asked_at_once;
  std::vector<SequenceId> preempted;
};

std::vector<SequenceId> IdsOf(const std::vector<AdmittedSequence>& admitted) {
  std::vector<SequenceId> ids;
  ids.reserve(admitted.size());
  for (const AdmittedSequence& one : admitted) ids.push_back(one.id);
  return ids;
}
std::vector<SequenceId> IdsOf(const std::vector<StepItem>& items) {
  std::vector<SequenceId> ids;
  ids.reserve(items.size());
  for (const StepItem& item : items) ids.push_back(item.id);
  return ids;
}

class SchedulerTest : public testing::Test {
 protected:
  // Plans and commits; every sequence that reaches its end goes on.
  StepPlan Step(Scheduler& scheduler) {
    StepPlan plan = scheduler.Plan(memory_);
    scheduler.Commit();
    for (const StepItem& item : plan.items) {
      if (item.reaches_end) scheduler.Append(item.id);
    }
    scheduler.CheckInvariants();
    return plan;
  }
  // Admits and computes prompts of one token: from then on they decode.
  void Start(Scheduler& scheduler, const std::vector<SequenceSpec>& specs) {
    for (const SequenceSpec& spec : specs) scheduler.Add(spec);
    ASSERT_EQ(Step(scheduler).admitted.size(), specs.size());
  }

  ScriptedMemory memory_;
};

TEST_F(SchedulerTest, CutsAPromptIntoChunksAndThenDecodes) {
  Scheduler scheduler({.max_step_tokens = 16, .prefill_chunk = 10, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 25});
  std::vector<std::uint32_t> chunks;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const StepPlan& plan = scheduler.Plan(memory_);
    ASSERT_EQ(plan.admitted.size(), step == 0 ? 1u : 0u);
    ASSERT_EQ(plan.items.size(), 1u);
    EXPECT_EQ(plan.items[0].position, 10 * step);
    EXPECT_EQ(plan.items[0].reaches_end, step == 2);
    EXPECT_FALSE(plan.items[0].is_decode);
    chunks.push_back(plan.items[0].tokens);
    scheduler.Commit();
  }
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{10, 10, 5}));
  EXPECT_TRUE(scheduler.Plan(memory_).items.empty());  // nothing to do until a token is appended
  scheduler.Append(Id(1));
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(plan.items[0].position, 25u);
  EXPECT_TRUE(plan.items[0].is_decode);
  EXPECT_EQ(plan.tokens, 1u);
  EXPECT_EQ(plan.decode_tokens, 1u);
  EXPECT_EQ(plan.attended_pairs, 26u);
}

TEST_F(SchedulerTest, DecodesGoBeforePrefills) {
  Scheduler scheduler({.max_step_tokens = 8, .prefill_chunk = 8, .max_running = 4});
  Start(scheduler, {{.id = Id(1), .tokens = 1}});
  scheduler.Add({.id = Id(2), .tokens = 100, .priority = -5});
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(IdsOf(plan.items), (std::vector{Id(1), Id(2)}));
  EXPECT_EQ(plan.items[1].tokens, 7u);
  EXPECT_EQ(plan.tokens, 8u);
}

// As verification of drafts needs it.
TEST_F(SchedulerTest, SeveralAppendedTokensAreOneDecodeAndLeaveOthersTheirs) {
  Scheduler scheduler({.max_step_tokens = 6, .prefill_chunk = 8, .max_running = 3});
  Start(scheduler, {{.id = Id(1), .tokens = 1}, {.id = Id(2), .tokens = 1}});
  scheduler.Plan(memory_);
  scheduler.Commit();
  scheduler.Append(Id(1), 8);
  scheduler.Append(Id(2), 1);
  const StepPlan& plan = scheduler.Plan(memory_);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].tokens, 5u);
  EXPECT_FALSE(plan.items[0].reaches_end);
  EXPECT_TRUE(plan.items[0].is_decode);
  EXPECT_EQ(plan.items[1].tokens, 1u);
  EXPECT_EQ(plan.decode_tokens, 6u);
}

TEST_F(SchedulerTest, WrongGuessesAreForgottenAndDroppedByAPreemption) {
  Scheduler scheduler({.max_step_tokens = 16, .prefill_chunk = 8, .max_running = 3});
  Start(scheduler, {{.id = Id(1), .tokens = 3}});
  scheduler.Plan(memory_);
  scheduler.Commit();
  scheduler.Append(Id(1), 4);
  scheduler.Plan(memory_);
  scheduler.Commit();
  scheduler.Forget(Id(1), 3);
  scheduler.Append(Id(1));
  const StepPlan& plan = scheduler.Plan(memory_);
  ASSERT_EQ(plan.items.size(), 1u);
  // Three of the prompt, one generated, one more and the one guess after it that was right.
  EXPECT_EQ(plan.items[0].position, 6u);
  EXPECT_EQ(plan.items[0].tokens, 1u);
  scheduler.CheckInvariants();
}

TEST_F(SchedulerTest, ARestartedSequenceComputesItsNewTextFromTheBeginning) {
  Scheduler scheduler({.max_step_tokens = 16, .prefill_chunk = 8, .max_running = 3});
  Start(scheduler, {{.id = Id(1), .tokens = 3}});
  scheduler.Restart(Id(1), 12);
  EXPECT_EQ(scheduler.running(), 0u);
  scheduler.Add({.id = Id(2), .tokens = 2});
  const StepPlan& plan = scheduler.Plan(memory_);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].id, Id(1));  // before the one that came later
  EXPECT_EQ(plan.items[0].position, 0u);
  EXPECT_EQ(plan.items[0].tokens, 8u);
  scheduler.CheckInvariants();
}

// --- The ITL target ---

TEST_F(SchedulerTest, AnItlTargetBoundsPrefillsWhileDecodesRun) {
  Scheduler scheduler(
      {.max_step_tokens = 512, .prefill_chunk = 256, .max_running = 4, .itl_target_ns = 10'000});
  scheduler.SetCost({.fixed_ns = 1'000, .per_token_ns = 100});
  scheduler.Add({.id = Id(1), .tokens = 300});
  EXPECT_EQ(scheduler.Plan(memory_).tokens, 256u);  // nobody is delayed
  scheduler.Commit();
  Step(scheduler);
  scheduler.Add({.id = Id(2), .tokens = 300});
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(plan.decode_tokens, 1u);
  EXPECT_EQ(plan.tokens, 90u);  // 1,000 + 90 x 100: exactly
}

TEST_F(SchedulerTest, ATargetThatDecodesUseUpLeavesTheFloor) {
  Scheduler scheduler({.prefill_chunk = 256, .max_running = 4, .itl_target_ns = 10});
  scheduler.SetCost({.fixed_ns = 1'000, .per_token_ns = 100, .per_context_token_ns = 1});
  Start(scheduler, {{.id = Id(1), .tokens = 1}});
  scheduler.Add({.id = Id(2), .tokens = 10});
  scheduler.Add({.id = Id(3), .tokens = 300});
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(IdsOf(plan.items), (std::vector{Id(1), Id(2), Id(3)}));
  EXPECT_EQ(plan.tokens, 1 + Scheduler::kPrefillFloor);
}

TEST_F(SchedulerTest, ContextCountsInThePrediction) {
  const StepCost cost = {.fixed_ns = 5, .per_token_ns = 10, .per_context_token_ns = 1};
  EXPECT_EQ(cost.PredictNs(3, AttendedPairs(100, 3)), 5 + 30 + 101 + 102 + 103);
  EXPECT_EQ(cost.TokensWithin(336, 100, 50), 3u);
  EXPECT_EQ(cost.TokensWithin(335.9, 100, 50), 2u);
  EXPECT_EQ(cost.TokensWithin(336, 100, 2), 2u);
  EXPECT_EQ(cost.TokensWithin(110, 100, 50), 0u);
  EXPECT_EQ(cost.TokensWithin(-1, 0, 50), 0u);
  EXPECT_EQ(StepCost{}.TokensWithin(0, 1000, 50), 50u);  // not known: no bound
}

// --- Who goes first ---

TEST_F(SchedulerTest, WhoeverNeedsMemoryFirstIsNotOvertakenByItsEquals) {
  Scheduler scheduler({.max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 1, .tenant = "much served"});
  scheduler.Add({.id = Id(2), .tokens = 1, .tenant = "much served"});
  scheduler.Add({.id = Id(3), .tokens = 1, .priority = 1});
  memory_.admit = [](SequenceId id) {
    return Admission{.answer = id == Id(1) ? Answer::kNoMemory : Answer::kAdmitted};
  };
  EXPECT_TRUE(scheduler.Plan(memory_).admitted.empty());
  EXPECT_EQ(memory_.asked, std::vector{Id(1)});
  scheduler.Add({.id = Id(4), .tokens = 1, .tenant = "never served"});
  EXPECT_TRUE(scheduler.Plan(memory_).admitted.empty());
  scheduler.Add({.id = Id(5), .tokens = 1, .priority = -1});
  EXPECT_EQ(IdsOf(scheduler.Plan(memory_).admitted), std::vector{Id(5)});
  memory_.admit = [](SequenceId) { return Admission{.answer = Answer::kAdmitted}; };
  scheduler.Commit();
  scheduler.Remove(Id(5));
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(plan.admitted.front().id, Id(1));
  EXPECT_EQ(plan.admitted.back().id, Id(3));
}

TEST_F(SchedulerTest, IsNotAskedAgainUntilMemoryComesBack) {
  Scheduler scheduler({.max_running = 4});
  Start(scheduler, {{.id = Id(1), .tokens = 1}, {.id = Id(2), .tokens = 1}});
  memory_.asked.clear();
  memory_.admit = [](SequenceId) { return Admission{}; };
  scheduler.Add({.id = Id(3), .tokens = 1});
  for (std::uint64_t i = 0; i < Scheduler::kAskAgainSteps; ++i) Step(scheduler);
  EXPECT_EQ(memory_.asked.size(), 1u);
  Step(scheduler);
  EXPECT_EQ(memory_.asked.size(), 2u);
  scheduler.Remove(Id(1));
  Step(scheduler);
  EXPECT_EQ(memory_.asked.size(), 3u);
}

TEST_F(SchedulerTest, TheOneThatCanNeverBeAdmittedIsNamed) {
  Scheduler scheduler({.max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 1});
  memory_.admit = [](SequenceId) { return Admission{}; };
  EXPECT_EQ(scheduler.Plan(memory_).stuck, Id(1));
}

TEST_F(SchedulerTest, UrgentOnesGoFirstAndTakePlaces) {
  Scheduler scheduler({.max_running = 2});
  Start(scheduler, {{.id = Id(1), .tokens = 1, .priority = 1}, {.id = Id(2), .tokens = 1}});
  scheduler.Add({.id = Id(3), .tokens = 1, .priority = 1});
  scheduler.Add({.id = Id(4), .tokens = 1});
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(IdsOf(plan.admitted), std::vector{Id(4)});
  EXPECT_EQ(plan.preempted_for_urgent, 1u);
  EXPECT_EQ(plan.preempted, std::vector{Id(1)});
  EXPECT_EQ(IdsOf(plan.items), (std::vector{Id(2), Id(4)}));  // not what it had been planned for
  EXPECT_EQ(plan.decode_tokens, 1u);
  scheduler.Commit();
  scheduler.Remove(Id(2));
  const StepPlan& next = scheduler.Plan(memory_);
  EXPECT_EQ(IdsOf(next.admitted), std::vector{Id(1)});  // before the new one of its priority
  EXPECT_TRUE(next.admitted[0].is_resumed);
}

TEST_F(SchedulerTest, UrgentOnesTakeMemoryButNotFromTheirEquals) {
  Scheduler scheduler({.max_running = 8});
  Start(scheduler, {{.id = Id(1), .tokens = 1},
                    {.id = Id(2), .tokens = 1, .priority = 2},
                    {.id = Id(3), .tokens = 1, .priority = 3}});
  memory_.admit = [this](SequenceId) {
    return Admission{.answer =
                         memory_.preempted.size() < 2 ? Answer::kNoMemory : Answer::kAdmitted};
  };
  scheduler.Add({.id = Id(4), .tokens = 1, .priority = 1});
  const StepPlan& plan = scheduler.Plan(memory_);
  EXPECT_EQ(plan.preempted_for_urgent, 2u);
  EXPECT_EQ(plan.preempted, (std::vector{Id(3), Id(2)}));
  EXPECT_EQ(IdsOf(plan.admitted), std::vector{Id(4)});
  memory_.admit = [](SequenceId) { return Admission{}; };
  scheduler.Commit();
  scheduler.Add({.id = Id(5), .tokens = 1, .priority = 1});
  EXPECT_TRUE(scheduler.Plan(memory_).preempted.empty());
}

TEST_F(SchedulerTest, PromptsThatAreMostlyCachedMayGoFirstWithinBounds) {
  Scheduler scheduler({.max_step_tokens = 4, .prefill_chunk = 4, .max_running = 1});
  scheduler.Add({.id = Id(0), .tokens = 8});
  const std::uint64_t count = WaitingLine::kMaxPassed + 4;
  for (std::uint64_t id = 1; id <= count; ++id) {
    scheduler.Add({.id = Id(id), .tokens = 8});
    memory_.cached[Id(id)] = 4;
  }
  std::vector<SequenceId> order;
  while (scheduler.running() + scheduler.waiting() > 0) {
    const StepPlan plan = scheduler.Plan(memory_);
    for (const AdmittedSequence& one : plan.admitted) order.push_back(one.id);
    scheduler.Commit();
    for (const StepItem& item : plan.items) {
      if (item.reaches_end) scheduler.Remove(item.id);
    }
  }
  ASSERT_EQ(order.size(), count + 1);
  EXPECT_EQ(order[0], Id(1));
  EXPECT_EQ(order[WaitingLine::kMaxPassed], Id(0));
  // Beyond the window nobody looks.
  memory_.cached.clear();
  for (std::uint64_t id = 100; id <= 100 + WaitingLine::kMaxWindow; ++id) {
    scheduler.Add({.id = Id(id), .tokens = 8});
  }
  memory_.cached[Id(100 + WaitingLine::kMaxWindow)] = 8;
  EXPECT_EQ(IdsOf(scheduler.Plan(memory_).admitted), std::vector{Id(100)});
}

// --- Waiting for a prefix ---

TEST_F(SchedulerTest, OthersGoBeforeWhoeverWaitsForAPrefix) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 10, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 40});
  scheduler.Add({.id = Id(2), .tokens = 40});
  scheduler.Add({.id = Id(3), .tokens = 1});
  memory_.admit = [](SequenceId id) {
    return id == Id(2) ? Admission{.answer = Answer::kWait, .pending_tokens = 30}
                       : Admission{.answer = Answer::kAdmitted};
  };
  EXPECT_EQ(IdsOf(scheduler.Plan(memory_).admitted), (std::vector{Id(1), Id(3)}));
  scheduler.Commit();  // 11 tokens
  memory_.asked.clear();
  scheduler.Plan(memory_);
  scheduler.Commit();
  EXPECT_TRUE(memory_.asked.empty());  // it cannot be over yet
  memory_.admit = [](SequenceId) { return Admission{.answer = Answer::kAdmitted}; };
  scheduler.Plan(memory_);
  scheduler.Commit();  // 31
  EXPECT_EQ(IdsOf(scheduler.Plan(memory_).admitted), std::vector{Id(2)});
}

TEST_F(SchedulerTest, WhoeverWaitsForAPrefixIsAskedAgainWhenItsSequenceGoes) {
  for (const bool is_preempted : {false, true}) {
    Scheduler scheduler({.max_step_tokens = 4, .prefill_chunk = 4, .max_running = 2});
    scheduler.Add({.id = Id(1), .tokens = 100});
    Step(scheduler);
    scheduler.Add({.id = Id(2), .tokens = 100, .priority = -1});
    memory_.admit = [](SequenceId id) {
      return id == Id(2) ? Admission{.answer = Answer::kWait, .pending_tokens = 1000}
                         : Admission{.answer = Answer::kAdmitted};
    };
    Step(scheduler);
    memory_.admit = [](SequenceId) { return Admission{.answer = Answer::kAdmitted}; };
    if (is_preempted) {
      scheduler.Add({.id = Id(3), .tokens = 1, .priority = -2});
      Step(scheduler);
      scheduler.Add({.id = Id(4), .tokens = 1, .priority = -2});
      const StepPlan plan = Step(scheduler);
      EXPECT_EQ(plan.preempted, std::vector{Id(1)});
      scheduler.Remove(Id(4));
    } else {
      scheduler.Remove(Id(1));
    }
    EXPECT_EQ(Step(scheduler).admitted.at(0).id, Id(2)) << is_preempted;
  }
}

TEST_F(SchedulerTest, AsksAboutABoundedNumberThatWaitForAPrefix) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 8, .max_running = 4});
  scheduler.Add({.id = Id(0), .tokens = 100});
  Step(scheduler);
  memory_.asked.clear();
  for (std::uint64_t id = 1; id < Scheduler::kMaxParkedPerStep + 2; ++id) {
    scheduler.Add({.id = Id(id), .tokens = 1});
  }
  memory_.admit = [](SequenceId) {
    return Admission{.answer = Answer::kWait, .pending_tokens = 1000};
  };
  Step(scheduler);
  EXPECT_EQ(memory_.asked.size(), Scheduler::kMaxParkedPerStep);
  EXPECT_EQ(scheduler.waiting(), Scheduler::kMaxParkedPerStep + 1);
  for (std::uint64_t id = 1; id < Scheduler::kMaxParkedPerStep + 2; ++id) {
    EXPECT_TRUE(scheduler.Remove(Id(id)));
  }
}

// The prefix of 2 is 1's to compute, but others that are less urgent than 2 and more than 1 come
// and come.
TEST_F(SchedulerTest, WhoeverWaitsForAPrefixIsNotKeptWaitingByLessUrgentOnes) {
  Scheduler scheduler({.max_step_tokens = 4, .prefill_chunk = 4, .max_running = 3});
  scheduler.Add({.id = Id(1), .tokens = 100, .priority = 9});
  Step(scheduler);
  scheduler.Add({.id = Id(2), .tokens = 100});
  memory_.admit = [](SequenceId id) {
    return id == Id(2) ? Admission{.answer = Answer::kWait, .pending_tokens = 10}
                       : Admission{.answer = Answer::kAdmitted};
  };
  constexpr std::uint64_t kSteps = Scheduler::kPatience * (10 + 4) / 4;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    scheduler.Add({.id = Id(3 + step), .tokens = 4, .priority = 5});
    ASSERT_EQ(IdsOf(Step(scheduler).items), std::vector{Id(3 + step)});
    scheduler.Remove(Id(3 + step));
  }
  EXPECT_TRUE(memory_.asked_at_once.empty());
  while (memory_.asked_at_once.empty()) {  // until its time comes to be asked about again
    ASSERT_LT(memory_.asked.size(), 2 * kSteps);
    scheduler.Add({.id = Id(1000 + memory_.asked.size()), .tokens = 4, .priority = 5});
    const StepPlan plan = Step(scheduler);
    if (plan.items.at(0).id != Id(2)) scheduler.Remove(plan.items.at(0).id);
  }
  EXPECT_EQ(memory_.asked_at_once, std::vector{Id(2)});
}

// --- Preemption ---

TEST_F(SchedulerTest, TheVictimIsTheLeastUrgentThenTheLeastWorkThenTheYoungest) {
  Scheduler scheduler({.max_running = 8});
  Start(scheduler, {{.id = Id(1), .tokens = 1},
                    {.id = Id(2), .tokens = 1},
                    {.id = Id(3), .tokens = 1},
                    {.id = Id(4), .tokens = 1},
                    {.id = Id(5), .tokens = 1, .priority = 1}});
  memory_.stakes = {{Id(1), 0}, {Id(2), 8}, {Id(3), 5}, {Id(4), 5}, {Id(5), 100}};
  std::size_t needed = 0;
  memory_.grow = [&](SequenceId, std::uint32_t) { return memory_.preempted.size() >= needed; };
  for (needed = 1; needed <= 4; ++needed) Step(scheduler);
  EXPECT_EQ(memory_.preempted, (std::vector{Id(5), Id(4), Id(3), Id(2)}));  // never the first
  EXPECT_EQ(scheduler.running(), 1u);
}

TEST_F(SchedulerTest, NobodyTakesFromAMoreUrgentOneAndMayHaveToGiveWayItself) {
  Scheduler scheduler({.max_running = 8});
  Start(scheduler, {{.id = Id(1), .tokens = 1},
                    {.id = Id(2), .tokens = 1},
                    {.id = Id(3), .tokens = 1, .priority = 1}});
  memory_.grow = [](SequenceId id, std::uint32_t) { return id != Id(3); };
  memory_.stakes = {{Id(3), 1000}};
  const StepPlan plan = Step(scheduler);
  EXPECT_EQ(plan.preempted, std::vector{Id(3)});
  EXPECT_EQ(IdsOf(plan.items), (std::vector{Id(1), Id(2)}));
}

TEST_F(SchedulerTest, WhoWasResumedGivesWayLastUntilItHasGainedSomething) {
  Scheduler scheduler({.max_step_tokens = 8, .prefill_chunk = 1, .max_running = 8});
  Start(scheduler,
        {{.id = Id(1), .tokens = 1}, {.id = Id(2), .tokens = 1}, {.id = Id(3), .tokens = 1}});
  memory_.stakes = {{Id(2), 1}, {Id(3), 2}};
  std::size_t needed = 1;
  memory_.grow = [&](SequenceId, std::uint32_t) { return memory_.preempted.size() >= needed; };
  EXPECT_EQ(Step(scheduler).preempted, std::vector{Id(2)});
  EXPECT_TRUE(Step(scheduler).admitted.at(0).is_resumed);  // one of its two tokens is computed
  needed = 2;
  EXPECT_EQ(Step(scheduler).preempted, std::vector{Id(3)});
  EXPECT_EQ(IdsOf(Step(scheduler).items), (std::vector{Id(1), Id(2), Id(3)}));  // one was gained
  needed = 3;
  EXPECT_EQ(Step(scheduler).preempted, std::vector{Id(2)});
}

TEST_F(SchedulerTest, RemoveWorksWaitingAndRunningAndInTheMiddleOfAStep) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 64, .max_running = 1});
  scheduler.Add({.id = Id(1), .tokens = 1});
  scheduler.Add({.id = Id(2), .tokens = 1});
  scheduler.Plan(memory_);
  EXPECT_TRUE(scheduler.Remove(Id(2)));
  EXPECT_TRUE(scheduler.Remove(Id(1)));
  EXPECT_FALSE(scheduler.Remove(Id(1)));
  scheduler.Commit();
  EXPECT_TRUE(scheduler.Plan(memory_).items.empty());
  EXPECT_EQ(scheduler.tenants(), 0u);
}

TEST(SchedulerLimits, AreChecked) {
  EXPECT_TRUE(Validate({.max_step_tokens = 1, .prefill_chunk = 1, .max_running = 1}).ok());
  EXPECT_FALSE(Validate({.max_step_tokens = 0}).ok());
  EXPECT_FALSE(Validate({.max_step_tokens = 8, .prefill_chunk = 0, .max_running = 8}).ok());
  EXPECT_FALSE(Validate({.itl_target_ns = -1}).ok());
  EXPECT_NE(
      Validate({.max_step_tokens = 8, .max_running = 9}).error().message.find("max-sequences"),
      std::string::npos);
}

}  // namespace
}  // namespace ashlar::sched
