// What all reports say of a run, in the units they say it in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load/report.h"
#include "load/results.h"

namespace ashlar::load {

constexpr double Ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

struct Rates {
  double requests_per_s = 0;
  double prompt_tokens_per_s = 0;
  double completion_tokens_per_s = 0;
  double good_requests_per_s = 0;
  double good_tokens_per_s = 0;
  double tokens_per_piece = 0;  // above 1 where the server sends several at once
};
Rates RatesOf(const RunInfo& info, const Results& results);

bool HasTargets(const Results& results);

struct Latency {
  std::string_view name;
  std::string_view meaning;
  const LatencyHistogram* histogram;
};
std::array<Latency, 5> LatenciesOf(const Results& results);

inline constexpr std::array<std::string_view, 6> kColumns = {"mean", "p50", "p90",
                                                             "p95",  "p99", "max"};
std::array<double, kColumns.size()> ColumnsOf(const LatencyHistogram& histogram);  // ms

// Names and values, for people.
std::vector<std::pair<std::string, std::string>> SummaryLines(const RunInfo& info,
                                                              const Results& results);

}  // namespace ashlar::load
