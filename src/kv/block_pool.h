// Says which block is in which state, for whom, and what memory is promised.
//
//           Take                Seal                   Unpin (last)
//   Free ---------->  Open  ------------->  Shared  ----------------->  Idle
//     ^                |                    (pins >= 1) <--------------  (pins = 0)
//     |                | Free                   |            Revive       |
//     +----------------+------------------------+-------------------------+
//                                Free (not worth keeping, or replaced)
//
//   Free     nobody's; its bytes mean nothing.
//   Open     being filled. One writer; after a fork several readers, and the writer copies first.
//   Shared   sealed: immutable, pinned by one or more sequences and leases.
//   Idle     sealed, nobody reads it, the prefix index still knows it. Only idle blocks may be
//            replaced.
//
// Memory is promised before it is used. A block is *live* when it is open, shared or promised. The
// pool accepts a promise only when the live blocks of every group fit into whole pages, all groups
// together, so what is promised can always be taken: idle blocks make room, blocks move to empty
// pages.
//
// Accounts. A block belongs to the account that took it, and when it is revived, to the one that
// revives it: that account pays for it as long as one of its own sequences pins it, however many
// do. A pin of another account is paid for by that account; when the owner's last pin goes and
// others stay, the block is nobody's (kSharedAccount). In a group with a window every pin is paid
// for, so that a sequence whose window moves on can always have its promise back.
//
// An account may have a ceiling (bytes it never exceeds) and a floor: memory that live blocks of
// others never take. Its idle blocks within the floor leave only for a promise, after everybody
// else's. The pages of an account with a floor are counted apart from everybody else's, and never
// less than hold any mixture of blocks of its floor's size; so rounding to pages cannot break the
// guarantee.
//
// A group is one of the store's here. Open blocks of encoded lane groups are Open from Take to
// Free: their sequence is their only reader, and nobody seals or indexes them.
//
// The pool decides nothing: who is replaced is the cache's business. All operations are O(1)
// (promises O(groups)); nothing allocates after Create.
//
// Thread: the owner's only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/block_store.h"
#include "kv/ids.h"
#include "kv/layout.h"

namespace ashlar::kv {

enum class BlockState : std::uint8_t { kFree, kOpen, kShared, kIdle };
inline constexpr std::size_t kBlockStates = 4;
std::string_view NameOf(BlockState state);  // "free", "open", "shared", "idle"

inline constexpr std::size_t kMaxAccounts = 256;

// Owns blocks that only others read. Not to be given to anybody.
inline constexpr AccountId kSharedAccount{0xFFFF};

struct AccountLimits {
  std::string name;
  std::uint64_t floor_bytes = 0;
  std::uint64_t ceiling_bytes = std::numeric_limits<std::uint64_t>::max();
};

struct BlockPoolOptions {
  BlockStoreOptions store;
  std::vector<AccountLimits> accounts;  // ids 1, 2, ...; 0 is everybody else, without limits
};

class BlockPool {
 public:
  // Errors: as BlockStore::Create; kInvalidArgument for limits that contradict each other or floors
  // that are more than the memory.
  static Result<BlockPool> Create(const KvLayout& layout, const BlockPoolOptions& options);

  BlockStore& store() { return store_; }
  const BlockStore& store() const { return store_; }

  // Promises `blocks[g]` blocks of every group g to the account. False, and nothing changed, when
  // they do not fit beside what is live, or above the account's ceiling.
  [[nodiscard]] bool Promise(AccountId account, std::span<const std::uint64_t> blocks);
  [[nodiscard]] bool PromiseOne(AccountId id, std::uint32_t group);
  // Takes promises back. Precondition: they were given and not used.
  void Unpromise(AccountId account, std::uint32_t group, std::uint64_t blocks);
  // Whether Promise would be accepted.
  bool Fits(AccountId id, std::span<const std::uint64_t> blocks) const;
  // Whether it could ever be, with nothing else live.
  bool CouldEverFit(AccountId id, std::span<const std::uint64_t> blocks) const;

  // Uses one promise of the account: an open block with one pin, charged to it. nullopt when the
  // store has no place: replace or move something and try again.
  [[nodiscard]] std::optional<BlockId> TakePromised(AccountId account, std::uint32_t group);

  // Whether a pin by the account uses one of its promises.
  bool PinNeedsPromise(BlockId id, AccountId account) const;
  // One more reader; uses a promise where PinNeedsPromise says so. Precondition: open or shared.
  void Pin(BlockId id, AccountId account);
  // Whether Unpin gives the account memory back, so that it can be promised again.
  bool UnpinGivesBack(BlockId id, AccountId account) const;
  // The pins left. At 0 the caller must call MakeIdle or Free.
  [[nodiscard]] std::uint32_t Unpin(BlockId id, AccountId account);
  void Seal(BlockId id);  // open -> shared
  // Shared without pins -> idle.
  void MakeIdle(BlockId id);
  // Idle -> shared with one pin, charged to `account`; uses one promise of it.
  void Revive(BlockId id, AccountId account);
  // Any state, no pins -> free.
  void Free(BlockId id);

  BlockState state(BlockId block) const { return blocks_[block.value()].state; }
  std::uint32_t pins(BlockId block) const { return blocks_[block.value()].pins; }
  AccountId account(BlockId block) const { return blocks_[block.value()].account; }
  std::uint32_t group(BlockId block) const { return blocks_[block.value()].group; }
  // The node of the prefix index that knows it, kNoNode for none. The pool only keeps it.
  NodeId node(BlockId block) const { return blocks_[block.value()].node; }
  void SetNode(BlockId block, NodeId node) { blocks_[block.value()].node = node; }
  std::uint8_t level(BlockId block) const { return blocks_[block.value()].level; }
  void SetLevel(BlockId block, std::uint8_t level) { blocks_[block.value()].level = level; }

  // Ids that may be used are below this.
  std::size_t accounts() const { return accounts_.size() - 1; }
  std::size_t groups() const { return groups_.size(); }
  const AccountLimits& limits(AccountId account) const {
    return accounts_[IndexOf(account)].limits;
  }
  // Bytes of all blocks charged to the account; of the live ones, promises included.
  std::uint64_t held_bytes(AccountId account) const {
    return accounts_[IndexOf(account)].held_bytes;
  }
  std::uint64_t live_bytes(AccountId account) const {
    return accounts_[IndexOf(account)].live_bytes;
  }
  bool is_above_floor(AccountId account) const {
    return held_bytes(account) > limits(account).floor_bytes;
  }
  // Blocks by account, group and state (not kFree: free blocks are nobody's).
  std::uint64_t count(AccountId account, std::uint32_t group, BlockState state) const {
    return counts_[CountIndex(account, group, state)];
  }
  std::uint64_t promised(std::uint32_t group) const { return groups_[group].promised; }
  // Pins that are paid for: live blocks that are not promises.
  std::uint64_t pinned(std::uint32_t group) const { return groups_[group].pinned; }
  // Pages that live blocks and floors need at the most.
  std::uint64_t live_pages() const { return live_pages_; }

  std::uint64_t promised_bytes() const;

  // The smallest cap that keeps every promise and floor.
  std::uint64_t min_memory_bytes() const { return live_pages() * store_.page_bytes(); }

  void CheckInvariants() const;

 private:
  struct Block {
    std::uint32_t pins = 0;
    std::uint32_t owner_pins = 0;  // of them, by `account`
    NodeId node = kNoNode;
    AccountId account;
    std::uint16_t group = 0;
    BlockState state = BlockState::kFree;
    std::uint8_t level = 0;
  };
  struct Group {
    std::uint64_t block_bytes = 0;
    std::uint64_t per_page = 0;
    std::uint64_t pinned = 0;
    std::uint64_t promised = 0;
    bool has_window = false;

    std::uint64_t PagesFor(std::uint64_t blocks) const { return kv::PagesFor(blocks, per_page); }
  };
  // Pages counted together: of one account with a floor, or of all accounts without (purse 0).
  struct Purse {
    std::vector<std::uint64_t> live;  // blocks by group
    std::uint64_t live_pages = 0;     // that they need, each group in pages of its own
    std::uint64_t floor_pages = 0;

    std::uint64_t pages() const { return std::max(live_pages, floor_pages); }
  };
  struct Account {
    AccountLimits limits;
    std::uint32_t purse = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t live_bytes = 0;
  };

  BlockPool(const KvLayout& layout, BlockStore store, const BlockPoolOptions& options);

  std::size_t CountIndex(AccountId account, std::uint32_t group, BlockState state) const {
    return (IndexOf(account) * groups_.size() + group) * kBlockStates +
           static_cast<std::size_t>(state);
  }
  void Recount(const Block& block, BlockState from, BlockState to);
  void AddLive(AccountId id, std::uint32_t group, std::int64_t blocks);
  void StartPin(std::uint32_t group);
  void EndPin(AccountId account, std::uint32_t group);
  void GiveTo(Block& block, AccountId account);
  std::size_t IndexOf(AccountId account) const {
    return account == kSharedAccount ? accounts_.size() - 1 : account.value();
  }

  BlockStore store_;
  std::vector<Block> blocks_;
  std::vector<Group> groups_;
  std::vector<Account> accounts_;
  std::vector<std::uint64_t> counts_;
  std::vector<Purse> purses_;
  std::uint64_t live_pages_ = 0;  // sum over purses
};

}  // namespace ashlar::kv
