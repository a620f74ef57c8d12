// One block, many readers: computing once, converging, forking, going back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

constexpr std::uint64_t kAmple = 1u << 20;  // bytes: nothing is replaced

// --- Single flight ---

TEST(CacheSharing, SecondOfTwoEqualPromptsWaitsAndIsThenServedEverything) {
  for (const std::string layout : {"full", "hybrid", "mixed", "encoded", "codecs"}) {
    CacheScene scene(LayoutNamed(layout), {.memory_bytes = kAmple});
    const Tokens text = Text(1, 100);
    Sequence first = scene.Start(text);
    for (std::uint64_t at = 0; at < 96; ++at) {
      const Admission waits = scene.Admit(text);
      ASSERT_EQ(waits.status, AdmitStatus::kWait);
      ASSERT_EQ(waits.report.pending_tokens, 96 - at / 16 * 16);
      ASSERT_TRUE(scene.Compute(first, std::span(text).subspan(at, 1)));
    }
    Sequence second = scene.Start(text);
    EXPECT_EQ(second.size(), 96u);  // the last four share no whole block: nobody waits for them
    scene.Finish(first, text);
    scene.Finish(second, text);
    EXPECT_EQ(scene->counters().sealed_blocks, 6u);
  }
}

TEST(CacheSharing, LongerPromptWaitsForItsBeginningOnly) {
  CacheScene scene(LayoutNamed("full"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 64);
  Sequence first = scene.Start(text);
  const Tokens longer = Join(text, Text(2, 64));
  EXPECT_EQ(scene.Admit(longer).report.pending_tokens, 64u);
  scene.Finish(first, text);
  EXPECT_EQ(scene.Start(longer).size(), 64u);
}

TEST(CacheSharing, WhoeverWaitedTakesOverWhenTheComputingSequenceIsCancelled) {
  const Tokens text = Text(1, 100);
  for (std::uint64_t done = 0; done < 100; ++done) {
    CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = kAmple});
    std::optional<Sequence> first = scene.Start(text);
    ASSERT_TRUE(scene.Compute(*first, First(text, done)));
    EXPECT_EQ(scene.Probe(text).pending_tokens > 0, done < 96);
    first.reset();
    Sequence second = scene.Start(text);
    EXPECT_EQ(second.size(), done);  // its tail was kept as well
    EXPECT_EQ(scene.Probe(text).pending_tokens > 0, done < 96);
    scene.Finish(second, text);
    EXPECT_EQ(scene.Start(text).size(), std::max<std::uint64_t>(done, 96));
  }
}

TEST(CacheSharing, SequenceThatLeavesItsPromptLetsOthersGoOn) {
  CacheScene scene(LayoutNamed("full"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 64);
  Sequence first = scene.Start(text);
  ASSERT_TRUE(scene.Compute(first, First(text, 20)));
  EXPECT_EQ(scene.Admit(text).status, AdmitStatus::kWait);
  ASSERT_TRUE(scene.Compute(first, Text(2, 1)));  // not what it was admitted with
  EXPECT_EQ(scene.Start(text).size(), 16u);
}

TEST(CacheSharing, CancelledWaitersAndWorkersNeverDeadlock) {
  CacheScene scene(LayoutNamed("full"), RoomFor(40));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Tokens> waiting;
    waiting.reserve(12);
    std::vector<std::pair<Sequence, Tokens>> running;
    for (std::uint64_t i = 0; i < 12; ++i) {
      waiting.push_back(Join(Text(seed % 3, 16 * (1 + RandomBits(seed, 1, i) % 4)),
                             Text(100 + RandomBits(seed, 2, i) % 3, 20)));
    }
    for (std::uint64_t round = 0; !waiting.empty() || !running.empty(); ++round) {
      ASSERT_LT(round, 2000u);
      std::erase_if(waiting, [&](const Tokens& text) {
        Admission admission = scene.Admit(text);
        if (admission.sequence) running.emplace_back(*std::move(admission.sequence), text);
        return admission.status == AdmitStatus::kAdmitted;
      });
      ASSERT_FALSE(running.empty()) << "everybody waits";
      const std::uint64_t chosen = RandomBits(seed, 3, round) % running.size();
      auto& [sequence, text] = running[chosen];
      const bool is_cancelled = RandomBits(seed, 4, round) % 30 == 0;
      if (!is_cancelled && sequence.size() < text.size()) {
        ASSERT_TRUE(scene.Compute(sequence, std::span(text).subspan(sequence.size(), 1)));
        continue;
      }
      scene.Check(sequence);
      std::swap(running[chosen], running.back());
      running.pop_back();
    }
    scene->CheckInvariants();
  }
}

// --- Duplicates ---

TEST(CacheSharing, DuplicatesConvergeToOneBlock) {
  for (const std::string layout :
       {"full", "window", "sinks", "hybrid", "mixed", "encoded", "codecs"}) {
    CacheScene scene(LayoutNamed(layout), {.memory_bytes = kAmple});
    const Tokens text = Text(1, 40);
    const AdmitOptions options{.on_pending = OnPending::kCompute};
    Sequence one = scene.Start(text, options);
    Sequence two = scene.Start(text, options);
    for (std::uint64_t at = 0; at < text.size(); ++at) {
      ASSERT_TRUE(scene.Compute(one, std::span(text).subspan(at, 1)));
      ASSERT_TRUE(scene.Compute(two, std::span(text).subspan(at, 1)));
      scene->CheckInvariants();
      for (std::uint32_t g = 0; g < scene->core().groups(); ++g) {
        for (std::uint64_t b = 0; b < two.size() / 16; ++b) {
          ASSERT_EQ(one.blocks(g)[b], two.blocks(g)[b]) << layout << " group " << g;
        }
      }
      scene.Check(one);
      scene.Check(two);
    }
    EXPECT_EQ(scene->counters().converged_blocks, 2u * scene->core().groups());
  }
}

TEST(CacheSharing, ConvergedBlockIsChargedOnce) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  const Tokens text = Text(1, 64);
  const AdmitOptions options{.on_pending = OnPending::kCompute};
  Sequence one = scene.Start(text, options);
  Sequence two = scene.Start(text, options);
  scene.Finish(one, text);
  scene.Finish(two, text);
  EXPECT_EQ(scene->live_bytes(), 4u * 512);
  EXPECT_EQ(scene->core().pool.pinned(0) + scene->core().pool.promised(0), 4u);
  EXPECT_TRUE(scene.Admit(Text(2, 12 * 16)).sequence);
}

// --- Forks ---

TEST(CacheSharing, ForksShareUntilOneWrites) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  Sequence parent = scene.Start(Text(1, 40), {.max_tokens = 60});
  scene.Finish(parent, Text(1, 40));
  std::optional<Sequence> fork = parent.Fork(60);
  ASSERT_TRUE(fork);
  EXPECT_EQ(scene->live_bytes(), 3u * 512);
  ASSERT_TRUE(scene.Compute(*fork, Text(2, 4)));
  EXPECT_EQ(scene->counters().copied_blocks, 1u);
  EXPECT_EQ(scene->live_bytes(), 4u * 512);
  ASSERT_TRUE(scene.Compute(parent, Text(3, 4)));
  EXPECT_EQ(scene->counters().copied_blocks, 1u);  // the last reader writes in place
  scene.Check(parent);
  scene.Check(*fork);
}

class CacheBeams : public ::testing::TestWithParam<std::string> {};

TEST_P(CacheBeams, SurvivorsKeepTheirOwnPastForManySteps) {
  constexpr std::size_t kBeams = 4;
  constexpr std::uint64_t kSteps = 150;
  CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
  const Tokens prompt = Text(1, 21);
  const std::uint64_t max_tokens = prompt.size() + kSteps;
  std::vector<Sequence> beams;
  beams.push_back(scene.Start(prompt, {.max_tokens = max_tokens}));
  scene.Finish(beams[0], prompt);
  while (beams.size() < kBeams) beams.push_back(*beams[0].Fork(max_tokens));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint64_t i = 0; i < kBeams; ++i) {
      const Tokens next = {static_cast<TokenId>(RandomBits(step, 5, i) % 3)};
      ASSERT_TRUE(scene.Compute(beams[i], next));
    }
    std::vector<Sequence> survivors;
    survivors.reserve(kBeams);
    for (std::uint64_t i = 0; i < kBeams; ++i) {
      survivors.push_back(*beams[RandomBits(step, 6, i) % kBeams].Fork(max_tokens));
    }
    beams = std::move(survivors);
    for (const Sequence& beam : beams) scene.Check(beam);
    scene->CheckInvariants();
  }
  beams.clear();
  EXPECT_EQ(scene->live_bytes(), 0u);
  for (std::uint32_t g = 0; g < scene->core().groups(); ++g) {
    EXPECT_EQ(scene->core().pool.promised(g), 0u);
  }
}

// --- Going back ---

class CacheRollback : public ::testing::TestWithParam<std::string> {
 protected:
  // Where Truncate(size) leads when the rows of blocks before `raw_from` are not there.
  static std::uint64_t Reached(std::uint64_t size, std::uint64_t raw_from) {
    const bool is_encoded = KvLayout::Create(LayoutNamed(GetParam()))->has_encoded();
    return is_encoded && size / 16 < raw_from ? size / 16 * 16 : size;
  }
};

TEST_P(CacheRollback, ReachesEveryPromisedLengthOverBlockAndWindowEdges) {
  constexpr std::uint64_t kBack = 20;
  for (std::uint64_t n = 1; n <= 120; ++n) {
    CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
    const Tokens text = Text(1, n);
    for (const std::uint64_t back : {0u, 1u, 15u, 16u, 17u, 20u}) {
      if (back > n) continue;
      Sequence sequence = scene.Start(text, {.max_tokens = n + 20, .max_rollback = kBack});
      const std::uint64_t hit_blocks = sequence.size() / 16;
      scene.Finish(sequence, text);
      const std::uint64_t size = Reached(n - back, hit_blocks);
      ASSERT_EQ(sequence.Truncate(n - back), size) << n << " tokens";
      scene.Check(sequence);
      // What it promised is still promised.
      ASSERT_TRUE(scene.Compute(sequence, Text(2, n + 20 - size)));
      scene.Check(sequence);
    }
    scene->CheckInvariants();
  }
}

// With reuse off nothing that a window has passed can be found again.
TEST_P(CacheRollback, ReachesEveryPromisedLengthWithoutTheIndex) {
  for (std::uint64_t n = 60; n <= 120; ++n) {
    CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
    const Tokens text = Text(1, n);
    for (const std::uint64_t back : {1u, 16u, 20u}) {
      Sequence sequence =
          scene.Start(text, {.max_tokens = n, .max_rollback = 20, .reuse = Reuse::kOff});
      scene.Finish(sequence, text);
      ASSERT_EQ(sequence.Truncate(n - back), n - back) << n << " tokens";
      scene.Check(sequence);
      ASSERT_TRUE(scene.Compute(sequence, Text(2, back)));
      scene.Check(sequence);
    }
  }
}

TEST_P(CacheRollback, CopyOfASealedTailIsPromisedBesideWhatGoesFurther) {
  CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 48);
  Sequence sequence = scene.Start(text, {.max_tokens = 48, .chunk = 40});
  scene.Finish(sequence, text);
  ASSERT_EQ(sequence.Truncate(37), Reached(37, 2));
  ASSERT_TRUE(scene.Compute(sequence, Text(2, 33), 33));  // two blocks beyond the promise
  scene.Check(sequence);
}

TEST_P(CacheRollback, SealedTailIsCopiedAndStaysAsItWas) {
  CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 48);
  Sequence sequence = scene.Start(text, {.max_tokens = 80, .max_rollback = 20});
  scene.Finish(sequence, text);
  ASSERT_EQ(sequence.Truncate(37), 37u);
  ASSERT_TRUE(scene.Compute(sequence, Text(2, 20)));
  scene.Check(sequence);
  Sequence other = scene.Start(Join(text, Tokens{0}));
  EXPECT_EQ(other.size(), 48u);
  scene.Check(other);
}

TEST_P(CacheRollback, GoesBackFurtherOnlyWhereAWindowOrAnOpenBlockIsLost) {
  CacheScene scene(LayoutNamed(GetParam()), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 200);
  for (const std::uint64_t size : {0u, 1u, 50u, 64u, 100u, 199u}) {
    Sequence sequence = scene.Start(text, {.max_tokens = 200});
    scene.Finish(sequence, text);
    EXPECT_EQ(sequence.Truncate(size),
              Reached(size, 12));  // what the window passed is still in the index
    scene.Check(sequence);
    scene.Finish(sequence, text);
  }
}

TEST(CacheSharing, RollbackOfAForkLeavesTheOtherWhole) {
  for (const std::string layout : {"full", "hybrid", "mixed", "encoded", "codecs"}) {
    CacheScene scene(LayoutNamed(layout), {.memory_bytes = kAmple});
    const Tokens text = Text(1, 41);
    Sequence parent = scene.Start(text, {.max_tokens = 80, .max_rollback = 20});
    scene.Finish(parent, text);
    std::optional<Sequence> fork = parent.Fork(80);
    ASSERT_TRUE(fork);
    ASSERT_EQ(fork->Truncate(30), 30u);
    ASSERT_TRUE(scene.Compute(*fork, Text(2, 50)));
    ASSERT_TRUE(scene.Compute(parent, Text(3, 39)));
    scene.Check(*fork);
    scene.Check(parent);
    scene->CheckInvariants();
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CacheBeams,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });
INSTANTIATE_TEST_SUITE_P(Layouts, CacheRollback,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::kv
