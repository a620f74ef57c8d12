// The rings of open blocks: what sequence.h promises of encoded groups.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace ashlar::kv {

std::byte* Sequence::open_block(std::uint32_t group, std::uint64_t number) const {
  const KvLayout& layout = cache_->layout();
  if (!layout.group(group).is_encoded()) return nullptr;
  SequenceState& state = *state_;
  const std::uint64_t end = layout.BlocksNeeded(state.size + state.prepared);
  const std::uint64_t ring = state.open_blocks;
  const std::uint64_t first = std::max(state.raw_from, end - std::min(end, ring));
  const std::uint64_t tail = state.size / layout.block_tokens();
  SequenceState::Table& table = state.tables[group];
  ASHLAR_CHECK(number < end && (number >= first || number == tail) && !table.open.empty(),
               "open block {} of group {}: there are [{}, {}) and {}", number, group, first, end,
               tail);
  // Written from now on, whether it will be committed or not.
  state.raw_from = std::max(state.raw_from, number + 1 - std::min(number + 1, ring));
  RefreshAddresses();
  return table.open_addresses[number % ring];
}

std::span<std::byte* const> Sequence::OpenRing(std::uint32_t group) const {
  const KvLayout& layout = cache_->layout();
  if (!layout.group(group).is_encoded()) return {};
  SequenceState& state = *state_;
  const std::uint64_t end = layout.BlocksNeeded(state.size + state.prepared);
  const std::vector<std::byte*>& ring = state.tables[group].open_addresses;
  ASHLAR_CHECK(ring.size() == state.open_blocks && state.prepared > 0, "nothing is prepared");
  state.raw_from = std::max(state.raw_from, end - std::min(end, state.open_blocks));
  RefreshAddresses();
  return ring;
}

void Sequence::CheckOpenBlocks(std::uint32_t group) const {
  const SequenceState::Table& table = state_->tables[group];
  const bool is_encoded = cache_->layout().group(group).is_encoded();
  const bool has_prepared =
      table.blocks.size() > state_->hit_tokens / cache_->layout().block_tokens();
  ASHLAR_CHECK(table.open.size() == state_->open_blocks
                   ? is_encoded
                   : table.open.empty() && !(is_encoded && has_prepared),
               "group {}: {} open blocks, not {}", group, table.open.size(), state_->open_blocks);
  const BlockPool& pool = cache_->core_->pool;
  for (const BlockId block : table.open) {
    ASHLAR_CHECK(pool.state(block) == BlockState::kOpen && pool.pins(block) == 1 &&
                     pool.account(block) == state_->account,
                 "open block {} is {}, with {} pins", block.value(), NameOf(pool.state(block)),
                 pool.pins(block));
  }
}

// Whether the rows of a partly filled block are there to go on after.
bool KvCache::HasRawTail(const SequenceState& state) const {
  return !core_->layout.has_encoded() || state.size % core_->block_tokens() == 0 ||
         state.size / core_->block_tokens() >= state.raw_from;
}

// All of them at once, promised at admission. No effect when they are there.
void KvCache::TakeOpenBlocks(SequenceState& state) {
  const std::span<const StoreGroup> groups = core_->layout.store_groups();
  for (std::uint32_t s = core_->groups(); s < groups.size(); ++s) {
    SequenceState::Table& table = state.tables[groups[s].lane_group];
    while (table.open.size() < state.open_blocks) {
      const BlockId block = core_->Take(state.account, s);
      table.open.push_back(block);
      table.open_addresses.push_back(core_->options.has_bytes ? core_->pool.store().Data(block)
                                                              : nullptr);
    }
  }
}

// For a fork; both have the same tokens. What `from` has not taken stays a promise of `to` as well.
void KvCache::CopyOpenBlocks(const SequenceState& from, SequenceState& to) {
  const std::uint64_t end = core_->layout.BlocksNeeded(from.size);
  const std::uint64_t first = std::max(from.raw_from, end - std::min(end, from.open_blocks));
  const auto groups = core_->layout.store_groups().subspan(core_->groups());
  if (groups.empty() || from.tables[groups.front().lane_group].open.empty()) return;
  TakeOpenBlocks(to);
  for (const StoreGroup& group : groups) {
    const SequenceState::Table& source = from.tables[group.lane_group];
    const SequenceState::Table& target = to.tables[group.lane_group];
    for (std::uint64_t n = first; n < end; ++n) {
      core_->CopyBytes(source.open[n % from.open_blocks], target.open[n % from.open_blocks]);
    }
  }
}

void KvCache::GiveOpenBlocks(SequenceState& state) {
  const std::span<const StoreGroup> groups = core_->layout.store_groups();
  for (std::uint32_t s = core_->groups(); s < groups.size(); ++s) {
    SequenceState::Table& table = state.tables[groups[s].lane_group];
    for (const BlockId block : table.open) core_->Unpin(block, state.account, state.retention);
    core_->pool.Unpromise(state.account, s, state.open_blocks - table.open.size());
    table.open.clear();
    table.open_addresses.clear();
  }
}

}  // namespace ashlar::kv
