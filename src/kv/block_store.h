// The elastic arena: gives memory to blocks of all lane groups out of one byte range.
//
// The arena is cut into pages of equal size. A page belongs to one group at a time and holds as
// many of its blocks as fit; an empty page belongs to nobody and may become any group's. So no
// group has a share of its own, and blocks are never padded to a common size. The open blocks of an
// encoded lane group are a group of their own here: KvLayout::store_groups.
//
//        first block of a group's page            last block gone
//   free page  ----------------->  page of group g  ----------------->  free page
//       ^  |                                                                ^
//       |  +-- Resize down: absent (its memory is the system's)             |
//       +----- Resize up                       FreePage: its blocks move to other pages of g
//
// Waste is bounded. Each page loses the rest that is no whole block: the page size is chosen so
// that this rest is small for every group (slack_bytes says how small). And because blocks can
// move, a group never needs to hold more than one page that is not full: FreePage empties the
// emptiest.
//
// A BlockId names a block, not a place: moving changes the address and not the id. Whoever keeps
// addresses compares moves() and asks again. All operations are O(1), except FreePage and Resize,
// which are O(blocks of a page) per page; nothing allocates after Create.
//
// Thread: the owner's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kv/arena.h"
#include "kv/ids.h"
#include "kv/layout.h"
#include "kv/page_cut.h"

namespace ashlar::kv {

struct BlockStoreOptions {
  std::uint64_t memory_bytes = 0;      // the hard cap now
  std::uint64_t max_memory_bytes = 0;  // what Resize may raise it to; 0: memory_bytes
  std::uint64_t page_bytes = 0;        // 0: chosen (PageCut::ChoosePageBytes)
  bool has_bytes = true;               // false: decisions only, Data() must not be called
};

class BlockStore {
 public:
  // `layout` is copied as far as needed. Errors: as PageCut::Of; kResourceExhausted from the
  // system.
  static Result<BlockStore> Create(const KvLayout& layout, const BlockStoreOptions& options);

  // A block of the group: from its fullest page that has room, else from a free page. nullopt when
  // there is neither.
  std::optional<BlockId> Take(std::uint32_t group);
  // Precondition: taken.
  void Give(BlockId block);

  // Its bytes. Valid until moves() changes. Precondition: taken, has_bytes.
  std::byte* Data(BlockId block) const;
  std::uint32_t group_of(BlockId block) const { return pages_[places_[block.value()].page].group; }

  // Makes a page of the group free by moving its blocks into the group's other pages. False, and
  // nothing changed, when they would not fit there.
  bool FreePage(std::uint32_t group);

  // Changes the cap: false, and nothing changed, when shrinking needs more pages than are free
  // (free them first) or growing goes beyond max_memory_bytes.
  bool Resize(std::uint64_t memory_bytes);

  // Gives the memory of free pages back to the system: they are taken again by use. The bytes.
  // O(free pages).
  std::uint64_t DiscardFreePages();

  // Blocks moved so far.
  std::uint64_t moves() const { return moves_; }

  std::uint64_t memory_bytes() const { return memory_bytes_; }
  std::uint64_t max_memory_bytes() const { return arena_.bytes(); }
  std::uint64_t page_bytes() const { return page_bytes_; }
  std::uint64_t pages() const { return present_pages_; }
  std::uint64_t free_pages() const { return free_pages_; }
  std::uint64_t pages_of(std::uint32_t group) const { return groups_[group].pages; }
  std::uint64_t blocks_per_page(std::uint32_t group) const { return groups_[group].slots; }
  std::uint64_t taken(std::uint32_t group) const { return groups_[group].taken; }
  // Places for blocks in the group's pages that are not taken.
  std::uint64_t free_slots(std::uint32_t group) const {
    return groups_[group].pages * groups_[group].slots - groups_[group].taken;
  }
  // Bytes of the group's pages that no block can use.
  std::uint64_t slack_bytes(std::uint32_t group) const {
    return groups_[group].pages * (page_bytes_ - groups_[group].slots * groups_[group].block_bytes);
  }
  // Ids are below this.
  std::uint32_t max_blocks() const { return static_cast<std::uint32_t>(places_.size()); }

  // Recounts from scratch and CHECKs. O(blocks).
  void CheckInvariants() const;

 private:
  static constexpr std::uint32_t kNil = 0xFFFFFFFF;

  enum class PageState : std::uint8_t { kAbsent, kFree, kOwned };
  struct Page {
    std::uint32_t prev = kNil;  // neighbours in the list it is in
    std::uint32_t next = kNil;
    std::uint32_t group = 0;
    std::uint16_t taken = 0;
    std::uint16_t used = 0;       // slots [used, slots) were never taken since the page was free
    std::uint16_t free_slot = 0;  // head of the list of freed slots; slots: none
    PageState state = PageState::kAbsent;
  };
  struct Place {
    std::uint32_t page = kNil;  // kNil: the id is free, and slot is ...
    std::uint32_t slot = 0;     // ... the next free id
  };
  // Pages of a group by number of taken blocks, so that the fullest with room and the emptiest are
  // found at once.
  struct Group {
    std::uint64_t block_bytes = 0;
    std::uint32_t slots = 0;
    std::uint64_t pages = 0;
    std::uint64_t taken = 0;
    std::vector<std::uint32_t> lists;    // [slots + 1] first page with that many taken
    std::vector<std::uint64_t> present;  // bit per list: not empty
  };

  BlockStore(const KvLayout& layout, Arena arena, const BlockStoreOptions& options,
             const PageCut& cut);

  std::size_t SlotIndex(std::uint32_t page, std::uint32_t slot) const {
    return std::size_t{page} * stride_ + slot;
  }
  std::byte* Address(std::uint32_t page, std::uint32_t slot) const {
    return arena_.data() + page * page_bytes_ + slot * groups_[pages_[page].group].block_bytes;
  }
  std::uint32_t AcquirePage(std::uint32_t group);
  void ReleasePage(std::uint32_t page);
  std::uint32_t TakeSlot(std::uint32_t page);
  void GiveSlot(std::uint32_t page, std::uint32_t slot);
  void Link(std::uint32_t page);
  void Unlink(std::uint32_t page);
  // First list of the group at or after `from` (or at or before it) that has a page; kNil: none.
  static std::uint32_t FindUp(const Group& group, std::uint32_t from);
  static std::uint32_t FindDown(const Group& group, std::uint32_t from);

  Arena arena_;
  std::uint64_t memory_bytes_;
  std::uint64_t page_bytes_;
  std::uint32_t stride_ = 0;  // most slots a page may have
  std::uint64_t present_pages_ = 0;
  std::uint64_t free_pages_ = 0;
  std::uint32_t first_free_page_ = kNil;
  std::uint32_t first_absent_page_ = kNil;
  std::uint32_t first_free_id_ = kNil;
  std::uint32_t used_ids_ = 0;  // ids [used_ids_, max) were never taken
  std::uint64_t moves_ = 0;
  std::vector<Page> pages_;
  std::vector<Place> places_;          // by block id
  std::vector<std::uint32_t> owners_;  // by slot: block id; in a freed slot, the next freed slot
  std::vector<Group> groups_;
};

}  // namespace ashlar::kv
