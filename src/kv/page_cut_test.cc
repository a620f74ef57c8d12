#include "kv/page_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::CacheScene;
using testing::LayoutNamed;
using testing::Text;

KvLayout Layout(const std::string& name) { return *KvLayout::Create(LayoutNamed(name)); }

TEST(PageCut, IsHowTheStoreCutsItsArena) {
  for (const char* const name : {"full", "window", "hybrid", "mixed", "encoded", "codecs"}) {
    const KvLayout layout = Layout(name);
    for (const std::uint64_t bytes : {std::uint64_t{100'000}, std::uint64_t{1} << 22}) {
      const BlockStore store = *BlockStore::Create(layout, {.memory_bytes = bytes});
      const PageCut cut = *PageCut::Of(layout, {.memory_bytes = bytes});
      EXPECT_EQ(cut.page_bytes(), store.page_bytes()) << name;
      EXPECT_EQ(cut.pages(), store.pages()) << name;
      for (std::uint32_t g = 0; g < layout.store_groups().size(); ++g) {
        EXPECT_EQ(cut.blocks_per_page(g), store.blocks_per_page(g)) << name;
      }
    }
  }
}

// The cache admits exactly so many, whatever the layout, the length and the memory.
TEST(PageCut, MaxSequencesIsHowManyACacheAdmits) {
  for (const char* const name : {"full", "window", "sinks", "hybrid", "mixed", "encoded"}) {
    const KvLayout layout = Layout(name);
    for (const std::uint64_t blocks : {2u, 7u, 40u}) {
      const std::uint64_t bytes = BytesOfOneOfEach(LayoutNamed(name)) * blocks + 64;
      for (const std::uint64_t tokens : {1u, 16u, 17u, 60u, 200u}) {
        CacheScene scene(LayoutNamed(name), {.memory_bytes = bytes, .has_bytes = false});
        std::vector<std::uint64_t> each;
        layout.PeakBlocks({.tokens = tokens, .chunk = 20}, each);
        const PageCut cut = *PageCut::Of(layout, {.memory_bytes = bytes});
        std::vector<Sequence> admitted;
        for (;;) {
          Admission admission =
              scene.Admit(Text(admitted.size() + 1, tokens), {.chunk = 20, .reuse = Reuse::kOff});
          if (admission.status != AdmitStatus::kAdmitted) break;
          admitted.push_back(std::move(*admission.sequence));
        }
        EXPECT_EQ(cut.MaxSequences(each), admitted.size())
            << name << ", " << blocks << " blocks, " << tokens << " tokens";
      }
    }
  }
}

TEST(PageCut, CountsPagesByGroup) {
  const KvLayout layout = Layout("hybrid");
  const PageCut cut = *PageCut::Of(layout, {.memory_bytes = 1u << 16, .page_bytes = 3072});
  const std::uint64_t a = cut.blocks_per_page(0);
  const std::uint64_t b = cut.blocks_per_page(1);
  EXPECT_EQ(cut.PagesFor(std::vector<std::uint64_t>{0, 0}), 0u);
  EXPECT_EQ(cut.PagesFor(std::vector<std::uint64_t>{1, 0}), 1u);
  EXPECT_EQ(cut.PagesFor(std::vector<std::uint64_t>{a, b}), 2u);
  EXPECT_EQ(cut.PagesFor(std::vector<std::uint64_t>{a + 1, b}), 3u);
  EXPECT_EQ(cut.MaxSequences(std::vector<std::uint64_t>{a * cut.pages(), 0}), 1u);
  EXPECT_EQ(cut.MaxSequences(std::vector<std::uint64_t>{a * cut.pages() + 1, 0}), 0u);
}

}  // namespace
}  // namespace ashlar::kv
