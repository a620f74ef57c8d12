#include "server/state_json.h"

#include <string>
#include <string_view>
#include <utility>

#include "kv/block_pool.h"

namespace ashlar::server {
namespace {

constexpr std::string_view kTier = "ram";  // there is no other

std::string AccountName(const engine::CacheState& state, kv::AccountId id) {
  if (id == kv::kSharedAccount) return "shared";
  if (id == kv::kCommonAccount) return "common";
  return state.accounts[id.value()].name;
}

Json BytesJson(const engine::CacheState& state) {
  Json rows = Json::array();
  for (const kv::MemoryRow& row : state.memory.rows) {
    const engine::GroupState& group = state.groups[row.group];
    const std::uint64_t block_bytes =
        row.is_open_blocks ? group.open_block_bytes : group.block_bytes;
    rows.push_back({{"account", AccountName(state, row.account)},
                    {"group", group.name},
                    {"kind", row.is_open_blocks ? "open_block" : "block"},
                    {"state", NameOf(row.state)},
                    {"tier", kTier},
                    {"blocks", row.bytes / block_bytes},
                    {"bytes", row.bytes}});
  }
  const auto nobodys = [&](std::string_view name, std::uint64_t bytes) {
    rows.push_back({{"account", nullptr},
                    {"group", nullptr},
                    {"kind", "free"},
                    {"state", name},
                    {"tier", kTier},
                    {"blocks", nullptr},
                    {"bytes", bytes}});
  };
  nobodys("free_slot", state.memory.free_slot_bytes);
  nobodys("free_page", state.memory.free_page_bytes);
  nobodys("slack", state.memory.slack_bytes);
  nobodys("remainder", state.memory.remainder_bytes);
  return rows;
}

Json GroupsJson(const engine::CacheState& state) {
  Json groups = Json::array();
  for (const engine::GroupState& group : state.groups) {
    groups.push_back({{"name", group.name},
                      {"keys", group.keys},
                      {"values", group.values.empty() ? Json() : Json(group.values)},
                      {"lanes", group.lanes},
                      {"window_tokens", group.window_tokens},
                      {"sink_tokens", group.sink_tokens},
                      {"block_bytes", group.block_bytes},
                      {"open_block_bytes", group.open_block_bytes}});
  }
  return groups;
}

Json AccountsJson(const engine::CacheState& state) {
  Json accounts = Json::array();
  for (std::size_t i = 0; i < state.accounts.size(); ++i) {
    const engine::AccountState& account = state.accounts[i];
    accounts.push_back(
        {{"name", AccountName(state, kv::AccountId(static_cast<std::uint16_t>(i)))},
         {"floor_bytes", account.floor_bytes},
         {"ceiling_bytes",
          account.ceiling_bytes == ~std::uint64_t{0} ? Json() : Json(account.ceiling_bytes)},
         {"held_bytes", account.held_bytes},
         {"live_bytes", account.live_bytes}});
  }
  return accounts;
}

Json CountersJson(const kv::CacheCounters& counters) {
  return {{"admitted", counters.admitted},
          {"prompt_tokens", counters.prompt_tokens},
          {"hit_tokens", counters.hit_tokens},
          {"taken_blocks", counters.taken_blocks},
          {"sealed_blocks", counters.sealed_blocks},
          {"replaced_blocks", counters.replaced_blocks},
          {"copied_blocks", counters.copied_blocks},
          {"converged_blocks", counters.converged_blocks},
          {"unindexed_blocks", counters.unindexed_blocks}};
}

Json TreeJson(const kv::TreeSummary& tree, std::int64_t age_ns) {
  Json by_depth = Json::array();
  for (std::size_t i = 0; i < tree.by_depth.size(); ++i) {
    if (tree.by_depth[i] == 0) continue;
    const std::uint64_t from = std::uint64_t{1} << i;
    by_depth.push_back(
        {{"from_blocks", from}, {"to_blocks", 2 * from - 1}, {"nodes", tree.by_depth[i]}});
  }
  Json runs = Json::array();
  for (const kv::PrefixRun& run : tree.runs) {
    runs.push_back({{"key", run.key ? Json(run.key->ToHex()) : Json()},
                    {"parent", run.parent == kv::PrefixRun::kNoParent ? Json() : Json(run.parent)},
                    {"children", run.children},
                    {"position", run.position},
                    {"tokens", run.tokens},
                    {"bytes", run.bytes},
                    {"live_bytes", run.live_bytes},
                    {"subtree_bytes", run.subtree_bytes}});
  }
  return {{"age_ms", age_ns / 1'000'000},
          {"max_nodes", tree.max_nodes},
          {"nodes", tree.nodes},
          {"roots", tree.roots},
          {"tails", tree.tails},
          {"leaves", tree.leaves},
          {"stale_nodes", tree.stale_nodes},
          {"bytes", tree.bytes},
          {"by_depth", std::move(by_depth)},
          {"runs_total", tree.total_runs},
          {"runs", std::move(runs)}};
}

Json HistogramJson(const Histogram& histogram) {
  return {{"bounds", histogram.bounds()}, {"counts", histogram.counts()}};
}

}  // namespace

Json CacheStateJson(const engine::CacheState& state) {
  return {{"arena_bytes", state.memory.arena_bytes},
          {"promised_bytes", state.memory.promised_bytes},
          {"pinned_bytes", state.pinned_bytes},
          {"live_sequences", state.live_sequences},
          {"block_tokens", state.block_tokens},
          {"page_bytes", state.page_bytes},
          {"pages", state.pages},
          {"free_pages", state.free_pages},
          {"block_moves", state.block_moves},
          {"bytes", BytesJson(state)},
          {"groups", GroupsJson(state)},
          {"accounts", AccountsJson(state)},
          {"counters", CountersJson(state.counters)},
          {"tree", TreeJson(state.tree, state.tree_age_ns)}};
}

Json DashboardJson(const DashboardSources& sources) {
  const engine::EngineReport& report = sources.report;
  const engine::ServiceStats& stats = report.stats;
  const kv::MemoryReport& memory = report.memory;
  std::uint64_t open = 0;
  std::uint64_t shared = 0;
  std::uint64_t idle = 0;
  for (const kv::MemoryRow& row : memory.rows) {
    (row.state == kv::BlockState::kOpen     ? open
     : row.state == kv::BlockState::kShared ? shared
                                            : idle) += row.bytes;
  }
  return {{"time_ms", report.time_ns / 1'000'000},
          {"model", sources.model_name},
          {"version", sources.version},
          {"kv_codec", sources.info.kv_codec},
          {"is_sleeping", report.is_sleeping},
          {"running", stats.running},
          {"waiting", stats.waiting},
          {"arena_bytes", memory.arena_bytes},
          {"bytes",
           {{"open", open},
            {"shared", shared},
            {"idle", idle},
            {"free", memory.free_slot_bytes + memory.free_page_bytes},
            {"slack", memory.slack_bytes + memory.remainder_bytes}}},
          {"promised_bytes", memory.promised_bytes},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"prefill_tokens", stats.prefill_tokens},
          {"generated_tokens", stats.generated_tokens},
          {"preemptions", stats.preemptions},
          {"replaced_blocks", report.cache.replaced_blocks},
          {"steps", stats.steps},
          {"step_ns",
           {{"plan", stats.plan_ns}, {"forward", stats.forward_ns}, {"sample", stats.sample_ns}}},
          {"ttft", HistogramJson(report.histograms.ttft)},
          {"itl", HistogramJson(report.histograms.itl)}};
}

}  // namespace ashlar::server
