#include "load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "load/figures.h"

namespace ashlar::load {
namespace {

ReportJson Row(std::string_view name, const RunInfo& info) {
  return {{"name", fmt::format("serve/{}", name)}, {"params", info.params}};
}

ReportJson SummaryRow(const RunInfo& info, const Results& results) {
  const Results::Totals& totals = results.totals();
  const Rates rates = RatesOf(info, results);
  ReportJson row = Row("summary", info);
  row["requests"] = totals.completed + totals.failed;
  row["completed"] = totals.completed;
  row["failed"] = totals.failed;
  row["skipped"] = results.skipped();
  row["is_interrupted"] = info.is_interrupted;
  row["duration_s"] = info.duration_s;
  row["requests_per_s"] = rates.requests_per_s;
  row["prompt_tokens"] = totals.prompt_tokens;
  row["cached_tokens"] =
      results.says_cached() ? ReportJson(totals.cached_tokens) : ReportJson(nullptr);
  row["completion_tokens"] = totals.completion_tokens;
  row["has_usage"] = results.says_usage();
  row["prompt_tokens_per_s"] = rates.prompt_tokens_per_s;
  row["completion_tokens_per_s"] = rates.completion_tokens_per_s;
  row["tokens_per_piece"] = rates.tokens_per_piece;
  row["most_running"] = totals.most_running;
  if (HasTargets(results)) {
    row["target_ttft_ms"] = Ms(results.targets().ttft_ns);
    row["target_itl_ms"] = Ms(results.targets().itl_ns);
    row["good_requests"] = totals.good_requests;
    row["goodput_requests_per_s"] = rates.good_requests_per_s;
    row["goodput_tokens_per_s"] = rates.good_tokens_per_s;
  }
  return row;
}

}  // namespace

std::vector<ReportJson> JsonRows(const RunInfo& info, const Results& results) {
  std::vector<ReportJson> rows = {SummaryRow(info, results)};
  for (const Latency& latency : LatenciesOf(results)) {
    if (latency.histogram->count() == 0) continue;
    ReportJson row = Row(latency.name, info);
    row["count"] = latency.histogram->count();
    const auto values = ColumnsOf(*latency.histogram);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      row[fmt::format("{}_ms", kColumns[i])] = values[i];
    }
    rows.push_back(std::move(row));
  }
  for (const auto& [kind, failure] : results.failures()) {
    ReportJson row = Row("failure", info);
    row["kind"] = kind;
    row["count"] = failure.count;
    row["example"] = failure.example;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string TextReport(const RunInfo& info, const Results& results) {
  std::string text;
  for (const auto& [name, value] : SummaryLines(info, results)) {
    text += fmt::format("{:<18} {}\n", name, value);
  }
  if (results.totals().completed > 0) {
    text += fmt::format("\n{:<18}", "ms");
    for (const std::string_view column : kColumns) text += fmt::format("{:>10}", column);
    text += '\n';
  }
  for (const Latency& latency : LatenciesOf(results)) {
    if (latency.histogram->count() == 0) continue;
    text += fmt::format("{:<18}", latency.name);
    for (const double value : ColumnsOf(*latency.histogram))
      text += fmt::format("{:>10.2f}", value);
    text += '\n';
  }
  for (const auto& [kind, failure] : results.failures()) {
    text += fmt::format("\nfailed: {} x {}: {}", failure.count, kind, failure.example);
  }
  if (!results.failures().empty()) text += '\n';
  return text;
}

}  // namespace ashlar::load
