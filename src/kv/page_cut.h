// How an arena is cut into pages, and how many sequences that has room for: the arithmetic of
// BlockStore and BlockPool without an arena, for whoever asks what would fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"

namespace ashlar::kv {

// Pages of `per_page` blocks that hold so many.
constexpr std::uint64_t PagesFor(std::uint64_t blocks, std::uint64_t per_page) {
  return (blocks + per_page - 1) / per_page;
}

struct ArenaSize {
  std::uint64_t memory_bytes = 0;      // the hard cap now
  std::uint64_t max_memory_bytes = 0;  // what it may be raised to; 0: memory_bytes
  std::uint64_t page_bytes = 0;        // 0: chosen, see ChoosePageBytes
};

class PageCut {
 public:
  static constexpr std::uint32_t kMaxSlots = 4096;  // blocks of a page

  // Errors: kInvalidArgument when the memory holds less than one block of each store group (naming
  // the size that would do), a page no block of some group, or there are more blocks than ids.
  static Result<PageCut> Of(const KvLayout& layout, const ArenaSize& size);

  // The page size of an arena of `memory_bytes`: 1/64 of it, or eight blocks of the largest kind if
  // that is less, up to twice that; of those, the size that wastes least, summed over the groups.
  static std::uint64_t ChoosePageBytes(const KvLayout& layout, std::uint64_t memory_bytes);

  std::uint64_t page_bytes() const { return page_bytes_; }
  std::uint64_t pages() const { return pages_; }
  std::uint64_t blocks_per_page(std::uint32_t store_group) const { return per_page_[store_group]; }

  // That these many blocks need, by store group, each group in pages of its own.
  // Precondition: no more blocks of a group than can be numbered.
  std::uint64_t PagesFor(std::span<const std::uint64_t> blocks) const;
  // Sequences that may be admitted at once when each is promised these many blocks, of one group at
  // least. O(log).
  std::uint64_t MaxSequences(std::span<const std::uint64_t> blocks) const;

 private:
  PageCut() = default;

  std::uint64_t page_bytes_ = 0;
  std::uint64_t pages_ = 0;
  std::vector<std::uint64_t> per_page_;  // by store group
};

}  // namespace ashlar::kv
