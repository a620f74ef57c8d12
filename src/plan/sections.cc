#include "plan/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "plan/working.h"

namespace ashlar::plan {
namespace {

std::string Number(std::uint64_t value) { return FormatWithCommas(value); }

std::string SequencesOf(std::uint64_t count) {
  return fmt::format("{} sequence{}", Number(count), count == 1 ? "" : "s");
}

Section Head(const Plan& plan) {
  const Geometry& g = plan.subject.geometry;
  Section section = {.title = g.architecture_name.empty()
                                  ? g.name
                                  : fmt::format("{} ({})", g.name, g.architecture_name)};
  section.lines = Describe(g);
  const std::uint64_t context = plan.options.workload.context;
  if (g.context > 0 && context > g.context) {
    section.lines.push_back(fmt::format("{} tokens are more than the {} it was trained for",
                                        Number(context), Number(g.context)));
  }
  section.lines.insert(section.lines.end(), g.notes.begin(), g.notes.end());
  return section;
}

Section Cache(const Plan& plan) {
  Section section = {.title = fmt::format("KV cache in {}, blocks of {} tokens", plan.chosen.name,
                                          plan.options.block_tokens),
                     .has_names = true,
                     .lines = Working(plan)};
  section.table.push_back({"group", "layers", "lanes", "K + V", "codec", "window", "bytes a token",
                           "bytes a block", "blocks", "bytes a sequence"});
  for (const GroupNeed& group : plan.chosen.need.groups) {
    section.table.push_back({group.name, Number(group.layers), Number(group.lanes),
                             fmt::format("{} + {}", group.key_dim, group.value_dim),
                             CodecsOf(group), group.window > 0 ? Number(group.window) : "none",
                             Number(group.bytes_per_token), Number(group.block_bytes),
                             Number(group.peak_blocks), Number(group.peak_bytes())});
  }
  return section;
}

Section Codecs(const Plan& plan) {
  const Workload& workload = plan.options.workload;
  Section section = {
      .title = fmt::format("Codecs, {} of {} tokens", SequencesOf(workload.sequences),
                           Number(workload.context)),
      .has_names = true,
      .plot = SectionPlot::kMemoryByContext};
  std::vector<std::string> names = {
      "codec", "is", "bits a number", "bytes a token", "open blocks", "a sequence", "all"};
  if (plan.arena_bytes) {
    names.insert(names.end(), {"sequences that fit", "context that fits"});
  }
  section.table.push_back(std::move(names));
  for (const CodecRow& row : plan.codecs) {
    std::uint64_t open = 0;
    for (const GroupNeed& group : row.need.groups) {
      open += group.open_blocks * group.open_block_bytes;
    }
    std::vector<std::string> cells = {row.name,
                                      row.spec,
                                      fmt::format("{:.2f}", row.bits_per_element),
                                      Number(row.need.bytes_per_token),
                                      open > 0 ? FormatByteSize(open) : "none",
                                      FormatByteSize(row.need.bytes_per_sequence),
                                      FormatByteSize(row.need.total_bytes)};
    if (plan.arena_bytes) {
      cells.push_back(Number(*row.sequences));
      cells.push_back(Number(*row.context));
    }
    section.table.push_back(std::move(cells));
  }
  return section;
}

Section Weights(const Plan& plan) {
  Section section = {.title = fmt::format("Weights: {} parameters{}", Number(plan.parameters),
                                          plan.are_parameters_exact ? "" : " (estimate)")};
  for (const WeightRow& row : plan.weights) {
    section.table.push_back({row.format, Number(row.bytes), FormatByteSize(row.bytes),
                             row.is_estimate ? "estimate" : "exact",
                             row.is_chosen ? "counted" : ""});
  }
  return section;
}

Section Memory(const Plan& plan) {
  const MemoryBudget& budget = *plan.budget;
  const std::string& source = plan.options.memory_source;
  Section section = {.title = fmt::format("Memory: {}{}", FormatByteSize(budget.memory_bytes),
                                          source.empty() ? "" : fmt::format(" ({})", source))};
  const auto add = [&](const char* what, std::uint64_t bytes) {
    section.table.push_back({what, Number(bytes), FormatByteSize(bytes)});
  };
  add("all", budget.memory_bytes);
  add("- margin", budget.margin_bytes);
  add("- weights", budget.weights_bytes);
  add("- workspace of the forward pass", budget.workspace_bytes);
  add("- the cache's bookkeeping, at most", budget.bookkeeping_bytes);
  add("= left for --kv-memory", budget.arena_bytes);
  if (budget.missing_bytes > 0) {
    section.lines.push_back(
        fmt::format("it does not fit: {} bytes ({}) are missing before any KV "
                    "cache",
                    Number(budget.missing_bytes), FormatByteSize(budget.missing_bytes)));
  }
  return section;
}

Section Fits(const Plan& plan) {
  const Workload& workload = plan.options.workload;
  Section section = {.title = fmt::format("Sequences that fit in --kv-memory {}, by their tokens",
                                          FormatByteSize(*plan.arena_bytes)),
                     .has_names = true,
                     .plot = SectionPlot::kFrontier};
  std::vector<std::string> names = {"tokens"};
  for (const CodecRow& row : plan.codecs) names.push_back(row.name);
  section.table.push_back(std::move(names));
  for (std::size_t i = 0; i < plan.contexts.size(); ++i) {
    std::vector<std::string> cells = {Number(plan.contexts[i])};
    for (const CodecRow& row : plan.codecs) cells.push_back(Number(row.frontier[i]));
    section.table.push_back(std::move(cells));
  }
  section.lines.push_back(
      fmt::format("in {}: {} of {} tokens at once; {} of up to {} tokens{}", plan.chosen.name,
                  SequencesOf(*plan.chosen.sequences), Number(workload.context),
                  SequencesOf(workload.sequences), Number(*plan.chosen.context),
                  *plan.chosen.context == plan.contexts.back() ? ", the longest asked about" : ""));
  return section;
}

Section Rules(const Plan& plan) {
  Section section = {.title = fmt::format("Rules of thumb, for a sequence that takes {} bytes",
                                          Number(plan.chosen.need.bytes_per_sequence))};
  for (const RuleOfThumb& rule : plan.rules) {
    section.lines.push_back(fmt::format("{}: {} = {} bytes, {:.2f} times as much", rule.name,
                                        rule.formula, Number(rule.bytes), rule.factor));
  }
  return section;
}

}  // namespace

std::vector<Section> SectionsOf(const Plan& plan) {
  std::vector<Section> sections = {Head(plan), Cache(plan), Codecs(plan), Weights(plan)};
  if (plan.budget) sections.push_back(Memory(plan));
  if (plan.arena_bytes && *plan.arena_bytes > 0) sections.push_back(Fits(plan));
  if (!plan.rules.empty()) sections.push_back(Rules(plan));
  return sections;
}

}  // namespace ashlar::plan
