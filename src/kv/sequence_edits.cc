// Going back (Truncate) and going two ways (Fork): what sequence.h promises of them.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace ashlar::kv {
namespace {

std::uint64_t BlocksOf(std::uint64_t tokens, std::uint64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

// The most tokens, up to `size`, after which a query finds all it reads: in the sequence's own
// blocks, or, where a window has passed, in the index.
std::uint64_t KvCache::LongestRollback(const SequenceState& state, std::uint64_t size) const {
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t sealed = state.size / block_tokens;
  std::vector<NodeId>& path = path_;  // made when a block is missing
  path.clear();
  const auto find = [&](std::uint32_t g, std::uint64_t number) {
    if (state.tables[g].blocks[number] != kNoBlock) return true;
    if (state.path == kNoNode) return false;
    if (path.empty()) {
      path.resize(sealed);
      NodeId node = state.path;
      for (std::uint64_t i = sealed; i-- > 0; node = core_->index.parent(node)) path[i] = node;
    }
    return number < sealed && core_->index.block(path[number], g) != kNoBlock;
  };
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const LaneGroup& group = core_->layout.group(g);
    if (!group.shares_tokens() && size / block_tokens < sealed) {
      size = size / block_tokens * block_tokens;
    }
  }
  for (bool is_valid = false; !is_valid;) {
    is_valid = true;
    for (std::uint32_t g = 0; g < core_->groups() && is_valid; ++g) {
      const LaneGroup& group = core_->layout.group(g);
      if (!group.has_window()) continue;
      const std::uint64_t end = BlocksOf(size, block_tokens);
      for (std::uint64_t i = std::min(group.FirstLiveBlock(size), end); i < end; ++i) {
        if (find(g, i)) continue;
        size = i * block_tokens;  // what comes before block i does not read it
        is_valid = false;
        break;
      }
    }
  }
  return size;
}

// Whether giving up this pin gives the sequence's account memory to promise again: in a group with
// a window always, for pins are what is paid for there; else when the account pays for the block
// and nobody else reads it.
bool KvCache::ComesBack(const SequenceState& state, BlockId block) const {
  if (block == kNoBlock) return true;
  const BlockPool& pool = core_->pool;
  return core_->layout.group(pool.group(block)).has_window() ||
         (pool.pins(block) == 1 && pool.account(block) == state.account);
}

std::optional<std::uint64_t> KvCache::Truncate(SequenceState& state, std::uint64_t size) {
  ASHLAR_CHECK(size <= state.size, "{} tokens cannot be cut to {}", state.size, size);
  core_->UpdateTime();
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t sealed = state.size / block_tokens;
  size = LongestRollback(state, size);
  const std::uint64_t keep = BlocksOf(size, block_tokens);
  // The block that is written next is sealed: it will have to be copied.
  const bool copies_tail = size % block_tokens != 0 && size / block_tokens < sealed;
  needed_.assign(core_->groups(), copies_tail ? 1 : 0);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const std::vector<BlockId>& blocks = state.tables[g].blocks;
    for (std::uint64_t i = keep; i < blocks.size(); ++i) {
      needed_[g] += ComesBack(state, blocks[i]) ? 0 : 1;
    }
  }
  if (!core_->pool.Promise(state.account, needed_)) return std::nullopt;
  DropPromises(state);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    SequenceState::Table& table = state.tables[g];
    table.promised += needed_[g];
    table.first_live = std::min(table.first_live, core_->layout.group(g).FirstLiveBlock(size));
    for (; table.blocks.size() > keep; table.blocks.pop_back(), table.addresses.pop_back()) {
      const BlockId block = table.blocks.back();
      if (block == kNoBlock) continue;
      const bool comes_back = ComesBack(state, block);
      DropBlock(state, g, table.blocks.size() - 1);
      if (comes_back) Repromise(state, g);
    }
  }
  if (state.path != kNoNode) {
    const NodeId old = state.path;
    NodeId node = old;
    for (std::uint64_t i = sealed; i > keep; --i) node = core_->index.parent(node);
    ReviveWindow(state, node, std::min(keep, sealed));
    state.path = copies_tail ? core_->index.parent(node) : node;
    core_->index.AddReference(state.path);
    core_->index.DropReference(old);
    core_->RemoveUnneeded(old);
  }
  state.size = size;
  state.tokens.resize(size);
  return size;
}

// Pins again what the windows had passed and are to hold: blocks from first_live on. `last` is the
// node of block number end - 1.
void KvCache::ReviveWindow(SequenceState& state, NodeId last, std::uint64_t end) {
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const LaneGroup& group = core_->layout.group(g);
    if (!group.has_window()) continue;
    SequenceState::Table& table = state.tables[g];
    NodeId node = last;
    for (std::uint64_t i = end; i-- > table.first_live; node = core_->index.parent(node)) {
      if (table.blocks[i] != kNoBlock) continue;
      table.Spend();
      const BlockId block = core_->index.block(node, g);
      core_->PinCached(block, state.account);
      SetBlock(state, g, i, block);
    }
  }
}

void KvCache::NeededToFork(const SequenceState& state, std::uint64_t max_tokens,
                           std::vector<std::uint64_t>& blocks) const {
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t held = BlocksOf(state.size, block_tokens);
  blocks.assign(core_->groups(), 0);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const LaneGroup& group = core_->layout.group(g);
    blocks[g] = group.PeakBlocks(max_tokens, state.chunk + state.max_rollback);
    if (!group.has_window()) blocks[g] -= held;
    // The tail: one of the two copies it before it writes.
    if (state.size % block_tokens != 0 &&
        (!group.has_window() || IsSealed(state.tables[g].blocks[held - 1]))) {
      ++blocks[g];
    }
  }
}

void Sequence::BlocksNeededToFork(std::uint64_t max_tokens,
                                  std::vector<std::uint64_t>& blocks) const {
  cache_->NeededToFork(*state_, max_tokens, blocks);
}

std::unique_ptr<SequenceState> KvCache::Fork(const SequenceState& from, std::uint64_t max_tokens) {
  ASHLAR_CHECK(max_tokens >= from.size, "a fork of {} tokens for {}", from.size, max_tokens);
  core_->UpdateTime();
  const std::uint64_t held = BlocksOf(from.size, core_->block_tokens());
  NeededToFork(from, max_tokens, needed_);
  if (!core_->pool.Promise(from.account, needed_)) return nullptr;
  std::unique_ptr<SequenceState> state = NewState();
  state->tokens.assign(from.tokens.begin(),
                       from.tokens.begin() + static_cast<std::ptrdiff_t>(from.size));
  state->size = from.size;
  state->max_tokens = max_tokens;
  state->chunk = from.chunk;
  state->max_rollback = from.max_rollback;
  state->account = from.account;
  state->retention = from.retention;
  state->path = from.path;
  state->hit_tokens = from.hit_tokens;
  if (state->path != kNoNode) core_->index.AddReference(state->path);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    SequenceState::Table& table = state->tables[g];
    table.first_live = from.tables[g].first_live;
    table.promised = needed_[g];
    for (std::uint64_t i = 0; i < held; ++i) {
      const BlockId block = from.tables[g].blocks[i];
      Append(*state, g, block);
      if (block == kNoBlock) continue;
      if (core_->layout.group(g).has_window()) {
        table.Spend();
      } else if (core_->pool.state(block) == BlockState::kOpen) {
        table.Spend();  // the promised copy belongs to the block: either may be the one to write
        ++core_->CopyPromises(block);
      }
      core_->pool.Pin(block, state->account);
    }
  }
  return state;
}

}  // namespace ashlar::kv
