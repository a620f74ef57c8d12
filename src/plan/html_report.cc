#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_size.h"
#include "plan/report.h"
#include "plan/sections.h"
#include "plot/line_chart.h"
#include "plot/svg.h"

namespace ashlar::plan {
namespace {

constexpr std::size_t kLegendBytes = 20;  // of a codec's name, so that all names fit

constexpr std::string_view kPageStyle = R"(<style>
body { font: 14px/1.5 system-ui, sans-serif; color: #1f2328; background: #ffffff; max-width: 900px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 22px; }
h2 { font-size: 17px; margin-top: 2em; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #d1d9e0; padding: 3px 12px 3px 0; text-align: right; }
th:first-child, td:first-child { text-align: left; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
p { margin: 0.4em 0; }
@media (prefers-color-scheme: dark) {
body { color: #e6edf3; background: #0d1117; }
th, td { border-color: #3d444d; }
}
</style>
)";

std::string Table(const Section& section) {
  if (section.table.empty()) return "";
  std::string html = "<table>\n";
  for (std::size_t i = 0; i < section.table.size(); ++i) {
    const std::string_view cell = i == 0 && section.has_names ? "th" : "td";
    html += "<tr>";
    for (const std::string& text : section.table[i]) {
      html += fmt::format("<{}>{}</{}>", cell, plot::Escape(text), cell);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string Plot(const Plan& plan, SectionPlot kind) {
  if (kind == SectionPlot::kNone) return "";
  const bool is_frontier = kind == SectionPlot::kFrontier;
  std::vector<plot::Line> lines;
  for (const CodecRow& row : plan.codecs) {
    if (lines.size() == plot::kMaxLines) break;
    const std::vector<std::uint64_t>& values = is_frontier ? row.frontier : row.curve;
    plot::Line line = {.name = row.name.substr(0, kLegendBytes), .points = {}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double y = static_cast<double>(values[i]);
      line.points.push_back({.x = static_cast<double>(plan.contexts[i]),
                             .y = is_frontier ? y : y / static_cast<double>(kGiB)});
    }
    lines.push_back(std::move(line));
  }
  const std::uint64_t sequences = plan.options.workload.sequences;
  const plot::ChartText text = {
      .title = is_frontier ? fmt::format("Sequences at once in --kv-memory {}",
                                         FormatByteSize(*plan.arena_bytes))
                           : fmt::format("KV memory of {} sequence{}", FormatWithCommas(sequences),
                                         sequences == 1 ? "" : "s"),
      .x_name = "tokens of a sequence",
      .y_name = is_frontier ? "sequences" : "GiB"};
  return plot::LineChart(lines, text,
                         {.x = plot::Scale::kDoubling, .y = plot::Scale::kLogarithmic});
}

}  // namespace

std::string HtmlReport(const Plan& plan) {
  const std::vector<Section> sections = SectionsOf(plan);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n",
      plot::Escape(sections.front().title));
  html += kPageStyle;
  html += "</head>\n<body>\n";
  for (const Section& section : sections) {
    const std::string_view heading = &section == &sections.front() ? "h1" : "h2";
    html += fmt::format("<{}>{}</{}>\n", heading, plot::Escape(section.title), heading);
    html += Table(section);
    for (const std::string& line : section.lines) {
      html += fmt::format("<p>{}</p>\n", plot::Escape(line));
    }
    html += Plot(plan, section.plot);
  }
  return html + "</body>\n</html>\n";
}

}  // namespace ashlar::plan
