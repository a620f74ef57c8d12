#include "kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::kv {

std::string_view NameOf(BlockState state) {
  constexpr std::array<std::string_view, kBlockStates> kNames = {"free", "open", "shared", "idle"};
  return kNames[static_cast<std::size_t>(state)];
}

Result<BlockPool> BlockPool::Create(const KvLayout& layout, const BlockPoolOptions& options) {
  if (options.accounts.size() >= kMaxAccounts) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} accounts with limits; at most {} may have limits of their own",
                     options.accounts.size(), kMaxAccounts - 1);
  }
  for (const AccountLimits& limits : options.accounts) {
    if (limits.floor_bytes > limits.ceiling_bytes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "account '{}': its floor of {} bytes is above its ceiling of {}",
                       limits.name, limits.floor_bytes, limits.ceiling_bytes);
    }
  }
  ASHLAR_ASSIGN(BlockStore store, BlockStore::Create(layout, options.store));
  BlockPool pool(layout, std::move(store), options);
  if (pool.live_pages() > pool.store_.pages()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the floors of all accounts need {} bytes, the KV memory is {}",
                     pool.min_memory_bytes(), pool.store_.memory_bytes());
  }
  return pool;
}

BlockPool::BlockPool(const KvLayout& layout, BlockStore store, const BlockPoolOptions& options)
    : store_(std::move(store)), blocks_(store_.max_blocks()) {
  std::uint64_t usable = store_.page_bytes();  // of a page, for the group that wastes most
  for (std::uint32_t g = 0; g < layout.store_groups().size(); ++g) {
    const StoreGroup& group = layout.store_groups()[g];
    groups_.push_back(
        {.block_bytes = group.block_bytes,
         .per_page = store_.blocks_per_page(g),
         .has_window = !group.is_open && layout.group(group.lane_group).has_window()});
    usable = std::min(usable, groups_[g].per_page * groups_[g].block_bytes);
  }
  const Purse empty{.live = std::vector<std::uint64_t>(groups_.size())};
  purses_.push_back(empty);
  accounts_.push_back({.limits = {.name = "common"}});
  for (const AccountLimits& limits : options.accounts) {
    accounts_.push_back({.limits = limits});
    if (limits.floor_bytes == 0) continue;
    accounts_.back().purse = static_cast<std::uint32_t>(purses_.size());
    purses_.push_back(empty);
    // Every group but one may begin a page that it does not fill.
    purses_.back().floor_pages = limits.floor_bytes / usable +
                                 (limits.floor_bytes % usable > 0 ? 1 : 0) + groups_.size() - 1;
    live_pages_ += purses_.back().pages();
  }
  accounts_.push_back({.limits = {.name = "shared"}});  // kSharedAccount
  counts_.assign(accounts_.size() * groups_.size() * kBlockStates, 0);
}

bool BlockPool::Fits(AccountId id, std::span<const std::uint64_t> blocks) const {
  const Account& account = accounts_[IndexOf(id)];
  const Purse& purse = purses_[account.purse];
  std::uint64_t pages = 0;
  std::uint64_t bytes = account.live_bytes;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g] > blocks_.size()) return false;
    pages += groups_[g].PagesFor(purse.live[g] + blocks[g]);
    bytes += blocks[g] * groups_[g].block_bytes;
  }
  pages = std::max(pages, purse.floor_pages);
  return live_pages_ - purse.pages() + pages <= store_.pages() &&
         bytes <= account.limits.ceiling_bytes;
}

bool BlockPool::CouldEverFit(AccountId id, std::span<const std::uint64_t> blocks) const {
  const Account& account = accounts_[IndexOf(id)];
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g] > blocks_.size()) return false;
    pages += groups_[g].PagesFor(blocks[g]);
    bytes += blocks[g] * groups_[g].block_bytes;
  }
  pages = std::max(pages, purses_[account.purse].floor_pages);
  for (std::size_t p = 0; p < purses_.size(); ++p) {
    if (p != account.purse) pages += purses_[p].floor_pages;
  }
  return pages <= store_.pages() && bytes <= account.limits.ceiling_bytes;
}

bool BlockPool::Promise(AccountId account, std::span<const std::uint64_t> blocks) {
  if (!Fits(account, blocks)) return false;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g] == 0) continue;
    AddLive(account, g, static_cast<std::int64_t>(blocks[g]));
    groups_[g].promised += blocks[g];
  }
  return true;
}

bool BlockPool::PromiseOne(AccountId id, std::uint32_t group) {
  const Account& account = accounts_[IndexOf(id)];
  const Purse& purse = purses_[account.purse];
  const std::uint64_t live_pages = purse.live_pages - groups_[group].PagesFor(purse.live[group]) +
                                   groups_[group].PagesFor(purse.live[group] + 1);
  const std::uint64_t pages = std::max(live_pages, purse.floor_pages);
  if (live_pages_ - purse.pages() + pages > store_.pages() ||
      account.live_bytes + groups_[group].block_bytes > account.limits.ceiling_bytes) {
    return false;
  }
  AddLive(id, group, 1);
  ++groups_[group].promised;
  return true;
}

void BlockPool::Unpromise(AccountId account, std::uint32_t group, std::uint64_t blocks) {
  ASHLAR_CHECK(groups_[group].promised >= blocks, "{} blocks were not promised", blocks);
  AddLive(account, group, -static_cast<std::int64_t>(blocks));
  groups_[group].promised -= blocks;
}

std::optional<BlockId> BlockPool::TakePromised(AccountId account, std::uint32_t group) {
  const std::optional<BlockId> id = store_.Take(group);
  if (!id) return std::nullopt;
  Block& block = blocks_[id->value()];
  block = {
      .pins = 1, .owner_pins = 1, .account = account, .group = static_cast<std::uint16_t>(group)};
  Recount(block, BlockState::kFree, BlockState::kOpen);
  block.state = BlockState::kOpen;
  StartPin(group);
  return id;
}

bool BlockPool::PinNeedsPromise(BlockId id, AccountId account) const {
  const Block& block = blocks_[id.value()];
  return groups_[block.group].has_window || block.account != account || block.owner_pins == 0;
}

void BlockPool::Pin(BlockId id, AccountId account) {
  Block& block = blocks_[id.value()];
  if (PinNeedsPromise(id, account)) StartPin(block.group);
  ++block.pins;
  if (block.account == account) ++block.owner_pins;
}

bool BlockPool::UnpinGivesBack(BlockId id, AccountId account) const {
  const Block& block = blocks_[id.value()];
  return groups_[block.group].has_window || block.account != account || block.owner_pins == 1;
}

std::uint32_t BlockPool::Unpin(BlockId id, AccountId account) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.pins > 0, "block {} is not pinned", id.value());
  if (UnpinGivesBack(id, account)) EndPin(account, block.group);
  --block.pins;
  if (block.account == account && --block.owner_pins == 0 && block.pins > 0) {
    GiveTo(block, kSharedAccount);
  }
  return block.pins;
}

void BlockPool::Seal(BlockId id) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state == BlockState::kOpen, "block {} is not open", id.value());
  Recount(block, BlockState::kOpen, BlockState::kShared);
  block.state = BlockState::kShared;
}

void BlockPool::MakeIdle(BlockId id) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state == BlockState::kShared && block.pins == 0,
               "block {} is {} with {} pins, and cannot become idle", id.value(),
               NameOf(block.state), block.pins);
  Recount(block, BlockState::kShared, BlockState::kIdle);
  block.state = BlockState::kIdle;
}

void BlockPool::Revive(BlockId id, AccountId account) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state == BlockState::kIdle, "block {} is not idle", id.value());
  GiveTo(block, account);
  block.pins = block.owner_pins = 1;
  Recount(block, BlockState::kIdle, BlockState::kShared);
  block.state = BlockState::kShared;
  StartPin(block.group);
}

void BlockPool::Free(BlockId id) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state != BlockState::kFree && block.pins == 0,
               "block {} is {} with {} pins, and cannot be freed", id.value(), NameOf(block.state),
               block.pins);
  Recount(block, block.state, BlockState::kFree);
  block.state = BlockState::kFree;
  block.node = kNoNode;
  store_.Give(id);
}

// A promise becomes a pin that is paid for: what is live stays.
void BlockPool::StartPin(std::uint32_t group) {
  ASHLAR_CHECK(groups_[group].promised > 0, "a pin in group {} that nobody promised", group);
  --groups_[group].promised;
  ++groups_[group].pinned;
}

void BlockPool::EndPin(AccountId account, std::uint32_t group) {
  AddLive(account, group, -1);
  --groups_[group].pinned;
}

void BlockPool::GiveTo(Block& block, AccountId account) {
  if (block.account == account) return;
  Recount(block, block.state, BlockState::kFree);
  block.account = account;
  Recount(block, BlockState::kFree, block.state);
}

std::uint64_t BlockPool::promised_bytes() const {
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.promised * group.block_bytes;
  return bytes;
}

// Nothing is counted for free blocks: they are nobody's.
void BlockPool::Recount(const Block& block, BlockState from, BlockState to) {
  std::uint64_t& held = accounts_[IndexOf(block.account)].held_bytes;
  if (from != BlockState::kFree) {
    --counts_[CountIndex(block.account, block.group, from)];
    held -= groups_[block.group].block_bytes;
  }
  if (to != BlockState::kFree) {
    ++counts_[CountIndex(block.account, block.group, to)];
    held += groups_[block.group].block_bytes;
  }
}

// Of the counters, the caller changes promised or pinned by as much.
void BlockPool::AddLive(AccountId id, std::uint32_t group, std::int64_t blocks) {
  Account& account = accounts_[IndexOf(id)];
  Purse& purse = purses_[account.purse];
  live_pages_ -= purse.pages();
  purse.live_pages -= groups_[group].PagesFor(purse.live[group]);
  purse.live[group] += static_cast<std::uint64_t>(blocks);
  purse.live_pages += groups_[group].PagesFor(purse.live[group]);
  live_pages_ += purse.pages();
  account.live_bytes += static_cast<std::uint64_t>(blocks) * groups_[group].block_bytes;
}

void BlockPool::CheckInvariants() const {
  store_.CheckInvariants();
  std::vector<std::uint64_t> counts(counts_.size());
  std::vector<std::uint64_t> held(accounts_.size());
  std::vector<std::uint64_t> pins(groups_.size());
  for (const Block& block : blocks_) {
    if (block.state == BlockState::kFree) continue;
    ++counts[CountIndex(block.account, block.group, block.state)];
    held[IndexOf(block.account)] += groups_[block.group].block_bytes;
    const bool pays_per_pin = groups_[block.group].has_window;
    pins[block.group] +=
        pays_per_pin ? block.pins : block.pins - block.owner_pins + (block.owner_pins > 0 ? 1 : 0);
    ASHLAR_CHECK((block.pins == 0) == (block.state == BlockState::kIdle), "{} block with {} pins",
                 NameOf(block.state), block.pins);
  }
  ASHLAR_CHECK(counts == counts_, "blocks by account, group and state");
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    std::uint64_t pinned = 0;
    std::uint64_t idle = 0;
    for (std::size_t i = 0; i < accounts_.size(); ++i) {
      const AccountId a(
          static_cast<std::uint16_t>(i + 1 < accounts_.size() ? i : kSharedAccount.value()));
      pinned += count(a, g, BlockState::kOpen) + count(a, g, BlockState::kShared);
      idle += count(a, g, BlockState::kIdle);
    }
    ASHLAR_CHECK(groups_[g].pinned == pins[g] && pinned + idle == store_.taken(g),
                 "group {}: {} pinned, {} idle, {} taken", g, pinned, idle, store_.taken(g));
  }
  std::uint64_t live_bytes = 0;
  for (std::size_t a = 0; a < accounts_.size(); ++a) {
    ASHLAR_CHECK(held[a] == accounts_[a].held_bytes, "account {} holds {} bytes, counts {}", a,
                 held[a], accounts_[a].held_bytes);
    ASHLAR_CHECK(accounts_[a].live_bytes <= accounts_[a].limits.ceiling_bytes,
                 "account {} is above its ceiling", a);
    live_bytes += accounts_[a].live_bytes;
  }
  std::uint64_t pages = 0;
  for (const Purse& purse : purses_) {
    pages += purse.pages();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      live_bytes -= purse.live[g] * groups_[g].block_bytes;
    }
  }
  ASHLAR_CHECK(live_bytes == 0, "live bytes by account and by purse differ by {}", live_bytes);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::uint64_t live = 0;
    for (const Purse& purse : purses_) live += purse.live[g];
    ASHLAR_CHECK(live == groups_[g].pinned + groups_[g].promised, "group {}: {} live, {} + {}", g,
                 live, groups_[g].pinned, groups_[g].promised);
  }
  ASHLAR_CHECK(pages == live_pages_ && live_pages_ <= store_.pages(),
               "{} live pages, {} counted, {} there are", live_pages_, pages, store_.pages());
}

}  // namespace ashlar::kv
