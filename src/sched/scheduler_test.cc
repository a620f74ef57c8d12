#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ashlar::sched {
namespace {

using Answer = Admission::Answer;

SequenceId Id(std::uint64_t value) { return SequenceId(value); }

const auto kAdmitAll = [](SequenceId) { return Admission{.answer = Answer::kAdmitted}; };
const auto kAdmitNone = [](SequenceId) { return Admission{}; };

TEST(Scheduler, CutsAPromptIntoChunksAndThenDecodes) {
  Scheduler scheduler({.max_step_tokens = 16, .prefill_chunk = 10, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 25});
  const StepPlan& plan = scheduler.Plan(kAdmitAll);
  ASSERT_EQ(plan.admitted.size(), 1u);
  std::vector<std::uint32_t> chunks;
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(plan.items.size(), 1u);
    EXPECT_EQ(plan.items[0].position, static_cast<std::uint64_t>(10 * step));
    EXPECT_EQ(plan.items[0].reaches_end, step == 2);
    chunks.push_back(plan.items[0].tokens);
    scheduler.Commit();
    if (step < 2) scheduler.Plan(kAdmitNone);
  }
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{10, 10, 5}));
  EXPECT_TRUE(scheduler.Plan(kAdmitNone).items.empty());  // nothing to do until a token is appended
  scheduler.Append(Id(1));
  EXPECT_EQ(scheduler.Plan(kAdmitNone).items[0].position, 25u);
  EXPECT_EQ(scheduler.Plan(kAdmitNone).tokens, 1u);
}

TEST(Scheduler, DecodesGoBeforePrefills) {
  Scheduler scheduler({.max_step_tokens = 8, .prefill_chunk = 8, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 2});
  scheduler.Plan(kAdmitAll);
  scheduler.Commit();
  scheduler.Append(Id(1));
  scheduler.Add({.id = Id(2), .tokens = 100});
  const StepPlan& plan = scheduler.Plan(kAdmitAll);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].id, Id(1));
  EXPECT_EQ(plan.items[0].tokens, 1u);
  EXPECT_EQ(plan.items[1].tokens, 7u);
  EXPECT_EQ(plan.tokens, 8u);
}

TEST(Scheduler, WhoeverNeedsMemoryFirstIsNeverOvertaken) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 64, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 1});
  scheduler.Add({.id = Id(2), .tokens = 1});
  std::vector<SequenceId> asked;
  const auto only_the_second = [&](SequenceId id) {
    asked.push_back(id);
    return Admission{.answer = id == Id(2) ? Answer::kAdmitted : Answer::kNoMemory};
  };
  EXPECT_TRUE(scheduler.Plan(only_the_second).admitted.empty());
  EXPECT_EQ(asked, std::vector{Id(1)});
  EXPECT_EQ(scheduler.Plan(kAdmitAll).admitted, (std::vector{Id(1), Id(2)}));
}

TEST(Scheduler, OthersGoBeforeWhoeverWaitsForAPrefix) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 64, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 1});
  scheduler.Add({.id = Id(2), .tokens = 1});
  const auto first_waits = [&](SequenceId id) {
    return Admission{.answer = id == Id(1) ? Answer::kWait : Answer::kAdmitted};
  };
  EXPECT_EQ(scheduler.Plan(first_waits).admitted, std::vector{Id(2)});
  scheduler.Commit();
  EXPECT_EQ(scheduler.Plan(kAdmitAll).admitted, std::vector{Id(1)});
}

TEST(Scheduler, AsksAboutABoundedNumberThatWaitForAPrefix) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 64, .max_running = 4});
  for (std::uint64_t id = 0; id < kMaxPrefixWaiters + 1; ++id) {
    scheduler.Add({.id = Id(id), .tokens = 1});
  }
  std::size_t asked = 0;
  scheduler.Plan([&](SequenceId) {
    ++asked;
    return Admission{.answer = Answer::kWait};
  });
  EXPECT_EQ(asked, kMaxPrefixWaiters);
}

TEST(Scheduler, CachedTokensAreNotComputedAgain) {
  Scheduler scheduler({.max_step_tokens = 16, .prefill_chunk = 10, .max_running = 4});
  scheduler.Add({.id = Id(1), .tokens = 25});
  const StepPlan& plan = scheduler.Plan(
      [](SequenceId) { return Admission{.answer = Answer::kAdmitted, .cached_tokens = 24}; });
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.items[0].position, 24u);
  EXPECT_EQ(plan.items[0].tokens, 1u);
  EXPECT_TRUE(plan.items[0].reaches_end);
}

TEST(Scheduler, RemoveWorksWaitingAndRunningAndInTheMiddleOfAStep) {
  Scheduler scheduler({.max_step_tokens = 64, .prefill_chunk = 64, .max_running = 1});
  scheduler.Add({.id = Id(1), .tokens = 1});
  scheduler.Add({.id = Id(2), .tokens = 1});
  scheduler.Plan(kAdmitAll);
  EXPECT_TRUE(scheduler.Remove(Id(2)));
  EXPECT_TRUE(scheduler.Remove(Id(1)));
  EXPECT_FALSE(scheduler.Remove(Id(1)));
  scheduler.Commit();
  EXPECT_TRUE(scheduler.Plan(kAdmitAll).items.empty());
}

TEST(Scheduler, LimitsAreChecked) {
  EXPECT_TRUE(Validate({.max_step_tokens = 1, .prefill_chunk = 1, .max_running = 1}).ok());
  EXPECT_FALSE(Validate({.max_step_tokens = 0}).ok());
  EXPECT_FALSE(Validate({.max_step_tokens = 8, .prefill_chunk = 0, .max_running = 8}).ok());
  EXPECT_NE(
      Validate({.max_step_tokens = 8, .max_running = 9}).error().message.find("max-sequences"),
      std::string::npos);
}

// Whatever arrives, every sequence ends, every step respects the limits, positions have no gap.
TEST(Scheduler, RandomTrafficAlwaysProgresses) {
  std::mt19937 generator(11);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  for (int round = 0; round < 50; ++round) {
    const SchedulerLimits limits = {.max_step_tokens = 4 + random() % 60,
                                    .prefill_chunk = 1 + random() % 40,
                                    .max_running = 1 + random() % 4};
    const std::uint64_t capacity = 8;
    Scheduler scheduler(limits);
    struct Model {
      std::uint64_t blocks, known, computed, to_generate;
    };
    std::map<SequenceId, Model> all;
    for (std::uint64_t id = 0; id < 20; ++id) {
      const Model model = {1 + random() % capacity, 1 + random() % 50, 0, random() % 10};
      all[Id(id)] = model;
      scheduler.Add({.id = Id(id), .tokens = model.known});
    }
    std::map<SequenceId, std::uint64_t> held;
    int steps = 0;
    while (!all.empty()) {
      ASSERT_LT(++steps, 20000);
      std::uint64_t used = 0;
      for (const auto& [id, blocks] : held) used += blocks;
      ASSERT_LE(used, capacity);
      const StepPlan plan = scheduler.Plan([&](SequenceId id) -> Admission {
        Model& model = all.at(id);
        if (!held.empty() && random() % 4 == 0) return {.answer = Answer::kWait};
        if (used + model.blocks > capacity) return {.answer = Answer::kNoMemory};
        used += model.blocks;
        held[id] = model.blocks;
        model.computed = random() % model.known;
        return {.answer = Answer::kAdmitted, .cached_tokens = model.computed};
      });
      ASSERT_LE(plan.tokens, limits.max_step_tokens);
      ASSERT_LE(held.size(), limits.max_running);
      ASSERT_FALSE(plan.items.empty());
      scheduler.Commit();
      for (const StepItem& item : plan.items) {
        Model& model = all.at(item.id);
        ASSERT_EQ(item.position, model.computed);
        ASSERT_LE(item.tokens, limits.prefill_chunk);
        model.computed += item.tokens;
        ASSERT_EQ(item.reaches_end, model.computed == model.known);
        if (!item.reaches_end) continue;
        if (model.to_generate == 0) {
          ASSERT_TRUE(scheduler.Remove(item.id));
          held.erase(item.id);
          all.erase(item.id);
        } else {
          --model.to_generate;
          ++model.known;
          scheduler.Append(item.id);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::sched
