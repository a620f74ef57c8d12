#include "kv/block_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ashlar::kv {

Result<BlockStore> BlockStore::Create(const KvLayout& layout, const BlockStoreOptions& options) {
  ASHLAR_ASSIGN(const PageCut cut,
                PageCut::Of(layout, {.memory_bytes = options.memory_bytes,
                                     .max_memory_bytes = options.max_memory_bytes,
                                     .page_bytes = options.page_bytes}));
  const std::uint64_t bytes = std::max(options.memory_bytes, options.max_memory_bytes);
  ASHLAR_ASSIGN(Arena arena,
                options.has_bytes ? Arena::Create(bytes) : Arena::CreateWithoutBytes(bytes));
  return BlockStore(layout, std::move(arena), options, cut);
}

BlockStore::BlockStore(const KvLayout& layout, Arena arena, const BlockStoreOptions& options,
                       const PageCut& cut)
    : arena_(std::move(arena)), memory_bytes_(0), page_bytes_(cut.page_bytes()) {
  const std::uint64_t max_pages = arena_.bytes() / page_bytes_;
  pages_.resize(max_pages);
  for (const StoreGroup& group : layout.store_groups()) {
    Group state;
    state.block_bytes = group.block_bytes;
    state.slots =
        static_cast<std::uint32_t>(cut.blocks_per_page(static_cast<std::uint32_t>(groups_.size())));
    state.lists.assign(state.slots + 1, kNil);
    state.present.assign(state.slots / 64 + 1, 0);
    stride_ = std::max(stride_, state.slots);
    groups_.push_back(std::move(state));
  }
  owners_.resize(max_pages * stride_);
  places_.resize(max_pages * stride_);
  for (std::uint64_t page = max_pages; page-- > 0;) {
    pages_[page].next = first_absent_page_;
    first_absent_page_ = static_cast<std::uint32_t>(page);
  }
  ASHLAR_CHECK(Resize(options.memory_bytes), "the arena holds its first size");
}

std::optional<BlockId> BlockStore::Take(std::uint32_t group_index) {
  Group& group = groups_[group_index];
  std::uint32_t page = kNil;
  if (free_slots(group_index) > 0) {
    page = group.lists[FindDown(group, group.slots - 1)];
  } else {
    page = AcquirePage(group_index);
    if (page == kNil) return std::nullopt;
  }
  std::uint32_t id = first_free_id_;
  if (id != kNil) {
    first_free_id_ = places_[id].slot;
  } else {
    id = used_ids_++;
  }
  const std::uint32_t slot = TakeSlot(page);
  places_[id] = {.page = page, .slot = slot};
  owners_[SlotIndex(page, slot)] = id;
  return BlockId(id);
}

void BlockStore::Give(BlockId block) {
  Place& place = places_[block.value()];
  ASHLAR_CHECK(place.page != kNil, "block {} is not taken", block.value());
  GiveSlot(place.page, place.slot);
  place = {.page = kNil, .slot = first_free_id_};
  first_free_id_ = block.value();
}

std::byte* BlockStore::Data(BlockId block) const {
  const Place& place = places_[block.value()];
  ASHLAR_DCHECK(place.page != kNil && arena_.data() != nullptr, "block {} has no bytes",
                block.value());
  return Address(place.page, place.slot);
}

bool BlockStore::FreePage(std::uint32_t group_index) {
  Group& group = groups_[group_index];
  const std::uint32_t list = FindUp(group, 0);
  if (list == kNil) return false;
  const std::uint32_t from = group.lists[list];
  const Page& page = pages_[from];
  if (free_slots(group_index) - (group.slots - page.taken) < page.taken) return false;
  Unlink(from);  // so that it is not chosen as a destination
  for (std::uint32_t slot = 0, left = page.taken; left > 0; ++slot) {
    const std::uint32_t id = owners_[SlotIndex(from, slot)];
    // Of a freed slot the entry is a slot or garbage: only an id whose place is here is a block.
    if (id >= used_ids_ || places_[id].page != from || places_[id].slot != slot) continue;
    const std::uint32_t to = group.lists[FindDown(group, group.slots - 1)];
    const std::uint32_t to_slot = TakeSlot(to);
    --group.taken;  // it was counted already
    if (arena_.data() != nullptr) {
      std::memcpy(Address(to, to_slot), Address(from, slot), group.block_bytes);
    }
    places_[id] = {.page = to, .slot = to_slot};
    owners_[SlotIndex(to, to_slot)] = id;
    ++moves_;
    --left;
  }
  pages_[from].taken = 0;
  ReleasePage(from);
  return true;
}

bool BlockStore::Resize(std::uint64_t memory_bytes) {
  const std::uint64_t wanted = memory_bytes / page_bytes_;
  if (memory_bytes > arena_.bytes() || wanted + free_pages_ < present_pages_) return false;
  for (; present_pages_ > wanted; --present_pages_) {
    const std::uint32_t page = first_free_page_;
    first_free_page_ = pages_[page].next;
    --free_pages_;
    pages_[page].state = PageState::kAbsent;
    pages_[page].next = first_absent_page_;
    first_absent_page_ = page;
    arena_.Discard(page * page_bytes_, page_bytes_);
  }
  for (; present_pages_ < wanted; ++present_pages_) {
    const std::uint32_t page = first_absent_page_;
    first_absent_page_ = pages_[page].next;
    ++free_pages_;
    pages_[page].state = PageState::kFree;
    pages_[page].next = first_free_page_;
    first_free_page_ = page;
  }
  memory_bytes_ = memory_bytes;
  return true;
}

std::uint64_t BlockStore::DiscardFreePages() {
  for (std::uint32_t page = first_free_page_; page != kNil; page = pages_[page].next) {
    arena_.Discard(page * page_bytes_, page_bytes_);
  }
  return free_pages_ * page_bytes_;
}

std::uint32_t BlockStore::AcquirePage(std::uint32_t group_index) {
  const std::uint32_t page = first_free_page_;
  if (page == kNil) return kNil;
  Group& group = groups_[group_index];
  first_free_page_ = pages_[page].next;
  --free_pages_;
  pages_[page] = {.group = group_index,
                  .free_slot = static_cast<std::uint16_t>(group.slots),
                  .state = PageState::kOwned};
  ++group.pages;
  Link(page);
  return page;
}

// Precondition: owned, empty and in no list.
void BlockStore::ReleasePage(std::uint32_t page) {
  --groups_[pages_[page].group].pages;
  pages_[page].state = PageState::kFree;
  pages_[page].next = first_free_page_;
  first_free_page_ = page;
  ++free_pages_;
}

std::uint32_t BlockStore::TakeSlot(std::uint32_t page_index) {
  Page& page = pages_[page_index];
  Group& group = groups_[page.group];
  Unlink(page_index);
  std::uint32_t slot = page.free_slot;
  if (slot < group.slots) {
    page.free_slot = static_cast<std::uint16_t>(owners_[SlotIndex(page_index, slot)]);
  } else {
    slot = page.used++;
  }
  ++page.taken;
  ++group.taken;
  Link(page_index);
  return slot;
}

void BlockStore::GiveSlot(std::uint32_t page_index, std::uint32_t slot) {
  Page& page = pages_[page_index];
  Unlink(page_index);
  owners_[SlotIndex(page_index, slot)] = page.free_slot;
  page.free_slot = static_cast<std::uint16_t>(slot);
  --page.taken;
  --groups_[page.group].taken;
  if (page.taken == 0) {
    ReleasePage(page_index);
  } else {
    Link(page_index);
  }
}

void BlockStore::Link(std::uint32_t page_index) {
  Page& page = pages_[page_index];
  Group& group = groups_[page.group];
  std::uint32_t& head = group.lists[page.taken];
  page.prev = kNil;
  page.next = head;
  if (head != kNil) pages_[head].prev = page_index;
  head = page_index;
  group.present[page.taken / 64] |= std::uint64_t{1} << (page.taken % 64);
}

void BlockStore::Unlink(std::uint32_t page_index) {
  Page& page = pages_[page_index];
  Group& group = groups_[page.group];
  if (page.next != kNil) pages_[page.next].prev = page.prev;
  if (page.prev != kNil) {
    pages_[page.prev].next = page.next;
    return;
  }
  group.lists[page.taken] = page.next;
  if (page.next == kNil) group.present[page.taken / 64] &= ~(std::uint64_t{1} << (page.taken % 64));
}

std::uint32_t BlockStore::FindUp(const Group& group, std::uint32_t from) {
  std::uint64_t word = group.present[from / 64] & (~std::uint64_t{0} << (from % 64));
  for (std::size_t i = from / 64;;) {
    if (word != 0) return static_cast<std::uint32_t>(i * 64) + std::countr_zero(word);
    if (++i == group.present.size()) return kNil;
    word = group.present[i];
  }
}

std::uint32_t BlockStore::FindDown(const Group& group, std::uint32_t from) {
  std::uint64_t word = group.present[from / 64] & (~std::uint64_t{0} >> (63 - from % 64));
  for (std::size_t i = from / 64;;) {
    if (word != 0) return static_cast<std::uint32_t>(i * 64) + 63 - std::countl_zero(word);
    if (i-- == 0) return kNil;
    word = group.present[i];
  }
}

void BlockStore::CheckInvariants() const {
  std::vector<std::uint64_t> taken(groups_.size());
  std::vector<std::uint64_t> pages(groups_.size());
  std::vector<std::uint32_t> per_page(pages_.size());
  for (std::uint32_t id = 0; id < used_ids_; ++id) {
    const Place& place = places_[id];
    if (place.page == kNil) continue;
    ASHLAR_CHECK(pages_[place.page].state == PageState::kOwned, "block {} on a free page", id);
    ASHLAR_CHECK(owners_[SlotIndex(place.page, place.slot)] == id, "block {} lost its slot", id);
    ASHLAR_CHECK(place.slot < pages_[place.page].used, "block {} on a slot never taken", id);
    ++taken[pages_[place.page].group];
    ++per_page[place.page];
  }
  std::uint64_t present = 0;
  std::uint64_t free = 0;
  for (std::uint32_t page = 0; page < pages_.size(); ++page) {
    present += pages_[page].state != PageState::kAbsent ? 1 : 0;
    free += pages_[page].state == PageState::kFree ? 1 : 0;
    if (pages_[page].state != PageState::kOwned) continue;
    ++pages[pages_[page].group];
    ASHLAR_CHECK(pages_[page].taken == per_page[page] && per_page[page] > 0,
                 "page {} counts {} blocks and has {}", page, pages_[page].taken, per_page[page]);
  }
  ASHLAR_CHECK(present == present_pages_ && free == free_pages_,
               "{} pages, {} free; counted {}, {}", present_pages_, free_pages_, present, free);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    ASHLAR_CHECK(groups_[g].taken == taken[g] && groups_[g].pages == pages[g],
                 "group {} counts {} blocks on {} pages and has {} on {}", g, groups_[g].taken,
                 groups_[g].pages, taken[g], pages[g]);
    std::uint64_t listed = 0;
    for (std::uint32_t list = 0; list <= groups_[g].slots; ++list) {
      for (std::uint32_t page = groups_[g].lists[list]; page != kNil; page = pages_[page].next) {
        ASHLAR_CHECK(pages_[page].taken == list, "page {} is in the wrong list", page);
        ++listed;
      }
      const bool bit = (groups_[g].present[list / 64] >> (list % 64)) & 1;
      ASHLAR_CHECK(bit == (groups_[g].lists[list] != kNil), "group {} list {} mark", g, list);
    }
    ASHLAR_CHECK(listed == pages[g], "group {}: {} of {} pages are listed", g, listed, pages[g]);
  }
}

}  // namespace ashlar::kv
