// The elastic arena against a map from block to bytes.
#include "kv/block_store.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::LayoutNamed;

KvLayout Layout(const std::string& name) { return *KvLayout::Create(LayoutNamed(name)); }

TEST(BlockStore, TakesEveryBlockThatFitsAndNoMore) {
  const KvLayout layout = Layout("full");
  BlockStore store = *BlockStore::Create(layout, {.memory_bytes = 10 * 512, .page_bytes = 1024});
  std::set<std::uint32_t> ids;
  for (int i = 0; i < 10; ++i) ids.insert(store.Take(0)->value());
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_FALSE(store.Take(0));
  store.Give(BlockId(*ids.begin()));
  EXPECT_TRUE(store.Take(0));
  store.CheckInvariants();
}

TEST(BlockStore, RefusesMemoryThatCannotHoldAPageForEachGroup) {
  const KvLayout layout = Layout("mixed");
  std::uint64_t largest = 0;
  for (const LaneGroup& group : layout.groups()) {
    largest = std::max<std::uint64_t>(largest, group.block_bytes());
  }
  const std::uint64_t least = largest * layout.groups().size();
  EXPECT_TRUE(BlockStore::Create(layout, {.memory_bytes = least}).ok());
  const auto refused = BlockStore::Create(layout, {.memory_bytes = least - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(std::to_string(least)), std::string::npos);
  for (const std::uint64_t page : {largest - 64, largest + 32, std::uint64_t{1} << 30}) {
    EXPECT_FALSE(BlockStore::Create(layout, {.memory_bytes = 1u << 20, .page_bytes = page}).ok());
  }
}

TEST(BlockStore, ChosenPagesWasteLittleForEveryGroup) {
  for (const char* const name : {"full", "window", "hybrid", "mixed", "encoded", "codecs"}) {
    const KvLayout layout = Layout(name);
    for (const std::uint64_t bytes : {std::uint64_t{1} << 18, std::uint64_t{1} << 22}) {
      const std::uint64_t page = PageCut::ChoosePageBytes(layout, bytes);
      for (const StoreGroup& group : layout.store_groups()) {
        EXPECT_LE(page % group.block_bytes, page / 8) << name << ", pages of " << page;
      }
    }
  }
}

TEST(BlockStore, GroupsShareOneArenaWithoutSharesOfTheirOwn) {
  const KvLayout layout = Layout("hybrid");
  BlockStore store = *BlockStore::Create(layout, {.memory_bytes = 1u << 16, .page_bytes = 3072});
  for (int round = 0; round < 2; ++round) {
    for (const std::uint32_t g : {0u, 1u}) {
      std::vector<BlockId> blocks;
      while (const auto block = store.Take(g)) blocks.push_back(*block);
      EXPECT_EQ(blocks.size(), store.pages() * store.blocks_per_page(g));
      EXPECT_FALSE(store.Take(1 - g));
      for (const BlockId block : blocks) store.Give(block);
      EXPECT_EQ(store.free_pages(), store.pages());
    }
  }
}

// Random takes and gives, every block full of its own mark.
class MarkedStore {
 public:
  MarkedStore(const KvLayout& layout, const BlockStoreOptions& options)
      : layout_(layout), store_(*BlockStore::Create(layout, options)) {}

  BlockStore& store() { return store_; }
  std::size_t size() const { return marks_.size(); }
  void Take(std::uint32_t group, std::uint64_t mark) {
    const std::optional<BlockId> block = store_.Take(group);
    if (!block) {
      EXPECT_EQ(store_.free_pages(), 0u);
      EXPECT_EQ(store_.free_slots(group), 0u);
      return;
    }
    EXPECT_TRUE(marks_.emplace(*block, mark).second);
    EXPECT_EQ(store_.group_of(*block), group);
    std::byte* const bytes = store_.Data(*block);
    std::memcpy(bytes, &mark, sizeof mark);
    std::memcpy(bytes + layout_.store_groups()[group].block_bytes - sizeof mark, &mark,
                sizeof mark);
  }
  void Give(std::uint64_t which) {
    const auto block = std::next(marks_.begin(), static_cast<std::ptrdiff_t>(which % size()));
    store_.Give(block->first);
    marks_.erase(block);
  }
  void Check() const {
    store_.CheckInvariants();
    for (const auto& [block, mark] : marks_) {
      const std::byte* const bytes = store_.Data(block);
      const std::size_t last =
          layout_.store_groups()[store_.group_of(block)].block_bytes - sizeof mark;
      EXPECT_EQ(std::memcmp(bytes, &mark, sizeof mark), 0);
      EXPECT_EQ(std::memcmp(bytes + last, &mark, sizeof mark), 0);
    }
  }

 private:
  const KvLayout& layout_;
  BlockStore store_;
  std::map<BlockId, std::uint64_t> marks_;
};

TEST(BlockStore, BlocksKeepTheirBytesWhateverMoves) {
  for (const char* const name : {"full", "hybrid", "mixed", "encoded", "codecs"}) {
    const KvLayout layout = Layout(name);
    MarkedStore store(layout, {.memory_bytes = 1u << 17, .max_memory_bytes = 1u << 18});
    const auto groups = static_cast<std::uint32_t>(layout.store_groups().size());
    std::uint64_t freed = 0;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t dice = RandomBits(1, 1, i) % 100;
      const auto group = static_cast<std::uint32_t>(RandomBits(1, 2, i) % groups);
      const bool grows = i / 300 % 2 == 0;
      if (dice < (grows ? 60u : 30u)) {
        store.Take(group, i);
      } else if (dice < 85 && store.size() > 0) {
        store.Give(RandomBits(1, 3, i));
      } else if (dice < 97) {
        const std::uint64_t moves = store.store().moves();
        const bool is_freed = store.store().FreePage(group);
        EXPECT_TRUE(is_freed || store.store().moves() == moves);
        freed += is_freed ? 1 : 0;
      } else {
        const std::uint64_t wanted = (1u << 16) + RandomBits(1, 4, i) % (3u << 16);
        const std::uint64_t before = store.store().memory_bytes();
        const std::uint64_t free = store.store().free_pages();
        const std::uint64_t page = store.store().page_bytes();
        const bool fits = wanted / page + free >= store.store().pages();
        EXPECT_EQ(store.store().Resize(wanted), fits);
        EXPECT_EQ(store.store().memory_bytes(), fits ? wanted : before);
      }
      if (i % 16 == 0) store.Check();
    }
    store.Check();
    EXPECT_GT(freed, 50u);
    EXPECT_GT(store.store().moves(), 50u);
    EXPECT_FALSE(store.store().Resize((1u << 18) + 1));
  }
}

TEST(BlockStore, AfterCompactionAGroupHasAtMostOnePageThatIsNotFull) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const KvLayout layout = Layout("mixed");
    MarkedStore store(layout, {.memory_bytes = 1u << 18});
    for (std::uint64_t i = 0; i < 400; ++i) {
      if (RandomBits(seed, 1, i) % 5 < 3 || store.size() == 0) {
        store.Take(static_cast<std::uint32_t>(RandomBits(seed, 2, i) % 5), i);
      } else {
        store.Give(RandomBits(seed, 3, i));
      }
    }
    for (std::uint32_t g = 0; g < 5; ++g) {
      while (store.store().free_slots(g) >= store.store().blocks_per_page(g)) {
        ASSERT_TRUE(store.store().FreePage(g));
      }
      const std::uint64_t slots = store.store().blocks_per_page(g);
      EXPECT_EQ(store.store().pages_of(g), (store.store().taken(g) + slots - 1) / slots);
      EXPECT_FALSE(store.store().FreePage(g));
    }
    store.Check();
  }
}

}  // namespace
}  // namespace ashlar::kv
