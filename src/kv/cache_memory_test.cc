// Who may use how much: resizing under load, accounts under attack, groups that share one arena.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

constexpr AccountId kGuarded{1};
constexpr AccountId kNoisy{2};

// --- Resizing ---

TEST(CacheMemory, ShrinkingGivesUpIdleBlocksAndKeepsLiveOnes) {
  CacheOptions options = RoomFor(32);
  CacheScene scene(LayoutNamed("full"), options);
  Sequence running = scene.Start(Text(1, 100));
  ASSERT_TRUE(scene.Compute(running, First(Text(1, 100), 60)));
  for (std::uint64_t seed = 2; seed < 12; ++seed) scene.Serve(Text(seed, 32));
  ASSERT_TRUE(scene->Resize(7 * 512).ok());  // exactly what is promised
  EXPECT_EQ(scene->memory_bytes(), 7u * 512);
  EXPECT_EQ(scene.IdleBlocks(), 3u);
  scene->CheckInvariants();
  scene.Finish(running, Text(1, 100));
  EXPECT_EQ(scene.IdleBlocks(), 0u);
}

TEST(CacheMemory, ShrinkingBelowWhatIsLiveChangesNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  Sequence running = scene.Start(Text(1, 100));
  ASSERT_TRUE(scene.Compute(running, First(Text(1, 100), 60)));
  scene.Serve(Text(2, 100));
  const std::string before = scene.State();
  const Status status = scene->Resize(7 * 512 - 1);
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(status.error().message.find("3584"), std::string::npos) << status.error().message;
  EXPECT_EQ(scene.State(), before);
}

TEST(CacheMemory, DiscardingGivesTheSystemItsMemoryBackAndCostsNothingElse) {
  CacheScene scene(LayoutNamed("full"), {.memory_bytes = 256u << 10, .page_bytes = 64u << 10});
  const Tokens text = Text(1, 3'000);
  std::byte* kept = nullptr;
  std::byte* freed = nullptr;
  Sequence running = scene.Start(Text(2, 100));
  scene.Finish(running, Text(2, 100));
  {
    Sequence sequence = scene.Start(text);
    scene.Finish(sequence, text);
    kept = running.addresses(0).front();
    freed = sequence.addresses(0).back();
  }
  const auto is_resident = [](std::byte* address) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    unsigned char state = 0;
    EXPECT_EQ(
        mincore(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / page * page),
                page, &state),
        0);
    return (state & 1) != 0;
  };
  EXPECT_TRUE(is_resident(freed));
  scene->ResetAll();
  const MemoryReport report = scene->Account();
  EXPECT_EQ(scene->DiscardFreePages(), report.free_page_bytes);
  EXPECT_EQ(report.free_page_bytes, 192u << 10);
  EXPECT_FALSE(is_resident(freed));
  EXPECT_TRUE(is_resident(kept));
  scene.Check(running);
  EXPECT_EQ(scene->memory_bytes(), 256u << 10);
  EXPECT_EQ(scene.Serve(text), 0u);
  EXPECT_EQ(scene.Serve(text), 2'999u);
  scene->CheckInvariants();
}

TEST(CacheMemory, ShrinkingBelowAPageForEachGroupNamesWhatIsNeeded) {
  CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 16, .page_bytes = 3072});
  const Status status = scene->Resize(2 * 3072 - 1);
  ASSERT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(status.error().message.find("6144"), std::string::npos) << status.error().message;
  EXPECT_TRUE(scene->Resize(2 * 3072).ok());
}

TEST(CacheMemory, GrowingStopsAtTheMostThatWasGiven) {
  CacheOptions options = RoomFor(4);
  options.max_memory_bytes = 8 * 512;
  CacheScene scene(LayoutNamed("full"), options);
  Sequence first = scene.Start(Text(1, 64));
  EXPECT_EQ(scene.Admit(Text(2, 64)).status, AdmitStatus::kNoMemory);
  EXPECT_EQ(scene->Resize(8 * 512 + 1).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(scene->Resize(8 * 512).ok());
  Sequence second = scene.Start(Text(2, 64));
  scene.Finish(first, Text(1, 64));
  scene.Finish(second, Text(2, 64));
}

TEST(CacheMemory, ResizingUnderLoadKeepsEveryPromiseAndAllContents) {
  const KvLayoutSpec layout = LayoutNamed("mixed");
  const std::uint64_t unit = BytesOfOneOfEach(layout);
  CacheScene scene(layout, {.memory_bytes = unit * 20, .max_memory_bytes = unit * 60});
  std::vector<std::pair<Sequence, Tokens>> running;
  std::uint64_t resized = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Tokens text = Text(RandomBits(1, 1, i) % 50, 20 + RandomBits(1, 2, i) % 100);
    Admission admission = scene.Admit(text, {.on_pending = OnPending::kCompute});
    if (admission.sequence) running.emplace_back(*std::move(admission.sequence), text);
    for (auto& [sequence, tokens] : running) {
      const std::uint64_t left = tokens.size() - sequence.size();
      ASSERT_TRUE(scene.Compute(
          sequence, std::span(tokens).subspan(sequence.size(), std::min<std::uint64_t>(left, 9))));
    }
    std::erase_if(running, [&](const auto& one) {
      scene.Check(one.first);
      return one.first.size() == one.second.size();
    });
    const std::uint64_t wanted = unit * (10 + RandomBits(1, 3, i) % 51);
    if (scene->Resize(wanted).ok()) {
      ++resized;
      EXPECT_EQ(scene->memory_bytes(), wanted);
    }
    scene->CheckInvariants();
  }
  EXPECT_GT(resized, 50u);
  EXPECT_GT(scene->core().pool.store().moves(), 0u);
}

// --- Accounts ---

class NoisyNeighbour : public ::testing::TestWithParam<std::string> {
 protected:
  // Of a prompt of 80 tokens that are all there.
  static std::uint64_t FullHit() {
    return KvLayout::Create(LayoutNamed(GetParam()))->has_encoded() ? 64 : 79;
  }
};

TEST_P(NoisyNeighbour, NeverCostsTheGuardedAccountAHit) {
  for (const ReplacementKind kind : kReplacementKinds) {
    const KvLayoutSpec layout = LayoutNamed(GetParam());
    const std::uint64_t unit = BytesOfOneOfEach(layout);
    CacheOptions options{.memory_bytes = unit * 80, .replacement = kind};
    options.accounts = {{.name = "guarded", .floor_bytes = unit * 12}, {.name = "noisy"}};
    CacheScene scene(layout, options);
    const Tokens text = Text(1, 80);
    scene.Serve(text, {.account = kGuarded});
    std::vector<Sequence> held;
    for (std::uint64_t i = 0; i < 120; ++i) {
      const AccountId attacker = i % 2 == 0 ? kNoisy : kCommonAccount;
      const Tokens noise = Text(2 + i, 30 + RandomBits(1, 1, i) % 200);
      Admission admission =
          scene.Admit(noise, {.account = attacker, .retention = {.level = kRetentionLevels - 1}});
      if (admission.sequence) {
        scene.Finish(*admission.sequence, noise);
        if (i % 3 == 0) held.push_back(*std::move(admission.sequence));
      } else {
        held.clear();
      }
      ASSERT_EQ(scene.Serve(text, {.account = kGuarded}), FullHit())
          << NameOf(kind) << " round " << i;
    }
    EXPECT_GT(scene->counters().replaced_blocks, 100u);
    scene->CheckInvariants();
  }
}

TEST_P(NoisyNeighbour, NeverKeepsTheGuardedAccountFromItsFloor) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  const std::uint64_t unit = BytesOfOneOfEach(layout);
  CacheOptions options{.memory_bytes = unit * 80};
  options.accounts = {{.name = "guarded", .floor_bytes = unit * 12}, {.name = "noisy"}};
  CacheScene scene(layout, options);
  std::vector<Sequence> held;
  for (std::uint64_t i = 0;; ++i) {  // all that can be had, live
    Admission admission = scene.Admit(Text(2 + i, 40), {.account = kNoisy});
    if (!admission.sequence) break;
    held.push_back(*std::move(admission.sequence));
  }
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Tokens text = Text(1'000 + i, 12 * 16);
    scene.Serve(text, {.account = kGuarded});
  }
}

TEST_P(NoisyNeighbour, NeverHoldsMoreThanItsCeiling) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  const std::uint64_t unit = BytesOfOneOfEach(layout);
  CacheOptions options{.memory_bytes = unit * 60};
  options.accounts = {{.name = "other"}, {.name = "noisy", .ceiling_bytes = unit * 20}};
  CacheScene scene(layout, options);
  const Tokens shared = Text(1, 160);
  scene.Serve(shared);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Tokens noise = i % 5 == 0 ? First(shared, 100 + i / 2) : Text(2 + i, 30 + 7 * i % 150);
    Admission admission = scene.Admit(noise, {.account = kNoisy});
    ASSERT_TRUE(admission.sequence);
    while (admission.sequence->size() < noise.size()) {
      const std::uint64_t at = admission.sequence->size();
      ASSERT_TRUE(scene.Compute(*admission.sequence, std::span(noise).subspan(at, 1)));
      ASSERT_LE(scene->core().pool.held_bytes(kNoisy), unit * 20);
    }
  }
  EXPECT_EQ(scene.Admit(Text(999, 6400), {.account = kNoisy}).status, AdmitStatus::kNoMemory);
  EXPECT_FALSE(scene->CouldEverFit({.max_tokens = 6400, .account = kNoisy}));
}

TEST_P(NoisyNeighbour, GivesUpItsIdleBlocksFirstWhenTheCacheShrinks) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  const std::uint64_t unit = BytesOfOneOfEach(layout);
  CacheOptions options{.memory_bytes = unit * 80};
  options.accounts = {{.name = "guarded", .floor_bytes = unit * 12}, {.name = "noisy"}};
  CacheScene scene(layout, options);
  scene.Serve(Text(1, 80), {.account = kGuarded});
  for (std::uint64_t i = 0; i < 60; ++i) scene.Serve(Text(2 + i, 50), {.account = kNoisy});
  for (std::uint64_t units = 79; scene->Resize(unit * units).ok(); --units) {
    ASSERT_EQ(scene.Probe(Text(1, 80)).hit_tokens, FullHit()) << units;
    scene->CheckInvariants();
  }
  EXPECT_LT(scene->memory_bytes(), unit * 40);
}

INSTANTIATE_TEST_SUITE_P(Layouts, NoisyNeighbour,
                         ::testing::Values("full", "hybrid", "mixed", "encoded", "codecs"),
                         [](const auto& param_info) { return param_info.param; });

TEST(CacheMemory, AccountAtItsCeilingReplacesItsOwnBlocksOnly) {
  CacheOptions options = RoomFor(32);
  options.accounts = {{.name = "other"}, {.name = "noisy", .ceiling_bytes = 4 * 512}};
  CacheScene scene(LayoutNamed("full"), options);
  const Tokens text = Text(1, 64);
  scene.Serve(text);
  for (std::uint64_t seed = 2; seed < 30; ++seed) scene.Serve(Text(seed, 64), {.account = kNoisy});
  EXPECT_EQ(scene.Probe(text).hit_tokens, 63u);
  EXPECT_EQ(scene->idle_bytes(), 8u * 512);
}

TEST(CacheMemory, RevivedBlockIsChargedToWhoeverRevivesIt) {
  CacheOptions options = RoomFor(32);
  options.accounts = {{.name = "a"}, {.name = "b"}};
  CacheScene scene(LayoutNamed("full"), options);
  scene.Serve(Text(1, 64), {.account = AccountId(1)});
  EXPECT_EQ(scene->core().pool.held_bytes(AccountId(1)), 4u * 512);
  const PrefixLease lease = scene.Lookup(Text(1, 49), AccountId(2));
  EXPECT_EQ(scene->core().pool.held_bytes(AccountId(1)), 1u * 512);
  EXPECT_EQ(scene->core().pool.held_bytes(AccountId(2)), 3u * 512);
}

// --- Groups of different block sizes ---

std::uint64_t BytesIn(const MemoryReport& report, std::uint32_t group) {
  std::uint64_t bytes = 0;
  for (const MemoryRow& row : report.rows) bytes += row.group == group ? row.bytes : 0;
  return bytes;
}

TEST(CacheMemory, AnyGroupCanHaveNearlyTheWholeArenaAndGivesItBack) {
  // Full: 512 bytes a block; window of 24: 1536.
  CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 18});
  const double arena = static_cast<double>(scene->memory_bytes());
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t most = scene->MaxTokens(1u << 20, 16);
    {
      Sequence large = scene.Start(Text(1, most), {.chunk = 16, .reuse = Reuse::kOff});
      ASSERT_TRUE(scene.Compute(large, Text(1, most), 16));
      EXPECT_GT(static_cast<double>(BytesIn(scene->Account(), 0)), 0.9 * arena);
      scene.Check(large);
    }
    std::vector<Sequence> small;
    for (std::uint64_t seed = 2;; ++seed) {
      const Tokens text = Text(seed, 32);
      Admission admission = scene.Admit(text, {.reuse = Reuse::kOff});
      if (!admission.sequence) break;
      scene.Finish(*admission.sequence, text);
      small.push_back(*std::move(admission.sequence));
    }
    // Two blocks each: three quarters of the bytes are the window's.
    EXPECT_GT(static_cast<double>(BytesIn(scene->Account(), 1)), 0.7 * arena);
    for (const Sequence& sequence : small) scene.Check(sequence);
    scene->CheckInvariants();
  }
}

TEST(CacheMemory, WhatIsFreeAfterRandomLoadCanBeUsed) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const KvLayoutSpec layout = LayoutNamed("mixed");
    CacheScene scene(layout, {.memory_bytes = BytesOfOneOfEach(layout) * 100});
    const BlockPool& pool = scene->core().pool;
    std::vector<Sequence> running;
    for (std::uint64_t i = 0; i < 150; ++i) {
      const Tokens text = Text(RandomBits(seed, 1, i) % 90, 1 + RandomBits(seed, 2, i) % 150);
      Admission admission = scene.Admit(text, {.on_pending = OnPending::kCompute});
      if (admission.sequence) {
        scene.Finish(*admission.sequence, text);
        running.push_back(*std::move(admission.sequence));
      }
      const std::uint64_t gone = RandomBits(seed, 3, i) % (running.size() + 4);
      if (gone < running.size()) {
        std::swap(running[gone], running.back());
        running.pop_back();
      }
    }
    // Each group wastes less than a page: whatever its pages hold, the rest is to be had.
    std::vector<std::uint64_t> blocks(pool.groups());
    blocks[3] = (pool.store().pages() - pool.live_pages()) * pool.store().blocks_per_page(3);
    ASSERT_GT(blocks[3], 0u);
    EXPECT_TRUE(pool.Fits(kCommonAccount, blocks));
    const std::uint64_t tokens = blocks[3] * 16 / 20;
    Admission admission = scene.Admit(Text(999, tokens));
    if (admission.sequence) scene.Finish(*admission.sequence, Text(999, tokens));
    for (const Sequence& sequence : running) scene.Check(sequence);
    scene->CheckInvariants();
  }
}

TEST(CacheMemory, EveryByteOfTheArenaIsAccountedForAtAnyTime) {
  const KvLayoutSpec layout = LayoutNamed("mixed");
  CacheOptions options{.memory_bytes = BytesOfOneOfEach(layout) * 40 + 1234};
  options.accounts = {{.name = "a"}, {.name = "b"}};
  CacheScene scene(layout, options);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Tokens text = Text(i % 7, 10 + i * 3);
    Sequence sequence =
        scene.Start(text, {.account = AccountId(static_cast<std::uint16_t>(i % 3))});
    while (sequence.size() < text.size()) {
      ASSERT_TRUE(scene.Compute(sequence, std::span(text).subspan(sequence.size(), 1)));
      const MemoryReport report = scene->Account();
      std::uint64_t bytes = report.free_slot_bytes + report.slack_bytes + report.free_page_bytes +
                            report.remainder_bytes;
      std::uint64_t idle = 0;
      std::uint64_t live = 0;
      for (const MemoryRow& row : report.rows) {
        bytes += row.bytes;
        (row.state == BlockState::kIdle ? idle : live) += row.bytes;
      }
      ASSERT_EQ(bytes, report.arena_bytes);
      ASSERT_EQ(report.arena_bytes, scene->memory_bytes());
      ASSERT_EQ(idle, scene->idle_bytes());
      ASSERT_EQ(live, scene->live_bytes());
    }
  }
}

}  // namespace
}  // namespace ashlar::kv
