#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "kv/block_table.h"

namespace ashlar::kv {
namespace {

KvLayout SmallLayout() {
  return *KvLayout::Create({.layers = 2, .kv_heads = 1, .head_dim = 8, .block_tokens = 16});
}

BlockPool PoolOf(std::uint64_t blocks) {
  return *BlockPool::Create(SmallLayout(), blocks * SmallLayout().block_bytes());
}

TEST(BlockPool, HoldsAsManyWholeBlocksAsTheMemoryAndNoMore) {
  const std::uint64_t block = SmallLayout().block_bytes();
  EXPECT_EQ(BlockPool::Create(SmallLayout(), 3 * block)->capacity(), 3u);
  EXPECT_EQ(BlockPool::Create(SmallLayout(), 4 * block - 1)->capacity(), 3u);
  EXPECT_EQ(BlockPool::Create(SmallLayout(), 4 * block - 1)->bytes_reserved(), 3 * block);
  const auto none = BlockPool::Create(SmallLayout(), block - 1);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find(std::to_string(block)), std::string::npos);
}

TEST(BlockPool, NeverPromisesMoreThanItHas) {
  BlockPool pool = PoolOf(4);
  auto three = pool.Reserve(3);
  ASSERT_TRUE(three.has_value());
  EXPECT_FALSE(pool.Reserve(2).has_value());
  EXPECT_EQ(pool.available(), 1u);  // the refusal changed nothing
  const BlockId block = pool.Take(*three);
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_EQ(pool.taken(), 1u);
  three.reset();  // the two blocks that were not taken return
  EXPECT_EQ(pool.available(), 3u);
  pool.Release(block);
  EXPECT_EQ(pool.available(), 4u);
  EXPECT_EQ(pool.bytes_used(), 0u);
  pool.CheckInvariants();
}

TEST(BlockPoolDeathTest, StopsOnMisuse) {
  BlockPool pool = PoolOf(2);
  auto one = pool.Reserve(1);
  const BlockId block = pool.Take(*one);
  EXPECT_DEATH(pool.Take(*one), "not been reserved");
  pool.Seal(block);
  EXPECT_DEATH(pool.Seal(block), "not open");
  pool.Release(block);
  EXPECT_DEATH(pool.Release(block), "free already");
}

TEST(BlockTable, TakesBlocksOnlyWhenATokenNeedsThem) {
  BlockPool pool = PoolOf(3);
  {
    BlockTable table(pool, *pool.Reserve(3));
    EXPECT_EQ(table.max_tokens(), 48u);
    EXPECT_EQ(pool.taken(), 0u);
    table.Prepare(16);
    EXPECT_EQ(pool.taken(), 1u);
    table.Commit(16);
    EXPECT_EQ(table.tokens(), 16u);
    table.Prepare(1);
    EXPECT_EQ(pool.taken(), 2u);
    table.Commit(1);
    table.Prepare(31);
    table.Commit(31);
    EXPECT_EQ(table.tokens(), 48u);
    EXPECT_EQ(pool.bytes_used(), table.bytes());
    EXPECT_DEATH(table.Prepare(1), "made for 48");
  }
  EXPECT_EQ(pool.available(), 3u);
  pool.CheckInvariants();
}

// Against a naive model: every sequence's bytes stay its own, the counters always add up.
TEST(BlockTable, RandomSequencesKeepTheirBytesAndReturnEverything) {
  constexpr std::uint64_t kBlocks = 40;
  BlockPool pool = PoolOf(kBlocks);
  const std::uint64_t block_tokens = pool.layout().block_tokens();
  struct Live {
    std::unique_ptr<BlockTable> table;
    std::uint64_t promised;
    unsigned char mark;
  };
  std::vector<Live> live;
  std::mt19937 random(7);
  for (int op = 0; op < 5000; ++op) {
    const std::uint64_t kind = random() % 4;
    if (kind == 0) {
      const std::uint64_t blocks = random() % 12;
      std::uint64_t promised = 0;
      for (const Live& one : live) promised += one.promised;
      auto reservation = pool.Reserve(blocks);
      ASSERT_EQ(reservation.has_value(), promised + blocks <= kBlocks);
      if (reservation) {
        live.push_back({std::make_unique<BlockTable>(pool, *std::move(reservation)), blocks,
                        static_cast<unsigned char>(random() % 256)});
      }
    } else if (kind == 1 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      live.pop_back();
    } else if (!live.empty()) {
      Live& one = live[random() % live.size()];
      const std::uint64_t room = one.table->max_tokens() - one.table->tokens();
      const std::uint64_t count = room == 0 ? 0 : random() % (room + 1);
      one.table->Prepare(count);
      for (std::byte* address : one.table->addresses()) {
        std::memset(address, one.mark, pool.layout().block_bytes());
      }
      one.table->Commit(count);
      ASSERT_EQ(one.table->blocks().size(),
                (one.table->tokens() + block_tokens - 1) / block_tokens);
    }
    std::uint64_t bytes = 0;
    for (const Live& one : live) {
      bytes += one.table->bytes();
      for (const std::byte* address : one.table->addresses()) {
        ASSERT_EQ(static_cast<unsigned char>(address[0]), one.mark);
        ASSERT_EQ(static_cast<unsigned char>(address[pool.layout().block_bytes() - 1]), one.mark);
      }
    }
    ASSERT_EQ(bytes, pool.bytes_used());
    pool.CheckInvariants();
  }
  live.clear();
  EXPECT_EQ(pool.available(), kBlocks);
}

}  // namespace
}  // namespace ashlar::kv
