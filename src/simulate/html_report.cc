#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "plot/line_chart.h"
#include "plot/svg.h"
#include "simulate/figures.h"
#include "simulate/report.h"

namespace ashlar::simulate {
namespace {

using plot::Escape;

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ashlar simulate</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { text-align: right; padding: 0.2rem 0.8rem 0.2rem 0; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
pre { overflow-x: auto; }
svg { width: 100%; height: auto; margin: 1rem 0; }
</style>
</head>
<body>
<h1>ashlar simulate</h1>
)";

// A figure over capacity, a line for each series.
template <typename Figure>
std::string OverCapacity(std::span<const Run> runs, const plot::ChartText& text, Figure figure) {
  std::vector<plot::Line> lines;
  double least = 0;
  double most = 0;
  for (const Run& run : runs) {
    if (run.capacity == 0) continue;  // unlimited is nowhere on the axis
    least = least == 0 ? run.capacity : std::min(least, run.capacity);
    most = std::max(most, run.capacity);
    auto line = std::ranges::find(lines, run.series, &plot::Line::name);
    if (line == lines.end()) {
      if (lines.size() == plot::kMaxLines) continue;
      lines.push_back({.name = run.series, .points = {}});
      line = std::prev(lines.end());
    }
    line->points.push_back({.x = run.capacity, .y = figure(run.results)});
  }
  if (least == most) return "";
  for (plot::Line& line : lines) std::ranges::sort(line.points, {}, &plot::LinePoint::x);
  return plot::LineChart(lines, text, {.x = plot::Scale::kDoubling});
}

std::string CapacityName(std::span<const Run> runs) {
  return runs[0].setting.contains("blocks") ? "capacity in blocks" : "KV memory in MiB";
}

// --- One serve run ---

std::string LatencyPlot(const Results& results) {
  std::vector<plot::Line> lines;
  for (const Latency& latency : LatenciesOf(results)) {
    if (latency.histogram->count() == 0) continue;
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

std::string TimePlots(const Results& results) {
  const double bin_s = Seconds(results.timeline.bin_ns());
  plot::Line live = {.name = "live", .points = {}};
  plot::Line idle = {.name = "idle, known", .points = {}};
  plot::Line running = {.name = "running", .points = {}};
  plot::Line waiting = {.name = "waiting", .points = {}};
  constexpr double kMiB = 1 << 20;
  for (std::size_t i = 0; i < results.timeline.bins().size(); ++i) {
    const Timeline::Sample& sample = results.timeline.bins()[i];
    const double x = (static_cast<double>(i) + 0.5) * bin_s;
    live.points.push_back({x, static_cast<double>(sample.live_bytes) / kMiB});
    idle.points.push_back({x, static_cast<double>(sample.idle_bytes) / kMiB});
    running.points.push_back({x, static_cast<double>(sample.running)});
    waiting.points.push_back({x, static_cast<double>(sample.waiting)});
  }
  return plot::LineChart(std::vector<plot::Line>{std::move(live), std::move(idle)},
                         {.title = "KV memory", .x_name = "seconds", .y_name = "MiB"}, {}) +
         plot::LineChart(std::vector<plot::Line>{std::move(running), std::move(waiting)},
                         {.title = "Requests", .x_name = "seconds", .y_name = "sequences"}, {});
}

std::string Table(std::span<const Run> runs) {
  std::string html = "<table>\n";
  bool is_head = true;
  for (const auto& row : SweepTable(runs)) {
    html += "<tr>";
    for (const std::string& cell : row) {
      html += fmt::format("<{0}>{1}</{0}>", is_head ? "th" : "td", Escape(cell));
    }
    html += "</tr>\n";
    is_head = false;
  }
  return html + "</table>\n";
}

}  // namespace

std::string SweepPlot(std::span<const Run> runs) {
  const bool is_cache = runs[0].mode == Mode::kCache;
  return OverCapacity(runs,
                      {.title = "Hit rate",
                       .x_name = CapacityName(runs),
                       .y_name = is_cache ? "share of blocks" : "share of prompt tokens"},
                      [is_cache](const Results& results) {
                        return is_cache ? Share(results.blocks_hit, results.blocks_total)
                                        : Share(results.hit_tokens, results.prompt_tokens);
                      });
}

std::string HtmlReport(std::span<const Run> runs) {
  std::string html(kHead);
  html += fmt::format("<pre>{}</pre>\n", Escape(TextReport(runs)));
  if (runs.size() > 1) html += Table(runs);
  html += SweepPlot(runs);
  if (runs[0].mode == Mode::kServe && runs.size() > 1) {
    html +=
        OverCapacity(runs, {.title = "TTFT", .x_name = CapacityName(runs), .y_name = "mean, ms"},
                     [](const Results& results) { return results.ttft.mean_ns() / 1e6; });
    html += OverCapacity(
        runs, {.title = "Speed", .x_name = CapacityName(runs), .y_name = "output tokens/s"},
        [](const Results& results) { return PerSecond(results, results.output_tokens); });
  }
  if (runs.size() == 1 && runs[0].mode == Mode::kServe) {
    html += LatencyPlot(runs[0].results) + TimePlots(runs[0].results);
  }
  return html + "</body>\n</html>\n";
}

}  // namespace ashlar::simulate
