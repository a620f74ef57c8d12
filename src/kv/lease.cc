#include "kv/lease.h"

#include "base/check.h"

namespace ashlar::kv {

PrefixLease PrefixLease::Take(CacheCore& core, std::span<const NodeId> path, AccountId account) {
  PrefixLease lease;
  if (path.empty()) return lease;
  const std::uint64_t position = path.size() * core.block_tokens();
  std::vector<std::uint64_t>& needed = core.needed;
  needed.assign(core.store_groups(), 0);
  ForEachLiveBlock(core, path.back(), path.size(), position,
                   [&](NodeId, std::uint64_t, std::uint32_t g, BlockId block) {
                     needed[g] += core.needs_promise(block, account) ? 1 : 0;
                   });
  if (!core.pool.Promise(account, needed)) return lease;
  ForEachLiveBlock(
      core, path.back(), path.size(), position,
      [&](NodeId, std::uint64_t, std::uint32_t, BlockId block) { core.PinCached(block, account); });
  core.index.AddReference(path.back());
  core.MakeRoomBelowCeiling(account, 0);
  ++core.leases;
  lease.core_ = &core;
  lease.last_ = path.back();
  lease.blocks_ = path.size();
  lease.account_ = account;
  return lease;
}

void PrefixLease::Release() {
  CacheCore* const core = std::exchange(core_, nullptr);
  if (core == nullptr) return;
  core->UpdateTime();
  const std::uint64_t position = blocks_ * core->block_tokens();
  ForEachLiveBlock(*core, last_, blocks_, position,
                   [&](NodeId, std::uint64_t, std::uint32_t, BlockId block) {
                     core->Unpin(block, account_, {.level = 0});  // says nothing of its worth
                   });
  --core->leases;
  core->index.DropReference(last_);
  core->RemoveUnneeded(last_);
}

BlockId PrefixLease::block(std::uint32_t group, std::uint64_t number) const {
  ASHLAR_CHECK(core_ != nullptr && number < blocks_, "block {} of a lease of {}", number, blocks_);
  const LaneGroup& lanes = core_->layout.group(group);
  const std::uint64_t position = blocks_ * core_->block_tokens();
  if (number < lanes.FirstLiveBlock(position) && number >= lanes.sink_blocks()) return kNoBlock;
  NodeId node = last_;
  for (std::uint64_t at = blocks_ - 1; at > number; --at) node = core_->index.parent(node);
  return core_->index.block(node, group);
}

std::uint64_t PrefixLease::bytes() const {
  if (core_ == nullptr) return 0;
  std::uint64_t bytes = 0;
  ForEachLiveBlock(*core_, last_, blocks_, blocks_ * core_->block_tokens(),
                   [&](NodeId, std::uint64_t, std::uint32_t g, BlockId) {
                     bytes += core_->layout.group(g).block_bytes();
                   });
  return bytes;
}

}  // namespace ashlar::kv
