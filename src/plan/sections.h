// What a plan has to say to people, in order: the same on a terminal and on a page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace ashlar::plan {

enum class SectionPlot : std::uint8_t { kNone, kMemoryByContext, kFrontier };

struct Section {
  std::string title;
  // The first row names the columns where `has_names`; the first column is text, the others mostly
  // numbers.
  std::vector<std::vector<std::string>> table = {};
  bool has_names = false;
  std::vector<std::string> lines = {};
  SectionPlot plot = SectionPlot::kNone;  // drawn where there is room for it
};

std::vector<Section> SectionsOf(const Plan& plan);

}  // namespace ashlar::plan
