#include "kv/sequence.h"

#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace ashlar::kv {

// --- The handle ---

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this != &other) {
    if (state_) cache_->Release(std::move(state_));
    cache_ = other.cache_;
    state_ = std::move(other.state_);
  }
  return *this;
}

Sequence::~Sequence() {
  if (state_) cache_->Release(std::move(state_));
}

bool Sequence::Prepare(std::uint64_t count) { return cache_->Prepare(*state_, count); }

void Sequence::Commit(std::span<const TokenId> tokens) { cache_->Commit(*state_, tokens); }

std::optional<std::uint64_t> Sequence::Truncate(std::uint64_t size) {
  return cache_->Truncate(*state_, size);
}

std::optional<Sequence> Sequence::Fork(std::uint64_t max_tokens) const {
  std::unique_ptr<SequenceState> state = cache_->Fork(*state_, max_tokens);
  if (!state) return std::nullopt;
  return Sequence(cache_, std::move(state));
}

std::span<std::byte* const> Sequence::addresses(std::uint32_t group) const {
  const BlockStore& store = cache_->core_->pool.store();
  if (state_->moves != store.moves()) {
    for (SequenceState::Table& table : state_->tables) {
      for (std::size_t i = 0; i < table.blocks.size(); ++i) {
        table.addresses[i] = table.blocks[i] == kNoBlock ? nullptr : store.Data(table.blocks[i]);
      }
    }
    state_->moves = store.moves();
  }
  return state_->tables[group].addresses;
}

std::uint64_t Sequence::bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t g = 0; g < state_->tables.size(); ++g) {
    const std::vector<BlockId>& blocks = state_->tables[g].blocks;
    const auto held =
        blocks.size() - static_cast<std::size_t>(std::ranges::count(blocks, kNoBlock));
    bytes += held * cache_->layout().group(g).block_bytes();
  }
  return bytes;
}

// --- What the cache does for it ---

namespace {

std::uint64_t BlocksOf(std::uint64_t tokens, std::uint64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

void KvCache::Append(SequenceState& state, std::uint32_t group, BlockId block) {
  SequenceState::Table& table = state.tables[group];
  table.blocks.push_back(block);
  const bool has_address = block != kNoBlock && core_->options.has_bytes;
  table.addresses.push_back(has_address ? core_->pool.store().Data(block) : nullptr);
}

void KvCache::SetBlock(SequenceState& state, std::uint32_t group, std::uint64_t number,
                       BlockId block) {
  SequenceState::Table& table = state.tables[group];
  table.blocks[number] = block;
  if (core_->options.has_bytes) table.addresses[number] = core_->pool.store().Data(block);
}

bool KvCache::Prepare(SequenceState& state, std::uint64_t count) {
  if (count == 0) return true;
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t end = BlocksOf(state.size + count, block_tokens);
  const bool writes_tail = state.size % block_tokens != 0;
  bool is_promised = true;
  needed_.assign(core_->groups(), 0);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const SequenceState::Table& table = state.tables[g];
    const std::uint64_t held = table.blocks.size();
    std::uint64_t takes = end > held ? end - held : 0;
    if (writes_tail && IsSealed(table.blocks[state.size / block_tokens])) ++takes;
    if (takes > table.promised) {
      needed_[g] = takes - table.promised;
      is_promised = false;
    }
  }
  if (!is_promised) {
    if (!core_->pool.Promise(state.account, needed_)) return false;
    for (std::uint32_t g = 0; g < core_->groups(); ++g) state.tables[g].promised += needed_[g];
  }
  if (writes_tail) CopySharedTail(state);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    while (state.tables[g].blocks.size() < end) {
      state.tables[g].Spend();
      Append(state, g, core_->Take(state.account, g));
    }
  }
  return true;
}

bool KvCache::IsSealed(BlockId block) const {
  return core_->pool.state(block) == BlockState::kShared;
}

// The last, partly filled block becomes this sequence's own.
void KvCache::CopySharedTail(SequenceState& state) {
  const std::uint64_t number = state.size / core_->block_tokens();
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const BlockId tail = state.tables[g].blocks[number];
    if (IsSealed(tail)) {  // immutable: Truncate went back into it, and promised the copy
      state.tables[g].Spend();
      const BlockId copy = core_->Take(state.account, g);
      core_->CopyBytes(tail, copy);
      SetBlock(state, g, number, copy);
      core_->Unpin(tail, state.account, state.retention);
    } else if (core_->pool.pins(tail) > 1) {
      // The others keep it alive: this pin can go before the copy is there.
      if (core_->layout.group(g).has_window()) {
        core_->Unpin(tail, state.account, state.retention);
        Repromise(state, g);
        state.tables[g].Spend();
      } else {
        --core_->CopyPromises(tail);
        core_->Unpin(tail, state.account, state.retention);
      }
      const BlockId copy = core_->Take(state.account, g);
      core_->CopyBytes(tail, copy);
      SetBlock(state, g, number, copy);
    }
  }
}

// What was just given back is promised again: always possible.
void KvCache::Repromise(SequenceState& state, std::uint32_t group) {
  ASHLAR_CHECK(core_->pool.PromiseOne(state.account, group), "a block given back is not there");
  ++state.tables[group].promised;
}

void KvCache::Commit(SequenceState& state, std::span<const TokenId> tokens) {
  const std::uint64_t block_tokens = core_->block_tokens();
  ASHLAR_CHECK(BlocksOf(state.size + tokens.size(), block_tokens) <= state.tables[0].blocks.size(),
               "{} tokens committed, {} blocks prepared", state.size + tokens.size(),
               state.tables[0].blocks.size());
  while (!tokens.empty()) {
    const std::uint64_t room = block_tokens - state.size % block_tokens;
    const std::span<const TokenId> part = tokens.first(std::min<std::size_t>(room, tokens.size()));
    tokens = tokens.subspan(part.size());
    const std::size_t known = std::min(part.size(), state.tokens.size() - state.size);
    if (!std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(known),
                    state.tokens.begin() + static_cast<std::ptrdiff_t>(state.size))) {
      DropPromises(state);  // not the prompt it was admitted with
      state.tokens.resize(state.size);
    }
    if (state.size + part.size() > state.tokens.size()) {
      state.tokens.resize(state.size);
      state.tokens.insert(state.tokens.end(), part.begin(), part.end());
    }
    state.size += part.size();
    if (state.size % block_tokens == 0) SealBlock(state, state.size / block_tokens - 1);
  }
  PassWindow(state);
}

// The node of a block that is full; nullopt when the index is. Keeps the promise of it.
std::optional<NodeId> KvCache::NodeOf(SequenceState& state, std::uint64_t number) {
  if (number >= state.promised_from && number - state.promised_from < state.promised.size()) {
    const NodeId node = state.promised[number - state.promised_from];
    core_->index.DropPromise(node);
    return node;
  }
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::span<const TokenId> tokens =
      std::span(state.tokens).subspan(number * block_tokens, block_tokens);
  const std::uint64_t hash = core_->options.hasher(core_->index.hash(state.path), tokens);
  return core_->FindOrMakeChild(state.path, hash, tokens);
}

void KvCache::SealBlock(SequenceState& state, std::uint64_t number) {
  ++core_->counters.sealed_blocks;
  std::optional<NodeId> node;
  if (state.path != kNoNode) {
    node = NodeOf(state, number);
    if (node) {
      core_->index.AddReference(*node);
    } else {
      ++core_->counters.unindexed_blocks;
    }
    core_->index.DropReference(state.path);
    if (!node) core_->RemoveUnneeded(state.path);
    state.path = node.value_or(kNoNode);
  }
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    if (node) {
      SealInto(state, *node, g, number);
    } else {
      core_->pool.Seal(state.tables[g].blocks[number]);
    }
  }
  if (node) {
    const auto tail =
        core_->index.FindTailBefore(core_->index.parent(*node), core_->index.tokens(*node));
    if (tail) core_->DropIfIdle(*tail);
  }
}

// The block becomes the node's; or, where another sequence has computed the same, that block
// becomes this sequence's: they hold the same bits.
void KvCache::SealInto(SequenceState& state, NodeId node, std::uint32_t group,
                       std::uint64_t number) {
  const BlockId own = state.tables[group].blocks[number];
  const BlockId known = core_->index.block(node, group);
  if (known == kNoBlock) {
    core_->pool.Seal(own);
    core_->Publish(node, own);
    return;
  }
  ++core_->counters.converged_blocks;
  core_->Unpin(own, state.account, state.retention);
  if (core_->needs_promise(known)) {
    Repromise(state, group);
    state.tables[group].Spend();
  }
  core_->PinCached(known, state.account);
  SetBlock(state, group, number, known);
}

void KvCache::PassWindow(SequenceState& state) {
  const std::uint64_t position = state.size - std::min(state.size, state.max_rollback);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const LaneGroup& group = core_->layout.group(g);
    if (!group.has_window()) continue;
    SequenceState::Table& table = state.tables[g];
    const std::uint64_t live = group.FirstLiveBlock(position);
    for (std::uint64_t i = std::max(table.first_live, group.sink_blocks()); i < live; ++i) {
      if (table.blocks[i] == kNoBlock) continue;
      DropBlock(state, g, i);
      Repromise(state, g);
    }
    table.first_live = std::max(table.first_live, live);
  }
}

// Precondition: it holds the block.
void KvCache::DropBlock(SequenceState& state, std::uint32_t group, std::uint64_t number) {
  SequenceState::Table& table = state.tables[group];
  const BlockId block = table.blocks[number];
  const BlockPool& pool = core_->pool;
  if (pool.state(block) == BlockState::kOpen && pool.pins(block) > 1 &&
      !core_->layout.group(group).has_window()) {
    --core_->CopyPromises(block);
    core_->pool.Unpromise(state.account, group, 1);
  }
  table.blocks[number] = kNoBlock;
  table.addresses[number] = nullptr;
  core_->Unpin(block, state.account, state.retention);
}

void KvCache::DropPromises(SequenceState& state) {
  const std::uint64_t sealed = state.size / core_->block_tokens();
  const std::uint64_t kept = std::min<std::uint64_t>(sealed - std::min(sealed, state.promised_from),
                                                     state.promised.size());
  for (std::uint64_t i = kept; i < state.promised.size(); ++i) {
    core_->index.DropPromise(state.promised[i]);
  }
  if (kept < state.promised.size()) core_->RemoveUnneeded(state.promised.back());
  state.promised.clear();
}

void KvCache::Release(std::unique_ptr<SequenceState> state) {
  core_->UpdateTime();
  DropPromises(*state);
  KeepTail(*state);
  for (std::uint64_t number = state->tables[0].blocks.size(); number-- > 0;) {
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      if (state->tables[g].blocks[number] != kNoBlock) DropBlock(*state, g, number);
    }
  }
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    core_->pool.Unpromise(state->account, g, state->tables[g].promised);
  }
  if (state->path != kNoNode) {
    core_->index.DropReference(state->path);
    core_->RemoveUnneeded(state->path);
  }
  --live_sequences_;
  spare_states_.push_back(std::move(state));
}

// The last, partly filled block stays in the index, for prompts that go on where this text ends.
void KvCache::KeepTail(SequenceState& state) {
  const std::uint64_t count = state.size % core_->block_tokens();
  if (state.path == kNoNode || count == 0 || !core_->is_reachable(state.path)) return;
  const std::uint64_t number = state.size / core_->block_tokens();
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const BlockId block = state.tables[g].blocks[number];
    if (!core_->layout.group(g).shares_tokens() || IsSealed(block) || core_->pool.pins(block) > 1) {
      return;
    }
  }
  const std::span<const TokenId> tokens =
      std::span(state.tokens).subspan(number * core_->block_tokens(), count);
  const auto known = core_->index.FindPartial(state.path, tokens);
  if (known && known->tokens == count) return;  // a block that has all of it is there
  if (const auto tail = core_->index.FindTailBefore(state.path, tokens)) core_->DropIfIdle(*tail);
  const std::uint64_t hash = core_->options.hasher(core_->index.hash(state.path), tokens);
  const std::optional<NodeId> node = core_->FindOrMakeChild(state.path, hash, tokens);
  if (!node) return;
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    core_->pool.Seal(state.tables[g].blocks[number]);
    core_->Publish(*node, state.tables[g].blocks[number]);
  }
}

}  // namespace ashlar::kv
