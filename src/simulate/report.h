// What is said of runs: one, or a sweep over settings.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "simulate/results.h"

namespace ashlar::simulate {

using ReportJson = nlohmann::ordered_json;

enum class Mode : std::uint8_t { kServe, kCache };

struct Run {
  Mode mode = Mode::kServe;
  ReportJson params = ReportJson::object();   // of all runs
  ReportJson setting = ReportJson::object();  // what differs between them: names, values
  double capacity = 0;                        // the x axis of sweeps; 0: unlimited
  std::string series;                         // which line of a plot it is on
  Results results;
};

// One object: the run's settings and figures; units are last in names.
ReportJson JsonOf(const Run& run);
// For people: everything of one run, a row for each of several.
std::string TextReport(std::span<const Run> runs);
// A header, then a row for each run: as JsonOf, nested names joined by dots.
std::string CsvReport(std::span<const Run> runs);
std::string HtmlReport(std::span<const Run> runs);
// Hit rate over capacity, a line for each series; empty with fewer than two capacities.
std::string SweepPlot(std::span<const Run> runs);

}  // namespace ashlar::simulate
