#include "kv/core.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::kv {
namespace {

// Besides one node per block: scopes, and prefixes whose blocks a window has passed.
constexpr std::uint32_t kExtraNodes = 4096;
// Queues that earlier invalidations left behind; beyond these their idle blocks are dropped at
// once.
constexpr std::size_t kMaxStaleQueues = 64;
constexpr std::uint8_t kNoLevel = 0xFF;  // of a block that was never idle

}  // namespace

Result<std::unique_ptr<CacheCore>> CacheCore::Create(const KvLayout& layout,
                                                     const CacheOptions& options,
                                                     const Clock& clock) {
  if (options.max_events > kMaxEventLogCapacity) {
    return MakeError(ErrorCode::kInvalidArgument, "a log of {} KV events; at most {} are kept",
                     options.max_events, kMaxEventLogCapacity);
  }
  ASHLAR_ASSIGN(BlockPool pool,
                BlockPool::Create(layout, {.store = {.memory_bytes = options.memory_bytes,
                                                     .max_memory_bytes = options.max_memory_bytes,
                                                     .page_bytes = options.page_bytes,
                                                     .has_bytes = options.has_bytes},
                                           .accounts = options.accounts}));
  return std::unique_ptr<CacheCore>(new CacheCore(layout, options, clock, std::move(pool)));
}

CacheCore::CacheCore(const KvLayout& kv_layout, const CacheOptions& cache_options,
                     const Clock& cache_clock, BlockPool block_pool)
    : layout(kv_layout),
      options(cache_options),
      clock(cache_clock),
      pool(std::move(block_pool)),
      index({.max_nodes = pool.store().max_blocks() + kExtraNodes,
             .groups = groups(),
             .block_tokens = static_cast<std::uint32_t>(block_tokens())}),
      replacer(options.replacement, pool.store().max_blocks(), groups()),
      events({.capacity = options.max_events,
              .block_tokens = static_cast<std::uint32_t>(block_tokens())}),
      is_stale_(index.max_nodes()),
      child_blocks_(std::size_t{index.max_nodes()} * groups()),
      keys_(events.is_on() ? index.max_nodes() : 0),
      stored_by_(pool.store().max_blocks()),
      deadlines_ns_(pool.store().max_blocks()) {
  UpdateTime();
}

void CacheCore::UpdateTime() {
  now_ns_ = clock.NowNs();
  replacer.Advance(now_ns_);
}

NodeId CacheCore::FindRoot(const ScopeDigest& digest) const {
  const auto root = roots_.find(digest);
  return root == roots_.end() ? kNoNode : root->second;
}

template <typename Insert>
std::optional<NodeId> CacheCore::InsertNode(Insert insert) {
  std::optional<NodeId> node = insert();
  while (!node) {
    // Not out of a floor: many scopes must not push a guarded account's blocks out.
    const auto victim = replacer.FindVictim(
        std::nullopt, [this](AccountId owner) { return pool.is_above_floor(owner); });
    if (!victim) return std::nullopt;
    Replace(victim->block);
    node = insert();
  }
  return node;
}

std::optional<NodeId> CacheCore::FindOrMakeRoot(const Scope& scope, const ScopeDigest& digest) {
  if (const NodeId known = FindRoot(digest); known != kNoNode) return known;
  const std::optional<NodeId> root =
      InsertNode([&] { return index.InsertRoot(RootHashOf(digest)); });
  if (!root) return std::nullopt;
  roots_.emplace(digest, *root);
  scopes_.emplace(root->value(), Root{.digest = digest, .scope_number = misses.OnScope(scope)});
  is_stale_[root->value()] = 0;
  if (events.is_on()) keys_[root->value()] = RootKey(digest);
  return root;
}

void CacheCore::MarkAllStale() {
  UpdateTime();
  if (replacer.stale_queues() > kMaxStaleQueues) {
    // Only what is stale already may leave.
    while (const auto victim = replacer.FindVictim(std::nullopt, [](AccountId) { return false; })) {
      Drop(victim->block);
    }
  }
  for (const auto& [digest, root] : roots_) is_stale_[root.value()] = 1;
  std::vector<NodeId> old;
  old.reserve(roots_.size());
  for (const auto& [digest, root] : roots_) old.push_back(root);
  roots_.clear();
  scopes_.clear();
  replacer.MarkAllStale();
  for (const NodeId root : old) RemoveUnneeded(root);
  Tell(KvEventKind::kCleared, kNoNode, 0, kCommonAccount);
}

BlockId CacheCore::Take(AccountId account, std::uint32_t group) {
  MakeRoomBelowCeiling(account, layout.store_groups()[group].block_bytes);
  std::optional<BlockId> block = pool.TakePromised(account, group);
  while (!block) {
    const bool has_room = MakeRoom(account, group);
    ASHLAR_CHECK(has_room, "a promised block of group {} has no place: nothing is idle", group);
    block = pool.TakePromised(account, group);
  }
  ++counters.taken_blocks;
  pool.SetLevel(*block, kNoLevel);
  return *block;
}

bool CacheCore::CopyNode(NodeId node, AccountId account, std::vector<BlockId>& copies) {
  // In use, as far as replacement knows.
  for (std::uint32_t g = 0; g < groups(); ++g) {
    const BlockId source = index.block(node, g);
    if (pool.state(source) == BlockState::kIdle) replacer.OnUse(source);
  }
  copies.clear();
  if (HasRoomFor(account)) {
    for (std::uint32_t g = 0; g < groups(); ++g) {
      copies.push_back(TakeWithin(account, g));
      CopyBytes(index.block(node, g), copies.back());
    }
  }
  for (std::uint32_t g = 0; g < groups(); ++g) {
    const BlockId source = index.block(node, g);
    if (pool.state(source) == BlockState::kIdle) TellIdle(source);
  }
  return !copies.empty();
}

// Whether TakeWithin will find a block of every group.
bool CacheCore::HasRoomFor(AccountId account) {
  const BlockStore& store = pool.store();
  std::uint64_t pages = store.free_pages();
  for (std::uint32_t g = 0; g < groups(); ++g) {
    if (store.free_slots(g) > 0) continue;
    if (pages > 0) {
      --pages;
    } else if (!FindVictimWithin(account, g)) {
      return false;
    }
  }
  return true;
}

// As Take, at the cost of one idle block of the group at most.
BlockId CacheCore::TakeWithin(AccountId account, std::uint32_t group) {
  if (pool.store().free_slots(group) == 0 && pool.store().free_pages() == 0) {
    Replace(FindVictimWithin(account, group)->block);
  }
  return Take(account, group);
}

std::optional<Replacer::Victim> CacheCore::FindVictimWithin(AccountId account,
                                                            std::uint32_t group) {
  return replacer.FindVictim(group, [this, account](AccountId owner) {
    return owner == account || pool.is_above_floor(owner);
  });
}

void CacheCore::MakeRoomBelowCeiling(AccountId account, std::uint64_t bytes) {
  const std::uint64_t ceiling = pool.limits(account).ceiling_bytes;
  while (pool.held_bytes(account) + bytes > ceiling) {
    const auto own = [account](AccountId owner) { return owner == account; };
    const std::optional<Replacer::Victim> victim = replacer.FindVictim(std::nullopt, own);
    // A stale block of another account may have come first, and is no loss.
    if (!victim) return;
    Replace(victim->block);
  }
}

// Frees a place for a block of the group; false when nothing is idle. Memory that lies unused in
// another group's pages is gathered before anything is replaced.
bool CacheCore::MakeRoom(AccountId account, std::uint32_t group) {
  if (FreePageOfAny()) return true;
  const auto may_lose = [this, account](AccountId owner) {
    return owner == account || pool.is_above_floor(owner);
  };
  const std::optional<Replacer::Victim> victim = FindVictim(may_lose);
  if (!victim) return false;
  Replace(victim->block);
  if (victim->group == group) return true;
  // The page of another group is wanted: it loses as many blocks as its emptiest page holds.
  BlockStore& store = pool.store();
  while (store.free_pages() == 0 && !store.FreePage(victim->group)) {
    const std::optional<Replacer::Victim> next = replacer.FindVictim(victim->group, may_lose);
    if (!next) break;  // the next round looks elsewhere
    Replace(next->block);
  }
  return true;
}

// A promise, or a smaller cap, comes before a floor's idle blocks: floors bound what may be
// promised. But they come last, whatever their group.
std::optional<Replacer::Victim> CacheCore::FindVictim(Replacer::MayLose may_lose) {
  if (const auto victim = replacer.FindVictim(std::nullopt, may_lose)) return victim;
  return replacer.FindVictim(std::nullopt, [](AccountId) { return true; });
}

bool CacheCore::FreePageOfAny() {
  BlockStore& store = pool.store();
  for (std::uint32_t g = 0; g < store_groups(); ++g) {
    if (store.free_slots(g) >= store.blocks_per_page(g) && store.FreePage(g)) return true;
  }
  return false;
}

void CacheCore::Replace(BlockId block) {
  misses.OnReplaced(index.hash(pool.node(block)), now_ns_);
  ++counters.replaced_blocks;
  Drop(block);
}

// A tail serves only whole (complete): what is left of it leaves with its first block.
void CacheCore::Drop(BlockId block) {
  const NodeId node = pool.node(block);
  if (index.is_whole(node)) {
    DropOne(block);
  } else {
    DropBlocksOf(node);
  }
}

void CacheCore::DropOne(BlockId block) {
  Unpublish(block);
  replacer.OnDrop(block);
  pool.Free(block);
}

void CacheCore::DropBlocksOf(NodeId node) {
  index.AddReference(node);  // until its last block has gone
  for (std::uint32_t g = 0; g < groups(); ++g) {
    const BlockId block = index.block(node, g);
    if (block != kNoBlock) DropOne(block);
  }
  index.DropReference(node);
  RemoveUnneeded(node);
}

void CacheCore::PinCached(BlockId block, AccountId account) {
  if (pool.state(block) == BlockState::kIdle) {
    replacer.OnUse(block);
    pool.Revive(block, account);
  } else {
    pool.Pin(block, account);
  }
}

void CacheCore::Unpin(BlockId block, AccountId account, const Retention& retention) {
  if (pool.Unpin(block, account) > 0) return;
  if (pool.node(block) == kNoNode) {
    pool.Free(block);
  } else {
    MakeIdle(block, retention);
  }
}

// Of several retentions a block was used with, the highest level that has not ended counts, and of
// equal levels the later end.
void CacheCore::MakeIdle(BlockId block, const Retention& retention) {
  std::int64_t& deadline = deadlines_ns_[block.value()];
  std::uint8_t level = pool.level(block);
  if (level != kNoLevel && deadline != 0 && deadline <= now_ns_) level = kDefaultRetentionLevel;
  constexpr auto kForever = std::numeric_limits<std::int64_t>::max();
  const std::int64_t end =
      retention.ttl_ns > 0 ? now_ns_ + std::min(retention.ttl_ns, kForever - now_ns_) : 0;
  if (level == kNoLevel || retention.level > level) {
    level = retention.level;
    deadline = end;
  } else if (retention.level == level) {
    deadline = deadline == 0 || end == 0 ? 0 : std::max(deadline, end);
  }
  pool.SetLevel(block, level);
  pool.MakeIdle(block);
  TellIdle(block);
}

void CacheCore::TellIdle(BlockId block) {
  const NodeId node = pool.node(block);
  const std::uint32_t g = pool.group(block);
  const auto depth = static_cast<std::uint32_t>(index.depth(node) * block_tokens());
  replacer.OnIdle(block,
                  {.account = pool.account(block),
                   .group = g,
                   .level = pool.level(block),
                   .deadline_ns = deadlines_ns_[block.value()],
                   .is_stale = !is_reachable(node),
                   .traits = {.content = MixBits(index.hash(node) + g), .depth_tokens = depth}});
}

void CacheCore::Publish(NodeId node, BlockId block) {
  const std::uint32_t g = pool.group(block);
  index.SetBlock(node, g, block);
  pool.SetNode(block, node);
  const NodeId parent = index.parent(node);
  if (index.parent(parent) != kNoNode && !layout.group(g).has_window() &&
      ChildBlocks(parent, g)++ == 0) {
    replacer.OnFirstChild(index.block(parent, g));
  }
  stored_by_[block.value()] = pool.account(block);
  if (is_reachable(node)) {
    if (index.depth(node) == 0) {
      misses.OnFirstBlock(NextHash(0, index.tokens(node)), scopes_.at(parent.value()).scope_number);
    }
    Tell(KvEventKind::kStored, node, g, pool.account(block));
  }
}

void CacheCore::Unpublish(BlockId block) {
  const NodeId node = pool.node(block);
  const std::uint32_t g = pool.group(block);
  if (is_reachable(node)) Tell(KvEventKind::kRemoved, node, g, stored_by_[block.value()]);
  index.ClearBlock(node, g);
  pool.SetNode(block, kNoNode);
  const NodeId parent = index.parent(node);
  if (index.parent(parent) != kNoNode && !layout.group(g).has_window() &&
      --ChildBlocks(parent, g) == 0) {
    replacer.OnLastChildGone(index.block(parent, g));
  }
  RemoveUnneeded(node);
}

void CacheCore::CopyBytes(BlockId source, BlockId target) {
  const StoreGroup& group = layout.store_groups()[pool.group(source)];
  if (!group.is_open && layout.group(group.lane_group).is_encoded()) return;
  if (options.has_bytes) {
    std::memcpy(pool.store().Data(target), pool.store().Data(source), group.block_bytes);
  }
  ++counters.copied_blocks;
}

void CacheCore::DropIfIdle(NodeId node) {
  if (index.children(node) > 0) return;
  for (std::uint32_t g = 0; g < groups(); ++g) {
    const BlockId block = index.block(node, g);
    if (block != kNoBlock && pool.state(block) != BlockState::kIdle) return;
  }
  DropBlocksOf(node);
}

std::optional<NodeId> CacheCore::FindOrMakeChild(NodeId parent, std::uint64_t hash,
                                                 std::span<const TokenId> tokens) {
  if (tokens.size() == block_tokens()) {
    if (const NodeId known = index.Find(parent, hash, tokens); known != kNoNode) return known;
  }
  const std::optional<NodeId> node = InsertNode([&] { return index.Insert(parent, hash, tokens); });
  if (node && events.is_on()) {
    keys_[node->value()] = key_hasher_.NextKey(keys_[parent.value()], tokens);
  }
  return node;
}

void CacheCore::RemoveUnneeded(NodeId node) {
  while (node != kNoNode && index.is_unneeded(node)) {
    const NodeId parent = index.parent(node);
    if (parent == kNoNode) {
      if (const auto root = scopes_.find(node.value()); root != scopes_.end()) {
        roots_.erase(root->second.digest);
        scopes_.erase(root);
      }
    }
    index.Remove(node);
    node = parent;
  }
}

std::uint64_t CacheCore::DropIdle() {
  std::uint64_t dropped = 0;
  while (const auto victim = replacer.FindVictim(std::nullopt, [](AccountId) { return true; })) {
    Drop(victim->block);
    ++dropped;
  }
  return dropped;
}

bool CacheCore::FreePages(std::uint64_t pages) {
  BlockStore& store = pool.store();
  while (store.free_pages() < pages) {
    if (FreePageOfAny()) continue;
    const auto victim = FindVictim([this](AccountId owner) { return pool.is_above_floor(owner); });
    if (!victim) return false;
    Replace(victim->block);
  }
  return true;
}

void CacheCore::Tell(KvEventKind kind, NodeId node, std::uint32_t group, AccountId account) {
  if (!events.is_on()) return;
  KvEvent event{.kind = kind, .group = group, .account = account, .time_ns = now_ns_};
  if (kind != KvEventKind::kCleared) {
    event.key = keys_[node.value()];
    event.parent = keys_[index.parent(node).value()];
    event.tokens = index.tokens(node);
  }
  events.Append(event);
}

void CacheCore::CheckInvariants() const {
  pool.CheckInvariants();
  index.CheckInvariants();
  replacer.CheckInvariants();
  events.CheckInvariants();
  std::uint64_t known = 0;
  std::vector<std::uint32_t> child_blocks(child_blocks_.size());
  index.ForEach([&](NodeId node) {
    const NodeId parent = index.parent(node);
    ASHLAR_CHECK(!index.is_unneeded(node), "node {} is not needed and still here", node.value());
    for (std::uint32_t g = 0; g < groups(); ++g) {
      const BlockId block = index.block(node, g);
      if (block == kNoBlock) continue;
      ++known;
      const BlockState state = pool.state(block);
      ASHLAR_CHECK(pool.node(block) == node && pool.group(block) == g, "block {} of node {} strays",
                   block.value(), node.value());
      ASHLAR_CHECK(state == BlockState::kIdle || state == BlockState::kShared,
                   "an {} block in the index", NameOf(state));
      if (layout.group(g).has_window() || index.parent(parent) == kNoNode) continue;
      ++child_blocks[std::size_t{parent.value()} * groups() + g];
      const BlockId above = index.block(parent, g);
      ASHLAR_CHECK(above != kNoBlock, "block {} has no parent", block.value());
      ASHLAR_CHECK(pool.pins(block) == 0 || pool.pins(above) > 0, "block {} pinned, its parent not",
                   block.value());
    }
  });
  ASHLAR_CHECK(child_blocks == child_blocks_, "children with blocks");
  std::uint64_t idle = 0;
  std::uint64_t shared = 0;
  for (std::size_t i = 0; i <= pool.accounts(); ++i) {
    const AccountId account =
        i < pool.accounts() ? AccountId(static_cast<std::uint16_t>(i)) : kSharedAccount;
    for (std::uint32_t g = 0; g < store_groups(); ++g) {
      idle += pool.count(account, g, BlockState::kIdle);
      shared += pool.count(account, g, BlockState::kShared);
      ASHLAR_CHECK(g < groups() || (pool.count(account, g, BlockState::kIdle) == 0 &&
                                    pool.count(account, g, BlockState::kShared) == 0),
                   "an open block of group {} is sealed", layout.store_groups()[g].lane_group);
    }
  }
  ASHLAR_CHECK(idle == replacer.idle_blocks() && known >= idle && known <= idle + shared,
               "{} idle, {} in the replacer, {} in the index", idle, replacer.idle_blocks(), known);
}

}  // namespace ashlar::kv
