#include "engine/cache_state.h"

#include <algorithm>
#include <span>

#include "base/kv_codec.h"

namespace ashlar::engine {
namespace {

std::vector<AccountState> AccountsOf(const kv::BlockPool& pool) {
  std::vector<AccountState> accounts;
  accounts.reserve(pool.accounts());
  for (std::size_t i = 0; i < pool.accounts(); ++i) {
    const kv::AccountId id(static_cast<std::uint16_t>(i));
    accounts.push_back({.name = pool.limits(id).name,
                        .floor_bytes = pool.limits(id).floor_bytes,
                        .ceiling_bytes = pool.limits(id).ceiling_bytes,
                        .held_bytes = pool.held_bytes(id),
                        .live_bytes = pool.live_bytes(id)});
  }
  return accounts;
}

std::vector<GroupState> GroupsOf(const kv::KvLayout& layout) {
  std::vector<GroupState> groups;
  groups.reserve(layout.groups().size());
  for (const kv::LaneGroup& group : layout.groups()) {
    const kv::LaneGroupSpec& spec = group.spec();
    groups.push_back({.name = spec.name,
                      .keys = NameOf(spec.key_codec),
                      .values = spec.value_dim > 0 ? NameOf(spec.value_codec) : std::string(),
                      .lanes = spec.lanes.size(),
                      .window_tokens = spec.window,
                      .sink_tokens = spec.sinks,
                      .block_bytes = group.block_bytes(),
                      .open_block_bytes = group.open_block_bytes()});
  }
  return groups;
}

}  // namespace

CacheState StateOf(const kv::KvCache& cache) {
  const kv::BlockStore& store = cache.core().pool.store();
  return {.memory = cache.Account(),
          .counters = cache.counters(),
          .block_tokens = cache.layout().block_tokens(),
          .page_bytes = store.page_bytes(),
          .pages = store.pages(),
          .free_pages = store.free_pages(),
          .live_sequences = cache.live_sequences(),
          .pinned_bytes = cache.pinned_bytes(),
          .block_moves = store.moves(),
          .groups = GroupsOf(cache.layout()),
          .accounts = AccountsOf(cache.core().pool)};
}

std::vector<std::string> AccountNamesOf(const kv::KvCache& cache) {
  const kv::BlockPool& pool = cache.core().pool;
  std::vector<std::string> names;
  names.reserve(pool.accounts());
  for (std::size_t i = 0; i < pool.accounts(); ++i) {
    names.push_back(pool.limits(kv::AccountId(static_cast<std::uint16_t>(i))).name);
  }
  return names;
}

std::vector<std::string> GroupNamesOf(const kv::KvCache& cache) {
  std::vector<std::string> names;
  names.reserve(cache.layout().groups().size());
  for (const kv::LaneGroup& group : cache.layout().groups()) names.push_back(group.name());
  return names;
}

EventBatch EventsOf(const kv::KvCache& cache, std::uint64_t from, std::size_t max) {
  EventBatch batch;
  batch.oldest = cache.events().oldest_sequence();
  batch.last = cache.events().last_sequence();
  batch.gap = cache.events().Read(from, std::min(max, Control::kMaxEventBatch), batch.events);
  std::size_t tokens = 0;
  for (const kv::KvEvent& event : batch.events) tokens += event.tokens.size();
  batch.tokens.reserve(tokens);
  for (kv::KvEvent& event : batch.events) {
    const std::size_t begin = batch.tokens.size();
    batch.tokens.insert(batch.tokens.end(), event.tokens.begin(), event.tokens.end());
    event.tokens = std::span(batch.tokens).subspan(begin);
  }
  return batch;
}

}  // namespace ashlar::engine
