// What is served, what a refusal leaves behind, what is counted.
#include "kv/cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

KvLayoutSpec WholeBlocksOnly() {
  KvLayoutSpec layout = LayoutNamed("full");
  layout.groups[0].shares_tokens = false;
  return layout;
}

// --- What is served ---

TEST(Cache, RawCodecsServeAllButTheLastTokenAtEveryLength) {
  for (std::uint64_t n = 1; n <= 100; ++n) {
    CacheScene scene(LayoutNamed("full"), RoomFor(16));
    const Tokens text = Text(n, n);
    EXPECT_EQ(scene.Serve(text), 0u);
    EXPECT_EQ(scene.Serve(text), n - 1) << n << " tokens";
    EXPECT_EQ(scene.Probe(text).reason, MissReason::kNone);
  }
}

TEST(Cache, FullHitOfWholeBlocksRecomputesExactlyOneToken) {
  CacheScene scene(LayoutNamed("mixed"), {.memory_bytes = 1u << 20});
  for (const std::uint64_t blocks : {1u, 2u, 5u, 13u}) {
    const Tokens text = Text(blocks, 16 * blocks);
    scene.Serve(text);
    const CacheCounters before = scene->counters();
    Sequence again = scene.Start(text);
    EXPECT_EQ(again.size(), text.size() - 1);
    scene.Finish(again, text);
    EXPECT_EQ(scene->counters().sealed_blocks, before.sealed_blocks + 1);
    EXPECT_EQ(scene->counters().converged_blocks, before.converged_blocks + 5);
  }
}

TEST(Cache, CodecsThatSealWholeBlocksServeWholeBlocksAndSayWhy) {
  for (std::uint64_t n = 17; n <= 70; ++n) {
    CacheScene scene(WholeBlocksOnly(), RoomFor(16));
    const Tokens text = Text(n, n);
    scene.Serve(text);
    EXPECT_EQ(scene.Serve(text), (n - 1) / 16 * 16);
  }
  CacheScene scene(WholeBlocksOnly(), RoomFor(16));
  const Tokens text = Text(1, 64);
  scene.Serve(text);
  EXPECT_EQ(scene.Probe(Join(First(text, 40), Text(2, 20))).reason, MissReason::kBelowGranularity);
}

TEST(Cache, DivergentPromptIsServedUpToTheFirstOtherToken) {
  CacheScene scene(LayoutNamed("full"), RoomFor(64));
  const Tokens text = Text(1, 60);
  scene.Serve(text);
  for (std::uint64_t same = 0; same < text.size(); ++same) {
    const LookupReport report = scene.Probe(Join(First(text, same), Text(2, 20)));
    EXPECT_EQ(report.hit_tokens, same);
    EXPECT_EQ(report.position, same);
    EXPECT_EQ(report.reason, same == 0 ? MissReason::kNeverSeen : MissReason::kDiverged) << same;
  }
}

TEST(Cache, CachedTailKeepsItsContentWhenItsReaderWritesOn) {
  for (std::uint64_t n = 17; n < 32; ++n) {
    CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 18});
    const Tokens text = Text(1, n);
    scene.Serve(text);
    Sequence one = scene.Start(Join(text, Text(2, 20)));
    Sequence other = scene.Start(Join(text, Text(3, 20)), {.on_pending = OnPending::kCompute});
    EXPECT_EQ(one.size(), n);
    EXPECT_EQ(other.size(), n);
    ASSERT_TRUE(scene.Compute(one, Text(2, 20)));
    ASSERT_TRUE(scene.Compute(other, Text(3, 20)));
    scene.Check(one);
    scene.Check(other);
    Sequence third = scene.Start(Join(text, Text(4, 20)), {.on_pending = OnPending::kCompute});
    EXPECT_EQ(third.size(), n);
    scene.Check(third);
  }
}

TEST(Cache, TailMadeSuperfluousByALongerOneLeavesWithIt) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  const Tokens text = Text(1, 32);
  for (const std::uint64_t n : {18u, 21u, 30u, 32u}) scene.Serve(First(text, n));
  EXPECT_EQ(scene.IdleBlocks(), 2u);
  EXPECT_EQ(scene.Probe(Join(text, Tokens{0})).hit_tokens, 32u);
}

TEST(Cache, PrefixOfAKeptTailIsNotKeptTwice) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  const Tokens text = Text(1, 30);
  scene.Serve(text);
  scene.Serve(First(text, 20));
  EXPECT_EQ(scene.IdleBlocks(), 2u);
}

TEST(Cache, ReuseOffComputesEverythingAndLeavesNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  const Tokens text = Text(1, 40);
  EXPECT_EQ(scene.Serve(text, {.reuse = Reuse::kOff}), 0u);
  EXPECT_EQ(scene.IdleBlocks(), 0u);
  scene.Serve(text);
  Admission admission = scene.Admit(text, {.reuse = Reuse::kOff});
  EXPECT_EQ(admission.sequence->size(), 0u);
  EXPECT_EQ(admission.report.reason, MissReason::kDisabled);
}

TEST(Cache, SequenceThatLeavesItsPromptIsFoundByWhatItStored) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  const Tokens stored = Join(First(Text(1, 60), 20), Text(2, 40));
  {
    Sequence sequence = scene.Start(Text(1, 60));
    scene.Finish(sequence, stored);
  }
  EXPECT_EQ(scene.Probe(stored).hit_tokens, 59u);
  EXPECT_EQ(scene.Probe(Text(1, 60)).hit_tokens, 20u);
}

TEST(Cache, GeneratedTokensServeTheNextTurn) {
  CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 18});
  const Tokens prompt = Text(1, 37);
  const Tokens turn = Join(prompt, Text(2, 45));
  {
    Sequence sequence = scene.Start(prompt, {.max_tokens = turn.size()});
    scene.Finish(sequence, turn);
  }
  EXPECT_EQ(scene.Serve(Join(turn, Text(3, 10))), turn.size());
}

// --- What a refusal leaves behind ---

class RefusedCall : public ::testing::Test {
 protected:
  // 8 blocks: 5 promised to a sequence that holds 2 of them, 2 idle.
  RefusedCall()
      : scene_(LayoutNamed("full"), Options()), running_(scene_.Start(text_, {.max_tokens = 80})) {
    scene_.Serve(idle_);
    EXPECT_TRUE(scene_.Compute(running_, First(text_, 20)));
  }
  static CacheOptions Options() {
    CacheOptions options = RoomFor(8);
    options.max_pinned_bytes = 512;
    options.accounts = {{.name = "small", .ceiling_bytes = 1024}};
    return options;
  }

  const Tokens text_ = Text(1, 20);
  const Tokens idle_ = Text(2, 33);
  CacheScene scene_;
  Sequence running_;
};

TEST_F(RefusedCall, AdmissionWithoutMemoryChangesNothing) {
  const std::string before = scene_.State();
  EXPECT_EQ(scene_.Admit(Text(3, 64)).status, AdmitStatus::kNoMemory);
  EXPECT_EQ(scene_.State(), before);
  EXPECT_EQ(scene_.Admit(Join(idle_, Text(3, 31))).status, AdmitStatus::kNoMemory);
  EXPECT_EQ(scene_.State(), before);
  EXPECT_EQ(scene_.Admit(Text(3, 33), {.account = AccountId(1)}).status, AdmitStatus::kNoMemory);
  EXPECT_EQ(scene_.State(), before);
}

TEST_F(RefusedCall, AdmissionThatMustWaitChangesNothing) {
  Sequence computing = scene_.Start(Text(5, 33));
  const std::string before = scene_.State();
  const Admission admission = scene_.Admit(Text(5, 33));
  EXPECT_EQ(admission.status, AdmitStatus::kWait);
  EXPECT_EQ(admission.report.pending_tokens, 32u);
  EXPECT_EQ(admission.report.reason, MissReason::kBeingComputed);
  EXPECT_EQ(scene_.State(), before);
}

TEST_F(RefusedCall, PrepareBeyondThePromiseChangesNothing) {
  const std::string before = scene_.State();
  EXPECT_FALSE(running_.Prepare(8 * 16 - 20 + 1));
  EXPECT_EQ(scene_.State(), before);
  EXPECT_EQ(running_.size(), 20u);
  scene_.Check(running_);
}

TEST_F(RefusedCall, ForkWithoutMemoryChangesNothing) {
  const std::string before = scene_.State();
  EXPECT_FALSE(running_.Fork(80));
  EXPECT_EQ(scene_.State(), before);
  EXPECT_TRUE(running_.Fork(64));
}

TEST_F(RefusedCall, TruncateWithoutMemoryChangesNothing) {
  const Tokens whole = Join(text_, Text(6, 60));
  ASSERT_TRUE(scene_.Compute(running_, Text(6, 60)));  // 5 blocks
  // All of them get a second reader, and the rest of the memory is promised.
  const PrefixLease lease = scene_.Lookup(Join(whole, Tokens{0}));
  ASSERT_EQ(lease.tokens(), 80u);
  Sequence other = scene_.Start(Text(7, 48));
  const std::string before = scene_.State();
  EXPECT_FALSE(running_.Truncate(20));
  EXPECT_EQ(scene_.State(), before);
  scene_.Check(running_);
}

TEST_F(RefusedCall, LookupWhoseBlocksArePromisedToOthersChangesNothing) {
  Sequence other = scene_.Start(Text(7, 48));  // the idle blocks are promised
  const std::string before = scene_.State();
  EXPECT_TRUE(scene_.Lookup(idle_).empty());
  EXPECT_EQ(scene_.State(), before);
}

TEST_F(RefusedCall, ProbeChangesNothing) {
  const std::string before = scene_.State();
  EXPECT_EQ(scene_.Probe(idle_).hit_tokens, 32u);
  EXPECT_EQ(scene_.State(), before);
}

TEST(Cache, RefusedAdmissionTouchesNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(4));
  for (std::uint64_t seed = 1; seed <= 4; ++seed) scene.Serve(Text(seed, 16));
  Sequence writer = scene.Start(Text(9, 16), {.max_tokens = 48});
  EXPECT_EQ(scene.Admit(Join(Text(1, 16), Text(8, 17))).status, AdmitStatus::kNoMemory);
  ASSERT_TRUE(scene.Compute(writer, Text(9, 16)));
  EXPECT_EQ(scene.Probe(Text(1, 17)).hit_tokens, 0u);  // still the first to leave
  EXPECT_EQ(scene.Probe(Join(Text(2, 16), Tokens{0})).hit_tokens, 16u);
}

// --- What is counted ---

TEST(Cache, PromptIsCountedOnceHoweverOftenAdmissionWasTried) {
  CacheScene scene(LayoutNamed("full"), RoomFor(8));
  const Tokens text = Text(1, 65);
  PrefixHashes hashes;
  Prompt prompt = scene.PromptOf(text);
  prompt.hashes = &hashes;
  {
    Sequence first = scene.Start(text);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(scene->Admit(prompt, {.max_tokens = 65}).status, AdmitStatus::kWait);
    }
    scene.Finish(first, text);
  }
  std::optional<Sequence> large = scene.Start(Text(2, 8 * 16));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(scene->Admit(prompt, {.max_tokens = 65}).status, AdmitStatus::kNoMemory);
  }
  large.reset();
  const CacheCounters before = scene->counters();
  const Admission admission = scene->Admit(prompt, {.max_tokens = 65});
  ASSERT_EQ(admission.status, AdmitStatus::kAdmitted);
  EXPECT_EQ(scene->counters().admitted, before.admitted + 1);
  EXPECT_EQ(scene->counters().prompt_tokens, before.prompt_tokens + 65);
  EXPECT_EQ(scene->counters().hit_tokens, before.hit_tokens + 64);
  EXPECT_EQ(before.prompt_tokens, 65u + 128u);
  EXPECT_EQ(before.hit_tokens, 0u);
}

TEST(Cache, ReportsSayWhatTheSequenceGot) {
  CacheScene scene(LayoutNamed("full"), RoomFor(3));
  const Tokens text = Text(1, 40);
  scene.Serve(text);
  // All three blocks are the match's: its tail has no room for a copy and is given up.
  const Admission admission = scene.Admit(text);
  ASSERT_EQ(admission.status, AdmitStatus::kAdmitted);
  EXPECT_EQ(admission.sequence->size(), 32u);
  EXPECT_EQ(admission.report.hit_tokens, 32u);
  EXPECT_EQ(scene->counters().hit_tokens, 32u);
}

// --- Forgetting everything ---

TEST(Cache, ResetWhileASequenceLivesChangesNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(8));
  scene.Serve(Text(1, 40));
  for (const std::uint64_t computed : {0u, 5u, 16u, 20u}) {
    Sequence sequence = scene.Start(Text(2 + computed, 20));
    ASSERT_TRUE(scene.Compute(sequence, First(Text(2 + computed, 20), computed)));
    const std::string before = scene.State();
    EXPECT_FALSE(scene->Reset()) << computed << " tokens computed";
    EXPECT_EQ(scene.State(), before);
  }
}

TEST(Cache, ResetWhileALeaseOrAPinLivesChangesNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(8));
  scene.Serve(Text(1, 40));
  PrefixLease lease = scene.Lookup(Text(1, 40));
  std::string before = scene.State();
  EXPECT_FALSE(scene->Reset());
  EXPECT_EQ(scene.State(), before);
  const PinId pin = *scene->Pin(std::move(lease));
  before = scene.State();
  EXPECT_FALSE(scene->Reset());
  EXPECT_EQ(scene.State(), before);
  ASSERT_TRUE(scene->Unpin(pin).ok());
  EXPECT_TRUE(scene->Reset());
  EXPECT_EQ(scene.IdleBlocks(), 0u);
  EXPECT_EQ(scene.Probe(Text(1, 40)).hit_tokens, 0u);
}

TEST(Cache, ResetAllForgetsEverythingWhileSequencesGoOn) {
  CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 17});
  scene.Serve(Text(1, 50));
  Sequence running = scene.Start(Text(2, 90));
  ASSERT_TRUE(scene.Compute(running, First(Text(2, 90), 40)));
  scene->ResetAll();
  EXPECT_EQ(scene.IdleBlocks(), 0u);
  EXPECT_EQ(scene.Probe(Text(1, 50)).hit_tokens, 0u);
  EXPECT_EQ(scene.Probe(Text(2, 90)).hit_tokens, 0u);
  EXPECT_TRUE(scene->TakeSnapshot().entries.empty());
  scene.Finish(running, Text(2, 90));
  EXPECT_EQ(scene.Serve(Text(2, 90)), 0u);  // the old one's blocks are never found, the new are
  EXPECT_EQ(scene.Serve(Text(2, 90)), 89u);
  scene.Check(running);
}

TEST(Cache, InvalidateHidesEverythingAndItLeavesFirst) {
  CacheScene scene(LayoutNamed("full"), RoomFor(6));
  scene.Serve(Text(1, 48), {.retention = {.level = 7}});
  scene->Invalidate();
  EXPECT_EQ(scene.Probe(Text(1, 48)).hit_tokens, 0u);
  scene.Serve(Text(2, 48), {.retention = {.level = 0}});
  scene.Serve(Text(3, 48), {.retention = {.level = 0}});
  EXPECT_EQ(scene.Probe(Text(2, 48)).hit_tokens, 47u);
  EXPECT_EQ(scene.Probe(Text(3, 48)).hit_tokens, 47u);
}

}  // namespace
}  // namespace ashlar::kv
