#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "load/figures.h"
#include "load/report.h"
#include "plot/line_chart.h"
#include "plot/span_chart.h"
#include "plot/svg.h"

namespace ashlar::load {
namespace {

using plot::Escape;

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ashlar bench serve</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; margin: 1rem 0; }
</style>
</head>
<body>
<h1>ashlar bench serve</h1>
)";

std::string ShownParam(const ReportJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string Tables(const RunInfo& info, const Results& results) {
  std::string html = "<table>\n";
  for (const auto& [name, value] : SummaryLines(info, results)) {
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", Escape(name), Escape(value));
  }
  html += "</table>\n<table>\n<tr><th>ms</th>";
  for (const std::string_view column : kColumns) html += fmt::format("<th>{}</th>", column);
  html += "<th></th></tr>\n";
  for (const Latency& latency : LatenciesOf(results)) {
    if (latency.histogram->count() == 0) continue;
    html += fmt::format("<tr><th>{}</th>", latency.name);
    for (const double value : ColumnsOf(*latency.histogram)) {
      html += fmt::format("<td class=\"number\">{:.2f}</td>", value);
    }
    html += fmt::format("<td>{}</td></tr>\n", latency.meaning);
  }
  html += "</table>\n";
  if (!results.failures().empty()) html += "<h2>Failures</h2>\n<table>\n";
  for (const auto& [kind, failure] : results.failures()) {
    html += fmt::format("<tr><th>{}</th><td class=\"number\">{}</td><td>{}</td></tr>\n",
                        Escape(kind), failure.count, Escape(failure.example));
  }
  return html + (results.failures().empty() ? "" : "</table>\n");
}

std::string LatencyPlot(const Results& results) {
  std::vector<plot::Line> lines;
  for (const Latency& latency : LatenciesOf(results)) {
    if (lines.size() == plot::kMaxLines || latency.histogram->count() == 0) continue;
    plot::Line line = {.name = std::string(latency.name), .points = {}};
    for (const LatencyHistogram::Step& step : latency.histogram->Distribution()) {
      line.points.push_back({.x = Ms(step.ns), .y = step.share});
    }
    lines.push_back(std::move(line));
  }
  return plot::LineChart(
      lines, {.title = "Latencies", .x_name = "ms", .y_name = "share that took no longer"},
      {.x = plot::Scale::kLogarithmic});
}

std::string SpeedPlot(const RunInfo& info, const Results& results) {
  const double bin_s = static_cast<double>(results.timeline().bin_ns()) / 1e9;
  const double tokens_per_piece = RatesOf(info, results).tokens_per_piece;
  const auto& bins = results.timeline().bins();
  // Bins are narrow, for runs of any length: some hundred values are shown.
  const std::size_t width = bins.size() / 200 + 1;
  plot::Line line = {.name = "completion tokens", .points = {}};
  for (std::size_t i = 0; i < bins.size(); i += width) {
    std::uint64_t pieces = 0;
    for (std::size_t j = i; j < std::min(i + width, bins.size()); ++j) pieces += bins[j];
    const double seconds = bin_s * static_cast<double>(width);
    line.points.push_back({.x = (static_cast<double>(i) + 0.5 * static_cast<double>(width)) * bin_s,
                           .y = static_cast<double>(pieces) * tokens_per_piece / seconds});
  }
  return plot::LineChart(std::vector<plot::Line>{std::move(line)},
                         {.title = "Speed", .x_name = "seconds", .y_name = "tokens/s"}, {});
}

std::string RequestPlot(const Results& results) {
  std::vector<RequestRecord> records = results.records();
  std::ranges::stable_sort(records, {}, &RequestRecord::intended_ns);
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
  std::vector<plot::SpanRow> rows;
  rows.reserve(records.size());
  for (const RequestRecord& record : records) {
    const double sent_s = seconds(record.sent_ns);
    plot::SpanRow row = {{seconds(record.intended_ns), sent_s, plot::Colour::kThird}};
    if (record.is_ok) {
      row.push_back({sent_s, seconds(record.first_ns), plot::Colour::kSecond});
      row.push_back({seconds(record.first_ns), seconds(record.end_ns), plot::Colour::kFirst});
    } else {
      row.push_back({sent_s, seconds(record.end_ns), plot::Colour::kFourth});
    }
    rows.push_back(std::move(row));
  }
  return plot::SpanChart(
      rows, {.title = "Requests",
             .y_name = "requests, by their start",
             .colours = {"text comes", "waits for the first", "not sent yet", "failed"}});
}

}  // namespace

std::string HtmlReport(const RunInfo& info, const Results& results) {
  std::string html(kHead);
  html += "<table>\n";
  for (const auto& [name, value] : info.params.items()) {
    html +=
        fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", Escape(name), Escape(ShownParam(value)));
  }
  html += "</table>\n" + Tables(info, results);
  html += LatencyPlot(results) + RequestPlot(results) + SpeedPlot(info, results);
  return html + "</body>\n</html>\n";
}

}  // namespace ashlar::load
