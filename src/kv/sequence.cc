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

std::optional<Sequence> Sequence::Fork(std::uint64_t max_tokens) {
  std::unique_ptr<SequenceState> state = cache_->Fork(*state_, max_tokens);
  if (!state) return std::nullopt;
  return Sequence(cache_, std::move(state));
}

std::span<std::byte* const> Sequence::addresses(std::uint32_t group) const {
  RefreshAddresses();
  return state_->tables[group].addresses;
}

void Sequence::RefreshAddresses() const {
  const BlockStore& store = cache_->core_->pool.store();
  if (state_->moves == store.moves()) return;
  const auto address_of = [&](BlockId block) {
    const bool has_address = block != kNoBlock && cache_->core_->options.has_bytes;
    return has_address ? store.Data(block) : nullptr;
  };
  for (SequenceState::Table& table : state_->tables) {
    std::ranges::transform(table.blocks, table.addresses.begin(), address_of);
    std::ranges::transform(table.open, table.open_addresses.begin(), address_of);
  }
  state_->moves = store.moves();
}

std::uint64_t Sequence::bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t g = 0; g < state_->tables.size(); ++g) bytes += group_bytes(g).held;
  return bytes;
}

Sequence::GroupBytes Sequence::group_bytes(std::uint32_t group) const {
  const LaneGroup& lanes = cache_->layout().group(group);
  const SequenceState::Table& table = state_->tables[group];
  const std::uint64_t open = table.open.size() * lanes.open_block_bytes();
  const std::uint64_t held = table.Held(lanes.sink_blocks());
  return {.held = held * lanes.block_bytes() + open,
          .most = std::max(held, table.most_held) * lanes.block_bytes() + open};
}

void Sequence::CheckInvariants() const {
  const KvLayout& layout = cache_->layout();
  for (std::uint32_t g = 0; g < layout.groups().size(); ++g) {
    const LaneGroup& group = layout.group(g);
    const SequenceState::Table& table = state_->tables[g];
    const auto held = static_cast<std::uint64_t>(
        table.blocks.size() - static_cast<std::size_t>(std::ranges::count(table.blocks, kNoBlock)));
    const std::uint64_t reach =
        group.PeakBlocks(state_->max_tokens, state_->chunk + state_->max_rollback) +
        (state_->has_copy_promise ? 1 : 0);
    ASHLAR_CHECK(held + table.promised >= reach + table.extra,
                 "group {}: {} blocks held, {} promised ({} of them for now), {} needed", g, held,
                 table.promised, table.extra, reach);
    ASHLAR_CHECK(group.has_window() || held == table.blocks.size(), "group {} has a hole", g);
    ASHLAR_CHECK(held == table.Held(group.sink_blocks()), "group {}: {} blocks held, {} counted", g,
                 held, table.Held(group.sink_blocks()));
    CheckOpenBlocks(g);
  }
}

// --- What the cache does for it ---

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
  if (count > kMaxSequenceTokens - state.size) return false;
  if (count == 0) return true;
  const std::uint64_t block_tokens = core_->block_tokens();
  const std::uint64_t end = core_->layout.BlocksNeeded(state.size + count);
  const bool writes_tail = state.size % block_tokens != 0;
  const bool copies_tail =
      writes_tail && IsSealed(state.tables[0].blocks[state.size / block_tokens]);
  bool is_promised = true;
  bool takes_any = copies_tail;
  ASHLAR_CHECK(HasRawTail(state), "the open block at {} tokens was written over and not committed",
               state.size);
  needed_.assign(core_->store_groups(), 0);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const SequenceState::Table& table = state.tables[g];
    const std::uint64_t held = table.blocks.size();
    std::uint64_t takes = end > held ? end - held : 0;
    takes_any = takes_any || takes > 0;
    if (state.has_copy_promise || copies_tail) ++takes;  // the promise of a copy stays
    if (takes > table.promised) {
      needed_[g] = takes - table.promised;
      is_promised = false;
    }
  }
  if (!is_promised) {
    if (!core_->pool.Promise(state.account, needed_)) return false;
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      state.tables[g].promised += needed_[g];
      if (core_->layout.group(g).has_window()) state.tables[g].extra += needed_[g];
    }
  }
  if (takes_any) core_->UpdateTime();
  TakeOpenBlocks(state);
  if (writes_tail) CopySharedTail(state);
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    while (state.tables[g].blocks.size() < end) {
      state.tables[g].Spend();
      Append(state, g, core_->Take(state.account, g));
    }
    SequenceState::Table& table = state.tables[g];
    table.most_held = std::max(table.most_held, table.Held(core_->layout.group(g).sink_blocks()));
  }
  state.prepared = std::max(state.prepared, count);
  return true;
}

bool KvCache::IsSealed(BlockId block) const {
  return core_->pool.state(block) == BlockState::kShared;
}

// The last, partly filled block becomes this sequence's own.
void KvCache::CopySharedTail(SequenceState& state) {
  const std::uint64_t number = state.size / core_->block_tokens();
  if (IsSealed(state.tables[0].blocks[number])) {
    CopySealedTail(state, number);
    return;
  }
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const BlockId tail = state.tables[g].blocks[number];
    if (core_->pool.pins(tail) == 1) continue;
    // The others keep it alive: this pin can go before the copy is there. In a group with a window
    // it pays for the copy; else the fork that shares the block has brought a promise of one.
    core_->Unpin(tail, state.account, state.retention);
    if (core_->layout.group(g).has_window()) {
      Repromise(state, g);
      state.tables[g].Spend();
    }
    const BlockId copy = core_->Take(state.account, g);
    core_->CopyBytes(tail, copy);
    SetBlock(state, g, number, copy);
  }
}

// Immutable: Truncate went back into it, and the promise of a copy is there. It is there again
// afterwards when the sequence may want it again and the block gives its memory back.
void KvCache::CopySealedTail(SequenceState& state, std::uint64_t number) {
  bool keeps_promise = state.max_rollback > 0;
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    keeps_promise = keeps_promise && ComesBack(state, state.tables[g].blocks[number]);
  }
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    const BlockId tail = state.tables[g].blocks[number];
    state.tables[g].Spend();
    const BlockId copy = core_->Take(state.account, g);
    core_->CopyBytes(tail, copy);
    SetBlock(state, g, number, copy);
    core_->Unpin(tail, state.account, state.retention);
    if (keeps_promise) Repromise(state, g);
  }
  state.has_copy_promise = keeps_promise;
}

// What was just given back is promised again: always possible.
void KvCache::Repromise(SequenceState& state, std::uint32_t group) {
  ASHLAR_CHECK(core_->pool.PromiseOne(state.account, group), "a block given back is not there");
  ++state.tables[group].promised;
}

void KvCache::Commit(SequenceState& state, std::span<const TokenId> tokens) {
  const std::uint64_t block_tokens = core_->block_tokens();
  ASHLAR_CHECK(tokens.size() <= state.prepared, "{} tokens committed, {} prepared", tokens.size(),
               state.prepared);
  const std::uint64_t touched = core_->layout.BlocksNeeded(state.size + state.prepared);
  if (!tokens.empty()) {
    state.raw_from = std::max(state.raw_from, touched - std::min(touched, state.open_blocks));
  }
  state.prepared -= tokens.size();
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
  if (core_->needs_promise(known, state.account)) {
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
      if (table.extra > 0) {
        --table.extra;  // a piece was longer than promised: that is over
      } else {
        Repromise(state, g);
      }
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
    core_->pool.Unpromise(state.account, group, 1);  // of the copy for one of its readers
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
  GiveOpenBlocks(*state);
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
