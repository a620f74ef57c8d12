// What all reports say of a run, in the units they say it in.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/report.h"
#include "simulate/results.h"

namespace ashlar::simulate {

constexpr double Ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }
constexpr double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }
// Of the run's whole time; 0 without any.
double PerSecond(const Results& results, std::uint64_t count);

struct Latency {
  std::string_view name;
  std::string_view meaning;
  const LatencyHistogram* histogram;
};
std::array<Latency, 5> LatenciesOf(const Results& results);

inline constexpr std::array<std::string_view, 6> kColumns = {"mean", "p50", "p90",
                                                             "p95",  "p99", "max"};
std::array<double, kColumns.size()> ColumnsOf(const LatencyHistogram& histogram);  // ms

// A head and a row for each run: what differs, and the main figures. Precondition: there are runs.
std::vector<std::vector<std::string>> SweepTable(std::span<const Run> runs);

}  // namespace ashlar::simulate
