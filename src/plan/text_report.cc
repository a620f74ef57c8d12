#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text_table.h"
#include "plan/report.h"
#include "plan/sections.h"

namespace ashlar::plan {

std::string TextReport(const Plan& plan) {
  std::string text;
  for (Section& section : SectionsOf(plan)) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", section.title);
    TextTable table;
    for (std::vector<std::string>& row : section.table) table.Add(std::move(row));
    text += table.Text("  ");
    for (const std::string& line : section.lines) text += fmt::format("  {}\n", line);
  }
  return text;
}

}  // namespace ashlar::plan
