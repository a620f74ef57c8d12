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
  usable_page_bytes_ = store_.page_bytes();
  for (std::uint32_t g = 0; g < layout.groups().size(); ++g) {
    groups_.push_back({.block_bytes = layout.group(g).block_bytes(),
                       .per_page = store_.blocks_per_page(g),
                       .has_window = layout.group(g).has_window()});
    usable_page_bytes_ = std::min(usable_page_bytes_, groups_[g].per_page * groups_[g].block_bytes);
  }
  accounts_.push_back({.limits = {.name = "common"}});
  for (const AccountLimits& limits : options.accounts) accounts_.push_back({.limits = limits});
  counts_.assign(accounts_.size() * groups_.size() * kBlockStates, 0);
  for (Account& account : accounts_) {
    account.unmet_pages = UnmetPages(account.limits, 0);
    unmet_pages_ += account.unmet_pages;
  }
}

// Blocks of several groups may each begin a page: with a floor that is not met goes one page for
// every group but the first.
std::uint64_t BlockPool::UnmetPages(const AccountLimits& limits, std::uint64_t live_bytes) const {
  if (limits.floor_bytes <= live_bytes) return 0;
  const std::uint64_t unmet = limits.floor_bytes - live_bytes;
  return (unmet + usable_page_bytes_ - 1) / usable_page_bytes_ + groups_.size() - 1;
}

bool BlockPool::Fits(AccountId id, std::span<const std::uint64_t> blocks) const {
  const Account& account = accounts_[id.value()];
  std::uint64_t pages = 0;
  std::uint64_t bytes = account.live_bytes;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g] > blocks_.size()) return false;
    pages += groups_[g].pages(blocks[g]);
    bytes += blocks[g] * groups_[g].block_bytes;
  }
  pages += unmet_pages_ - account.unmet_pages + UnmetPages(account.limits, bytes);
  return pages <= store_.pages() && bytes <= account.limits.ceiling_bytes;
}

bool BlockPool::CouldEverFit(AccountId id, std::span<const std::uint64_t> blocks) const {
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g] > blocks_.size()) return false;
    pages += (blocks[g] + groups_[g].per_page - 1) / groups_[g].per_page;
    bytes += blocks[g] * groups_[g].block_bytes;
  }
  for (std::size_t a = 0; a < accounts_.size(); ++a) {
    pages += UnmetPages(accounts_[a].limits, a == id.value() ? bytes : 0);
  }
  return pages <= store_.pages() && bytes <= accounts_[id.value()].limits.ceiling_bytes;
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

bool BlockPool::PromiseOne(AccountId id, std::uint32_t g) {
  const Account& account = accounts_[id.value()];
  const std::uint64_t bytes = account.live_bytes + groups_[g].block_bytes;
  const std::uint64_t pages = live_pages_ - groups_[g].pages() + groups_[g].pages(1) +
                              unmet_pages_ - account.unmet_pages +
                              UnmetPages(account.limits, bytes);
  if (pages > store_.pages() || bytes > account.limits.ceiling_bytes) return false;
  AddLive(id, g, 1);
  ++groups_[g].promised;
  return true;
}

void BlockPool::Unpromise(AccountId account, std::uint32_t g, std::uint64_t blocks) {
  ASHLAR_CHECK(groups_[g].promised >= blocks, "{} blocks were not promised", blocks);
  AddLive(account, g, -static_cast<std::int64_t>(blocks));
  groups_[g].promised -= blocks;
}

std::optional<BlockId> BlockPool::TakePromised(AccountId account, std::uint32_t g) {
  ASHLAR_DCHECK(groups_[g].promised > 0, "group {} has no promise", g);
  const std::optional<BlockId> id = store_.Take(g);
  if (!id) return std::nullopt;
  Block& block = blocks_[id->value()];
  block = {.pins = 1, .account = account, .group = static_cast<std::uint16_t>(g)};
  Recount(block, BlockState::kFree, BlockState::kOpen);
  block.state = BlockState::kOpen;
  --groups_[g].promised;
  ++groups_[g].pinned;
  return id;
}

void BlockPool::Pin(BlockId id, AccountId account) {
  (void)account;  // its promise becomes its pin: what is live stays
  Block& block = blocks_[id.value()];
  ++block.pins;
  Group& group = groups_[block.group];
  if (!group.has_window) return;
  ASHLAR_DCHECK(group.promised > 0, "block {} pinned without a promise", id.value());
  --group.promised;
  ++group.pinned;
}

std::uint32_t BlockPool::Unpin(BlockId id, AccountId account) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.pins > 0, "block {} is not pinned", id.value());
  if (groups_[block.group].has_window) EndLive(account, block.group);
  return --block.pins;
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
  if (!groups_[block.group].has_window) EndLive(block.account, block.group);
}

void BlockPool::Revive(BlockId id, AccountId account) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state == BlockState::kIdle, "block {} is not idle", id.value());
  ASHLAR_DCHECK(groups_[block.group].promised > 0, "block {} revived without a promise",
                id.value());
  Recount(block, BlockState::kIdle, BlockState::kFree);
  block.account = account;
  block.pins = 1;
  Recount(block, BlockState::kFree, BlockState::kShared);
  block.state = BlockState::kShared;
  --groups_[block.group].promised;
  ++groups_[block.group].pinned;
}

void BlockPool::Free(BlockId id) {
  Block& block = blocks_[id.value()];
  ASHLAR_CHECK(block.state != BlockState::kFree && block.pins == 0,
               "block {} is {} with {} pins, and cannot be freed", id.value(), NameOf(block.state),
               block.pins);
  if (block.state != BlockState::kIdle && !groups_[block.group].has_window) {
    EndLive(block.account, block.group);
  }
  Recount(block, block.state, BlockState::kFree);
  block.state = BlockState::kFree;
  block.node = kNoNode;
  store_.Give(id);
}

void BlockPool::EndLive(AccountId account, std::uint32_t g) {
  AddLive(account, g, -1);
  --groups_[g].pinned;
}

// Nothing is counted for free blocks: they are nobody's.
void BlockPool::Recount(const Block& block, BlockState from, BlockState to) {
  const std::uint64_t bytes = groups_[block.group].block_bytes;
  if (from != BlockState::kFree) {
    --counts_[CountIndex(block.account, block.group, from)];
    accounts_[block.account.value()].held_bytes -= bytes;
  }
  if (to != BlockState::kFree) {
    ++counts_[CountIndex(block.account, block.group, to)];
    accounts_[block.account.value()].held_bytes += bytes;
  }
}

// Of the counters, the caller changes promised or pinned by as much afterwards.
void BlockPool::AddLive(AccountId id, std::uint32_t g, std::int64_t blocks) {
  Group& group = groups_[g];
  Account& account = accounts_[id.value()];
  live_pages_ += group.pages(static_cast<std::uint64_t>(blocks)) - group.pages();
  account.live_bytes += static_cast<std::uint64_t>(blocks) * group.block_bytes;
  if (account.limits.floor_bytes > 0) {
    unmet_pages_ -= account.unmet_pages;
    account.unmet_pages = UnmetPages(account.limits, account.live_bytes);
    unmet_pages_ += account.unmet_pages;
  }
}

void BlockPool::CheckInvariants() const {
  store_.CheckInvariants();
  std::vector<std::uint64_t> counts(counts_.size());
  std::vector<std::uint64_t> held(accounts_.size());
  std::vector<std::uint64_t> pins(groups_.size());
  for (const Block& block : blocks_) {
    if (block.state == BlockState::kFree) continue;
    ++counts[CountIndex(block.account, block.group, block.state)];
    held[block.account.value()] += groups_[block.group].block_bytes;
    pins[block.group] += block.pins;
    ASHLAR_CHECK((block.pins == 0) == (block.state == BlockState::kIdle), "{} block with {} pins",
                 NameOf(block.state), block.pins);
  }
  ASHLAR_CHECK(counts == counts_, "blocks by account, group and state");
  std::uint64_t pages = 0;
  std::uint64_t unmet = 0;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    std::uint64_t pinned = 0;
    std::uint64_t idle = 0;
    for (std::uint16_t a = 0; a < accounts_.size(); ++a) {
      pinned +=
          count(AccountId(a), g, BlockState::kOpen) + count(AccountId(a), g, BlockState::kShared);
      idle += count(AccountId(a), g, BlockState::kIdle);
    }
    ASHLAR_CHECK(groups_[g].pinned == (groups_[g].has_window ? pins[g] : pinned) &&
                     pinned + idle == store_.taken(g),
                 "group {}: {} pinned, {} idle, {} taken", g, pinned, idle, store_.taken(g));
    pages += groups_[g].pages();
  }
  std::uint64_t live_bytes = 0;
  for (std::size_t a = 0; a < accounts_.size(); ++a) {
    ASHLAR_CHECK(held[a] == accounts_[a].held_bytes, "account {} holds {} bytes, counts {}", a,
                 held[a], accounts_[a].held_bytes);
    ASHLAR_CHECK(
        accounts_[a].unmet_pages == UnmetPages(accounts_[a].limits, accounts_[a].live_bytes),
        "account {}: unmet floor", a);
    unmet += accounts_[a].unmet_pages;
    live_bytes += accounts_[a].live_bytes;
  }
  for (const Group& group : groups_) {
    live_bytes -= (group.pinned + group.promised) * group.block_bytes;
  }
  ASHLAR_CHECK(live_bytes == 0, "live bytes by account and by group differ by {}", live_bytes);
  ASHLAR_CHECK(pages == live_pages_ && unmet == unmet_pages_, "{} live pages, {} counted",
               live_pages_, pages);
  ASHLAR_CHECK(live_pages() <= store_.pages(), "{} pages promised of {}", live_pages(),
               store_.pages());
}

}  // namespace ashlar::kv
