#include "kv/page_cut.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace ashlar::kv {
namespace {

constexpr std::uint64_t kPagesWanted = 64;
constexpr std::uint64_t kBlocksWanted = 8;  // of the largest kind, in a page
constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max() / 2;

std::uint64_t LargestBlock(const KvLayout& layout) {
  std::uint64_t largest = 0;
  for (const StoreGroup& group : layout.store_groups()) {
    largest = std::max<std::uint64_t>(largest, group.block_bytes);
  }
  return largest;
}

std::uint64_t SmallestBlock(const KvLayout& layout) {
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  for (const StoreGroup& group : layout.store_groups()) {
    smallest = std::min<std::uint64_t>(smallest, group.block_bytes);
  }
  return smallest;
}

}  // namespace

std::uint64_t PageCut::ChoosePageBytes(const KvLayout& layout, std::uint64_t memory_bytes) {
  const std::uint64_t largest = LargestBlock(layout);
  const std::uint64_t most = std::min<std::uint64_t>(kMaxSlots * SmallestBlock(layout),
                                                     memory_bytes / layout.store_groups().size());
  const std::uint64_t wanted =
      std::clamp(memory_bytes / kPagesWanted, largest, kBlocksWanted * largest);
  // Candidates: whole numbers of blocks of one group, from the wanted size to twice that.
  std::uint64_t best = 0;
  double best_waste = 0;
  for (const StoreGroup& group : layout.store_groups()) {
    const std::uint64_t block = group.block_bytes;
    const std::uint64_t first = (wanted + block - 1) / block;
    for (std::uint64_t count = first; count <= 2 * first && count * block <= most; ++count) {
      const std::uint64_t page = count * block;
      if (page < largest) continue;
      double waste = static_cast<double>(memory_bytes % page) / static_cast<double>(memory_bytes);
      for (const StoreGroup& other : layout.store_groups()) {
        waste += static_cast<double>(page % other.block_bytes) / static_cast<double>(page);
      }
      if (best == 0 || waste < best_waste || (waste == best_waste && page < best)) {
        best = page;
        best_waste = waste;
      }
    }
  }
  return best == 0 ? largest : best;
}

Result<PageCut> PageCut::Of(const KvLayout& layout, const ArenaSize& size) {
  const std::uint64_t largest = LargestBlock(layout);
  // A page belongs to one group: the least that works is one page each, of the largest block.
  const std::uint64_t least = largest * layout.store_groups().size();
  if (size.memory_bytes < least) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV memory of {} bytes holds no block of {} tokens of every lane group; give "
                     "--kv-memory at "
                     "least {} bytes",
                     size.memory_bytes, layout.block_tokens(), least);
  }
  PageCut cut;
  cut.page_bytes_ =
      size.page_bytes > 0 ? size.page_bytes : ChoosePageBytes(layout, size.memory_bytes);
  const std::uint64_t most = kMaxSlots * SmallestBlock(layout);
  if (cut.page_bytes_ < largest || cut.page_bytes_ % 64 != 0 || cut.page_bytes_ > most ||
      size.memory_bytes / cut.page_bytes_ < layout.store_groups().size()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV pages of {} bytes; a page must be a multiple of 64 from {} (the largest "
                     "block) to {}, and the memory of {} bytes must hold one for each group",
                     cut.page_bytes_, largest, most, size.memory_bytes);
  }
  const std::uint64_t bytes = std::max(size.memory_bytes, size.max_memory_bytes);
  if (bytes / cut.page_bytes_ > kMaxBlocks / (cut.page_bytes_ / SmallestBlock(layout))) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV memory of {} bytes has more blocks than the {} that can be numbered; give "
                     "larger --block-tokens",
                     bytes, kMaxBlocks);
  }
  cut.pages_ = size.memory_bytes / cut.page_bytes_;
  cut.per_page_.reserve(layout.store_groups().size());
  for (const StoreGroup& group : layout.store_groups()) {
    cut.per_page_.push_back(cut.page_bytes_ / group.block_bytes);
  }
  return cut;
}

std::uint64_t PageCut::PagesFor(std::span<const std::uint64_t> blocks) const {
  ASHLAR_CHECK(blocks.size() == per_page_.size(), "blocks of {} groups, not {}", blocks.size(),
               per_page_.size());
  std::uint64_t pages = 0;
  for (std::size_t g = 0; g < blocks.size(); ++g) pages += kv::PagesFor(blocks[g], per_page_[g]);
  return pages;
}

std::uint64_t PageCut::MaxSequences(std::span<const std::uint64_t> blocks) const {
  std::uint64_t above = std::numeric_limits<std::uint64_t>::max();  // so many would not fit
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    if (blocks[g] > 0) above = std::min(above, pages_ * per_page_[g] / blocks[g] + 1);
  }
  ASHLAR_CHECK(above < std::numeric_limits<std::uint64_t>::max(), "sequences without blocks");
  std::vector<std::uint64_t> all(blocks.size());
  std::uint64_t fits = 0;
  while (above - fits > 1) {
    const std::uint64_t middle = fits + (above - fits) / 2;
    std::ranges::transform(blocks, all.begin(), [&](std::uint64_t each) { return each * middle; });
    (PagesFor(all) <= pages_ ? fits : above) = middle;
  }
  return fits;
}

}  // namespace ashlar::kv
