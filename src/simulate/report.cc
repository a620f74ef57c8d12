#include "simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/text_table.h"
#include "simulate/figures.h"

namespace ashlar::simulate {
namespace {

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.2f}%", 100 * Share(part, whole));
}

std::string ShownValue(const ReportJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// --- One run ---

using Lines = std::vector<std::pair<std::string, std::string>>;

void AddServeLines(const Results& results, Lines& lines) {
  const double seconds = Seconds(results.duration_ns);
  lines.emplace_back("time", fmt::format("{:.1f} s, {:.1f}% of it in {} steps", seconds,
                                         seconds > 0 ? 100 * Seconds(results.busy_ns) / seconds : 0,
                                         results.steps));
  lines.emplace_back("output tokens", fmt::format("{}, {:.1f}/s", results.output_tokens,
                                                  PerSecond(results, results.output_tokens)));
  if (results.targets.ttft_ns > 0 || results.targets.itl_ns > 0) {
    lines.emplace_back(
        "goodput", fmt::format("{} requests within the targets, {:.2f} requests/s, {:.1f} tokens/s",
                               results.good_requests, PerSecond(results, results.good_requests),
                               PerSecond(results, results.good_tokens)));
  }
  lines.emplace_back(
      "preemptions",
      fmt::format("{} for memory to grow, {} for urgent requests; {} tokens computed again",
                  results.growth_preemptions, results.urgent_preemptions,
                  results.recomputed_tokens));
  lines.emplace_back(
      "memory", fmt::format("{} of {} live at the most", FormatByteSize(results.peak_live_bytes),
                            FormatByteSize(results.arena_bytes)));
}

std::string ParamsLine(const Run& run) {
  std::string text;
  for (const auto* const part : {&run.params, &run.setting}) {
    for (const auto& [name, value] : part->items()) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ShownValue(value));
    }
  }
  return text;
}

std::string LatencyTable(const Results& results) {
  TextTable table;
  std::vector<std::string> head = {"ms"};
  for (const std::string_view column : kColumns) head.emplace_back(column);
  table.Add(std::move(head));
  for (const Latency& latency : LatenciesOf(results)) {
    std::vector<std::string> row = {std::string(latency.name)};
    for (const double value : ColumnsOf(*latency.histogram)) {
      row.push_back(fmt::format("{:.2f}", value));
    }
    table.Add(std::move(row));
  }
  return table.Text();
}

std::string MissTable(const Results& results) {
  TextTable table;
  table.Add({"why no more was hit", "requests", "tokens computed"});
  for (std::size_t i = 0; i < results.misses.size(); ++i) {
    if (results.misses[i] == 0) continue;
    table.Add({std::string(kv::NameOf(static_cast<kv::MissReason>(i))),
               fmt::format("{}", results.misses[i]), fmt::format("{}", results.missed_tokens[i])});
  }
  return table.Text();
}

std::string OneRun(const Run& run) {
  const Results& results = run.results;
  Lines lines;
  std::string requests = fmt::format("{} served", results.requests);
  if (results.refused > 0) requests += fmt::format(", {} found the queue full", results.refused);
  if (results.too_long > 0) requests += fmt::format(", {} are too long", results.too_long);
  if (results.skipped > 0) requests += fmt::format(", {} bad lines skipped", results.skipped);
  lines.emplace_back("requests", std::move(requests));
  lines.emplace_back(
      "prompt tokens",
      fmt::format("{}, of them {} hit: {}", results.prompt_tokens, results.hit_tokens,
                  Percent(results.hit_tokens, results.prompt_tokens)));
  lines.emplace_back(
      "blocks",
      fmt::format("{}, of them {} hit: {}; {} replaced", results.blocks_total, results.blocks_hit,
                  Percent(results.blocks_hit, results.blocks_total), results.replaced_blocks));
  if (run.mode == Mode::kServe) AddServeLines(results, lines);
  std::string text = ParamsLine(run) + "\n\n";
  for (const auto& [name, value] : lines) text += fmt::format("{:<15}{}\n", name, value);
  if (run.mode == Mode::kServe && results.requests > 0) text += "\n" + LatencyTable(results);
  const bool has_misses = std::ranges::any_of(results.misses, [](auto count) { return count > 0; });
  if (has_misses) text += "\n" + MissTable(results);
  return text;
}

// --- Several ---

std::vector<std::string> RowOf(const Run& run) {
  const Results& results = run.results;
  std::vector<std::string> row;
  for (const auto& [name, value] : run.setting.items()) row.push_back(ShownValue(value));
  row.push_back(Percent(results.hit_tokens, results.prompt_tokens));
  row.push_back(Percent(results.blocks_hit, results.blocks_total));
  if (run.mode == Mode::kCache) {
    row.push_back(fmt::format("{}", results.replaced_blocks));
    return row;
  }
  row.push_back(fmt::format("{:.1f}", results.ttft.mean_ns() / 1e6));
  row.push_back(fmt::format("{:.1f}", Ms(results.ttft.PercentileNs(0.99))));
  row.push_back(fmt::format("{:.2f}", results.itl.mean_ns() / 1e6));
  row.push_back(fmt::format("{:.1f}", PerSecond(results, results.output_tokens)));
  row.push_back(fmt::format("{}", results.preemptions()));
  row.push_back(fmt::format("{}", results.refused + results.too_long));
  return row;
}

std::vector<std::string> HeadOf(const Run& run) {
  std::vector<std::string> head;
  for (const auto& [name, value] : run.setting.items()) head.push_back(name);
  head.insert(head.end(), {"hit tokens", "hit blocks"});
  if (run.mode == Mode::kCache) {
    head.emplace_back("replaced");
  } else {
    head.insert(head.end(),
                {"TTFT mean ms", "p99", "ITL mean ms", "tokens/s", "preemptions", "not served"});
  }
  return head;
}

// --- CSV ---

void Flatten(const ReportJson& value, const std::string& name,
             std::vector<std::pair<std::string, std::string>>& cells) {
  if (!value.is_object()) {
    std::string text = ShownValue(value);
    if (text.find_first_of(",\"\n\r") != std::string::npos) {
      std::string quoted = "\"";
      for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
      text = quoted + "\"";
    }
    cells.emplace_back(name, std::move(text));
    return;
  }
  for (const auto& [key, part] : value.items()) {
    Flatten(part, name.empty() ? key : fmt::format("{}.{}", name, key), cells);
  }
}

}  // namespace

std::vector<std::vector<std::string>> SweepTable(std::span<const Run> runs) {
  std::vector<std::vector<std::string>> rows = {HeadOf(runs[0])};
  for (const Run& run : runs) rows.push_back(RowOf(run));
  return rows;
}

std::string TextReport(std::span<const Run> runs) {
  if (runs.size() == 1) return OneRun(runs[0]);
  std::string text;
  for (const auto& [name, value] : runs[0].params.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ShownValue(value));
  }
  TextTable table;
  for (std::vector<std::string>& row : SweepTable(runs)) table.Add(std::move(row));
  return text + "\n\n" + table.Text();
}

std::string CsvReport(std::span<const Run> runs) {
  std::string text;
  for (const Run& run : runs) {
    std::vector<std::pair<std::string, std::string>> cells;
    Flatten(JsonOf(run), "", cells);
    if (text.empty()) {
      for (const auto& [name, value] : cells)
        text += fmt::format("{}{}", text.empty() ? "" : ",", name);
      text += '\n';
    }
    std::string row;
    for (const auto& [name, value] : cells)
      row += fmt::format("{}{}", row.empty() ? "" : ",", value);
    text += row + '\n';
  }
  return text;
}

}  // namespace ashlar::simulate
