// Going back (Truncate) and going two ways (Fork): what sequence.h promises of them.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace ashlar::kv {
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
  for (const LaneGroup& group : core_->layout.groups()) {
    // An encoded group can go on in a block whose rows it has in its ring still.
    const std::uint64_t open_from = group.is_encoded() ? state.raw_from : sealed;
    if (!group.shares_tokens() && size / block_tokens < open_from) {
      size = size / block_tokens * block_tokens;
    }
  }
  for (bool is_valid = false; !is_valid;) {
    is_valid = true;
    for (std::uint32_t g = 0; g < core_->groups() && is_valid; ++g) {
      const LaneGroup& group = core_->layout.group(g);
      if (!group.has_window()) continue;
      const std::uint64_t end = core_->layout.BlocksNeeded(size);
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

// Whether giving up this pin gives the sequence's account memory to promise again.
bool KvCache::ComesBack(const SequenceState& state, BlockId block) const {
  return block == kNoBlock || core_->pool.UnpinGivesBack(block, state.account);
}

std::optional<std::uint64_t> KvCache::Truncate(SequenceState& state, std::uint64_t size) {
  ASHLAR_CHECK(size <= state.size, "{} tokens cannot be cut to {}", state.size, size);
  core_->UpdateTime();
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t sealed = state.size / block_tokens;
  size = LongestRollback(state, size);
  const std::uint64_t keep = core_->layout.BlocksNeeded(size);
  // The block that is written next is sealed: it will have to be copied.
  const bool copies_tail = size % block_tokens != 0 && size / block_tokens < sealed;
  needed_.assign(core_->store_groups(), 0);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const SequenceState::Table& table = state.tables[g];
    needed_[g] = copies_tail && !state.has_copy_promise ? 1 : 0;
    // What comes back pays for what a window revives, and what is short is asked for.
    std::uint64_t there = table.promised - (state.has_copy_promise ? 1 : 0);
    for (std::uint64_t i = keep; i < table.blocks.size(); ++i) {
      needed_[g] += ComesBack(state, table.blocks[i]) ? 0 : 1;
      there += table.blocks[i] != kNoBlock ? 1 : 0;
    }
    std::uint64_t revived = 0;
    const std::uint64_t first = core_->layout.group(g).FirstLiveBlock(size);
    for (std::uint64_t i = first; i < std::min(keep, sealed); ++i) {
      revived += table.blocks[i] == kNoBlock ? 1 : 0;
    }
    if (revived > there) needed_[g] += revived - there;
  }
  if (!core_->pool.Promise(state.account, needed_)) return std::nullopt;
  state.has_copy_promise = state.has_copy_promise || copies_tail;
  state.prepared = 0;
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
  state.raw_from = std::min(state.raw_from, keep);
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
  const std::uint64_t held = core_->layout.BlocksNeeded(state.size);
  const bool has_tail = state.size % core_->block_tokens() != 0;
  const bool is_sealed = has_tail && IsSealed(state.tables[0].blocks[held - 1]);
  blocks.assign(core_->store_groups(), state.open_blocks);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const LaneGroup& group = core_->layout.group(g);
    blocks[g] = state.max_rollback > 0 || is_sealed ? 1 : 0;
    blocks[g] += group.PeakBlocks(max_tokens, state.chunk + state.max_rollback);
    if (group.has_window()) continue;
    blocks[g] -= held;
    for (std::uint64_t i = 0; i < held; ++i) {
      blocks[g] += core_->needs_promise(state.tables[g].blocks[i], state.account) ? 1 : 0;
    }
    if (has_tail && !is_sealed) ++blocks[g];  // one of the two copies the tail before it writes
  }
}

void Sequence::BlocksNeededToFork(std::uint64_t max_tokens,
                                  std::vector<std::uint64_t>& blocks) const {
  cache_->NeededToFork(*state_, max_tokens, blocks);
}

std::unique_ptr<SequenceState> KvCache::Fork(SequenceState& from, std::uint64_t max_tokens) {
  ASHLAR_CHECK(max_tokens >= from.size, "a fork of {} tokens for {}", from.size, max_tokens);
  ASHLAR_CHECK(HasRawTail(from), "the open block at {} tokens was written over and not committed",
               from.size);
  core_->UpdateTime();
  const std::uint64_t held = core_->layout.BlocksNeeded(from.size);
  NeededToFork(from, max_tokens, needed_);
  if (!core_->pool.Promise(from.account, needed_)) return nullptr;
  from.prepared = 0;  // what was prepared may be shared now
  std::unique_ptr<SequenceState> state = NewState();
  const bool is_sealed =
      from.size % core_->block_tokens() != 0 && IsSealed(from.tables[0].blocks[held - 1]);
  state->has_copy_promise = from.max_rollback > 0 || is_sealed;
  state->tokens.assign(from.tokens.begin(),
                       from.tokens.begin() + static_cast<std::ptrdiff_t>(from.size));
  state->size = from.size;
  state->max_tokens = max_tokens;
  state->chunk = from.chunk;
  state->max_rollback = from.max_rollback;
  state->open_blocks = from.open_blocks;
  state->raw_from = from.raw_from;
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
      // The promise of a tail's copy belongs to the block: whoever writes first uses it.
      if (core_->needs_promise(block, state->account) ||
          core_->pool.state(block) == BlockState::kOpen) {
        table.Spend();
      }
      core_->pool.Pin(block, state->account);
    }
  }
  CopyOpenBlocks(from, *state);
  return state;
}

}  // namespace ashlar::kv
