// The move-only right to read the blocks of a prefix: while it lives, they stay. Taken by
// KvCache::Lookup, which finds and pins in one call.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kv/core.h"
#include "kv/match.h"

namespace ashlar::kv {

class PrefixLease {
 public:
  PrefixLease() = default;
  PrefixLease(PrefixLease&& other) noexcept { *this = std::move(other); }
  PrefixLease& operator=(PrefixLease&& other) noexcept {
    if (this != &other) {
      Release();
      core_ = std::exchange(other.core_, nullptr);
      last_ = other.last_;
      blocks_ = other.blocks_;
      account_ = other.account_;
    }
    return *this;
  }
  PrefixLease(const PrefixLease&) = delete;
  PrefixLease& operator=(const PrefixLease&) = delete;
  ~PrefixLease() { Release(); }

  bool empty() const { return core_ == nullptr; }
  // Whole blocks' tokens that may be read.
  std::uint64_t tokens() const { return core_ == nullptr ? 0 : blocks_ * core_->block_tokens(); }
  // Block number `number` of the prefix in a group; kNoBlock where its window has passed, and all
  // others a query at tokens() reads are there. O(blocks).
  BlockId block(std::uint32_t group, std::uint64_t number) const;
  // Bytes of the pinned blocks.
  std::uint64_t bytes() const;

 private:
  friend class KvCache;

  // Pins the blocks a query at the end of `path` reads. Empty, and nothing changed, when the memory
  // is promised to others.
  static PrefixLease Take(CacheCore& core, std::span<const NodeId> path, AccountId account);
  void Release();

  CacheCore* core_ = nullptr;
  NodeId last_ = kNoNode;
  std::uint64_t blocks_ = 0;
  AccountId account_;
};

// Calls visit(node, block number, group, block) for the blocks that a query after the whole blocks
// [0, end) reads, `last` being the node of the last: tail first.
template <typename Visit>
void ForEachLiveBlock(const CacheCore& core, NodeId last, std::uint64_t end, std::uint64_t position,
                      Visit visit) {
  for (std::uint64_t number = end; number-- > 0; last = core.index.parent(last)) {
    for (std::uint32_t g = 0; g < core.groups(); ++g) {
      const LaneGroup& group = core.layout.group(g);
      if (number >= group.FirstLiveBlock(position) || number < group.sink_blocks()) {
        visit(last, number, g, core.index.block(last, g));
      }
    }
  }
}

}  // namespace ashlar::kv
