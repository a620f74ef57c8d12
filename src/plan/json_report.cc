#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plan/report.h"
#include "plan/working.h"

namespace ashlar::plan {
namespace {

using OrderedJson = nlohmann::ordered_json;  // fields in the order they are explained in

OrderedJson ModelOf(const Plan& plan) {
  const Geometry& g = plan.subject.geometry;
  OrderedJson json = {{"name", g.name},
                      {"source", plan.subject.source},
                      {"architecture", g.architecture_name},
                      {"description", fmt::format("{}", fmt::join(Describe(g), ", "))},
                      {"layers", g.layers.size()},
                      {"hidden", g.hidden},
                      {"heads", g.heads},
                      {"head_dim", g.head_dim},
                      {"feed_forward", g.feed_forward},
                      {"vocab", g.vocab},
                      {"context", g.context},
                      {"is_tied", g.is_tied},
                      {"parameters", plan.parameters},
                      {"parameters_are_exact", plan.are_parameters_exact},
                      {"notes", g.notes}};
  if (const auto layer = UniformLayer(g)) json["kv_heads"] = layer->kv_heads;
  return json;
}

OrderedJson GroupsOf(const KvNeed& need) {
  OrderedJson groups = OrderedJson::array();
  for (const GroupNeed& group : need.groups) {
    groups.push_back({{"name", group.name},
                      {"layers", group.layers},
                      {"lanes", group.lanes},
                      {"key_dim", group.key_dim},
                      {"value_dim", group.value_dim},
                      {"key_codec", group.key_codec},
                      {"value_codec", group.value_codec},
                      {"window", group.window},
                      {"bytes_per_token", group.bytes_per_token},
                      {"block_bytes", group.block_bytes},
                      {"blocks", group.peak_blocks},
                      {"blocks_held", group.held_blocks},
                      {"open_blocks", group.open_blocks},
                      {"open_block_bytes", group.open_block_bytes},
                      {"bytes_per_sequence", group.peak_bytes()},
                      {"bytes_held", group.held_bytes()}});
  }
  return groups;
}

OrderedJson FitsOf(const CodecRow& row) {
  if (!row.sequences) return nullptr;
  return {{"sequences", *row.sequences}, {"context", *row.context}};
}

OrderedJson CodecsIn(const Plan& plan) {
  OrderedJson codecs = OrderedJson::array();
  for (const CodecRow& row : plan.codecs) {
    OrderedJson json = {{"codec", row.name},
                        {"bits_per_element", row.bits_per_element},
                        {"kv_bytes_per_token", row.need.bytes_per_token},
                        {"kv_bytes_per_sequence", row.need.bytes_per_sequence},
                        {"kv_bytes_held", row.need.held_bytes},
                        {"kv_bytes_total", row.need.total_bytes},
                        {"fits", FitsOf(row)}};
    if (!row.spec.empty()) json["spec"] = row.spec;
    OrderedJson curve = OrderedJson::array();
    for (std::size_t i = 0; i < row.curve.size(); ++i) {
      OrderedJson point = {{"context", plan.contexts[i]}, {"kv_bytes_total", row.curve[i]}};
      if (!row.frontier.empty()) point["sequences"] = row.frontier[i];
      curve.push_back(std::move(point));
    }
    json["frontier"] = std::move(curve);
    codecs.push_back(std::move(json));
  }
  return codecs;
}

OrderedJson WeightsOf(const Plan& plan) {
  OrderedJson weights = OrderedJson::array();
  for (const WeightRow& row : plan.weights) {
    weights.push_back({{"format", row.format},
                       {"bytes", row.bytes},
                       {"is_estimate", row.is_estimate},
                       {"is_counted", row.is_chosen}});
  }
  return weights;
}

OrderedJson MemoryOf(const Plan& plan) {
  if (!plan.budget) return nullptr;
  const MemoryBudget& budget = *plan.budget;
  return {{"bytes", budget.memory_bytes},
          {"source", plan.options.memory_source},
          {"margin_bytes", budget.margin_bytes},
          {"weights_bytes", budget.weights_bytes},
          {"workspace_bytes", budget.workspace_bytes},
          {"bookkeeping_bytes", budget.bookkeeping_bytes},
          {"kv_memory_bytes", budget.arena_bytes},
          {"missing_bytes", budget.missing_bytes}};
}

OrderedJson RulesOf(const Plan& plan) {
  OrderedJson rules = OrderedJson::array();
  for (const RuleOfThumb& rule : plan.rules) {
    rules.push_back({{"name", rule.name},
                     {"formula", rule.formula},
                     {"bytes_per_sequence", rule.bytes},
                     {"factor", rule.factor}});
  }
  return rules;
}

}  // namespace

std::string JsonReport(const Plan& plan) {
  const KvNeed& need = plan.chosen.need;
  OrderedJson json = {{"model", ModelOf(plan)},
                      {"kv_codec", plan.chosen.name},
                      {"block_tokens", plan.options.block_tokens},
                      {"context", plan.options.workload.context},
                      {"sequences", plan.options.workload.sequences},
                      {"prefill_chunk", plan.options.workload.chunk},
                      {"kv_bytes_per_token", need.bytes_per_token},
                      {"kv_bytes_per_sequence", need.bytes_per_sequence},
                      {"kv_bytes_held", need.held_bytes},
                      {"kv_bytes_total", need.total_bytes},
                      {"kv_memory_bytes", nullptr},
                      {"weights_bytes", plan.weights_bytes},
                      {"workspace_bytes", plan.workspace_bytes},
                      {"fits", FitsOf(plan.chosen)},
                      {"groups", GroupsOf(need)},
                      {"working", Working(plan)},
                      {"codecs", CodecsIn(plan)},
                      {"weights", WeightsOf(plan)},
                      {"memory", MemoryOf(plan)},
                      {"rules_of_thumb", RulesOf(plan)}};
  if (plan.arena_for_bytes) json["kv_memory_bytes"] = *plan.arena_for_bytes;
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ashlar::plan
