// States, promises and accounts, against numbers counted by hand and by a plain list.
#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::LayoutNamed;

using Blocks = std::vector<std::uint64_t>;

constexpr AccountId kOther{1};

KvLayout Layout(const std::string& name) { return *KvLayout::Create(LayoutNamed(name)); }

BlockPool FullPool(std::uint64_t blocks, std::vector<AccountLimits> accounts = {}) {
  return *BlockPool::Create(Layout("full"),
                            {.store = {.memory_bytes = blocks * 512, .page_bytes = 512},
                             .accounts = std::move(accounts)});
}

BlockId Open(BlockPool& pool, AccountId account = kCommonAccount) {
  EXPECT_TRUE(pool.PromiseOne(account, 0));
  return *pool.TakePromised(account, 0);
}

BlockId Idle(BlockPool& pool, AccountId account = kCommonAccount) {
  const BlockId block = Open(pool, account);
  pool.Seal(block);
  EXPECT_EQ(pool.Unpin(block, account), 0u);
  pool.MakeIdle(block);
  return block;
}

TEST(BlockPool, RefusesLimitsThatContradictEachOther) {
  const auto refused = [](std::vector<AccountLimits> accounts) {
    return !BlockPool::Create(Layout("full"),
                              {.store = {.memory_bytes = 8 * 512, .page_bytes = 512},
                               .accounts = std::move(accounts)})
                .ok();
  };
  EXPECT_TRUE(refused({{.name = "a", .floor_bytes = 2, .ceiling_bytes = 1}}));
  EXPECT_TRUE(refused({{.name = "a", .floor_bytes = 9 * 512}}));
  EXPECT_TRUE(refused({{.name = "a", .floor_bytes = 4 * 512}, {.name = "b", .floor_bytes = 2049}}));
  EXPECT_TRUE(refused(std::vector<AccountLimits>(kMaxAccounts)));
  EXPECT_FALSE(refused(std::vector<AccountLimits>(kMaxAccounts - 1)));
  EXPECT_FALSE(refused({{.name = "a", .floor_bytes = 8 * 512}}));
}

TEST(BlockPool, PromisesExactlyWhatFits) {
  BlockPool pool = FullPool(4);
  EXPECT_FALSE(pool.Promise(kCommonAccount, Blocks{5}));
  EXPECT_EQ(pool.promised(0), 0u);
  EXPECT_TRUE(pool.Promise(kCommonAccount, Blocks{4}));
  EXPECT_FALSE(pool.PromiseOne(kCommonAccount, 0));
  pool.Unpromise(kCommonAccount, 0, 1);
  EXPECT_TRUE(pool.PromiseOne(kCommonAccount, 0));
  pool.CheckInvariants();
}

TEST(BlockPool, IdleBlocksAreNotInTheWayOfPromisesAndLiveOnesAre) {
  BlockPool pool = FullPool(4);
  for (int i = 0; i < 2; ++i) (void)Idle(pool);
  const BlockId open = Open(pool);
  EXPECT_TRUE(pool.Fits(kCommonAccount, Blocks{3}));
  EXPECT_FALSE(pool.Fits(kCommonAccount, Blocks{4}));
  EXPECT_TRUE(pool.CouldEverFit(kCommonAccount, Blocks{4}));
  EXPECT_FALSE(pool.CouldEverFit(kCommonAccount, Blocks{5}));
  EXPECT_EQ(pool.Unpin(open, kCommonAccount), 0u);
  pool.Free(open);
  EXPECT_TRUE(pool.Fits(kCommonAccount, Blocks{4}));
}

TEST(BlockPool, TakeFailsOnlyWhereIdleBlocksHoldThePlace) {
  BlockPool pool = FullPool(2);
  const BlockId idle = Idle(pool);
  ASSERT_TRUE(pool.Promise(kCommonAccount, Blocks{2}));
  EXPECT_TRUE(pool.TakePromised(kCommonAccount, 0));
  EXPECT_FALSE(pool.TakePromised(kCommonAccount, 0));
  pool.Free(idle);
  EXPECT_TRUE(pool.TakePromised(kCommonAccount, 0));
  pool.CheckInvariants();
}

TEST(BlockPool, CeilingBoundsLiveBytesOfTheAccountOnly) {
  BlockPool pool = FullPool(8, {{.name = "a", .ceiling_bytes = 3 * 512}});
  EXPECT_FALSE(pool.Fits(kOther, Blocks{4}));
  EXPECT_FALSE(pool.CouldEverFit(kOther, Blocks{4}));
  EXPECT_TRUE(pool.Promise(kOther, Blocks{3}));
  EXPECT_FALSE(pool.PromiseOne(kOther, 0));
  EXPECT_TRUE(pool.Promise(kCommonAccount, Blocks{5}));
}

TEST(BlockPool, FloorIsNeverPromisedToOthers) {
  BlockPool pool = FullPool(8, {{.name = "a", .floor_bytes = 3 * 512}});
  EXPECT_FALSE(pool.Fits(kCommonAccount, Blocks{6}));
  EXPECT_FALSE(pool.CouldEverFit(kCommonAccount, Blocks{6}));
  EXPECT_TRUE(pool.Promise(kCommonAccount, Blocks{5}));
  EXPECT_TRUE(pool.Promise(kOther, Blocks{3}));
  EXPECT_FALSE(pool.PromiseOne(kOther, 0));
  EXPECT_EQ(pool.min_memory_bytes(), 8u * 512);
}

TEST(BlockPool, FloorHoldsAnyMixtureOfGroupsDespitePages) {
  const KvLayout layout = Layout("mixed");
  const std::uint64_t unit = BytesOfOneOfEach(LayoutNamed("mixed"));
  BlockPool pool = *BlockPool::Create(
      layout,
      {.store = {.memory_bytes = unit * 60}, .accounts = {{.name = "a", .floor_bytes = unit * 6}}});
  // Everybody else takes all there is, in blocks of every group.
  for (std::uint32_t g = 0; g < 5; ++g) {
    for (int i = 0; i < 20 && pool.PromiseOne(kCommonAccount, g); ++i) {
    }
  }
  while (pool.PromiseOne(kCommonAccount, 4)) {
  }
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Blocks mixture(5);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0;; ++i) {
      const auto g = static_cast<std::uint32_t>(RandomBits(seed, 1, i) % 5);
      bytes += layout.group(g).block_bytes();
      if (bytes > unit * 6) break;
      ++mixture[g];
    }
    EXPECT_TRUE(pool.Fits(kOther, mixture)) << "seed " << seed;
  }
}

TEST(BlockPool, RevivedBlockIsChargedToWhoeverRevivesIt) {
  BlockPool pool = FullPool(4, {{.name = "a"}});
  const BlockId block = Idle(pool);
  EXPECT_EQ(pool.held_bytes(kCommonAccount), 512u);
  ASSERT_TRUE(pool.PromiseOne(kOther, 0));
  pool.Revive(block, kOther);
  EXPECT_EQ(pool.held_bytes(kCommonAccount), 0u);
  EXPECT_EQ(pool.held_bytes(kOther), 512u);
  EXPECT_EQ(pool.live_bytes(kOther), 512u);
  pool.CheckInvariants();
}

TEST(BlockPoolDeathTest, ChangesOfStateThatAreNotInThePictureStop) {
  BlockPool pool = FullPool(4);
  const BlockId open = Open(pool);
  EXPECT_DEATH(pool.Free(open), "cannot be freed");
  EXPECT_DEATH(pool.MakeIdle(open), "cannot become idle");
  EXPECT_DEATH(pool.Revive(open, kCommonAccount), "is not idle");
  EXPECT_DEATH(pool.Unpromise(kCommonAccount, 0, 1), "were not promised");
  const BlockId idle = Idle(pool);
  EXPECT_DEATH(pool.Seal(idle), "is not open");
  EXPECT_DEATH((void)pool.Unpin(idle, kCommonAccount), "is not pinned");
}

// Random legal changes; the pool's own recount after each, and the promise that counts: whatever
// was promised can be taken once idle blocks make room.
TEST(BlockPool, WhatWasPromisedCanBeTakenOnceIdleBlocksHaveGone) {
  for (const char* const name : {"full", "hybrid", "mixed", "encoded", "codecs"}) {
    const KvLayout layout = Layout(name);
    const auto groups = static_cast<std::uint32_t>(layout.store_groups().size());
    const std::uint64_t unit = BytesOfOneOfEach(LayoutNamed(name));
    BlockPool pool =
        *BlockPool::Create(layout, {.store = {.memory_bytes = unit * 30},
                                    .accounts = {{.name = "a", .floor_bytes = unit * 3},
                                                 {.name = "b", .ceiling_bytes = unit * 8}}});
    struct Held {
      BlockId block;
      AccountId account;
    };
    std::vector<Held> pinned;
    std::vector<BlockId> idle;
    const auto take = [&](AccountId account, std::uint32_t g) {
      for (;;) {
        if (const auto block = pool.TakePromised(account, g)) return *block;
        for (std::uint32_t other = 0; other < groups; ++other) {
          while (pool.store().FreePage(other)) {
          }
        }
        if (pool.store().free_pages() > 0 || pool.store().free_slots(g) > 0) continue;
        EXPECT_FALSE(idle.empty()) << "a promise is broken";
        pool.Free(idle.back());
        idle.pop_back();
      }
    };
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const AccountId account(static_cast<std::uint16_t>(RandomBits(1, 1, i) % 3));
      const auto g = static_cast<std::uint32_t>(RandomBits(1, 2, i) % groups);
      const std::uint64_t dice = RandomBits(1, 3, i) % 100;
      if (dice < 55) {
        if (pool.PromiseOne(account, g)) pinned.push_back({take(account, g), account});
      } else if (dice < 85 && !pinned.empty()) {
        const std::size_t at = RandomBits(1, 4, i) % pinned.size();
        const Held held = pinned[at];
        pinned[at] = pinned.back();
        pinned.pop_back();
        if (pool.Unpin(held.block, held.account) > 0) continue;
        if (pool.state(held.block) == BlockState::kOpen) pool.Seal(held.block);
        pool.MakeIdle(held.block);
        idle.push_back(held.block);
      } else if (!idle.empty()) {
        const BlockId block = idle.back();
        if (!pool.PromiseOne(account, pool.group(block))) continue;
        idle.pop_back();
        pool.Revive(block, account);
        pinned.push_back({block, account});
      }
      pool.CheckInvariants();
    }
  }
}

}  // namespace
}  // namespace ashlar::kv
