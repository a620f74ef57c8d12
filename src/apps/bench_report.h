// How `ashlar bench` times and prints.
//
// A figure is the median of samples, each a batch of operations between two looks at the clock. A
// row names it and what it was measured with; with --json a row is one object on one line of
// stdout, otherwise one line of a table. Progress goes to stderr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ashlar::apps {

using BenchJson = nlohmann::ordered_json;

struct BenchRow {
  std::string name;
  BenchJson params = BenchJson::object();
  BenchJson figures = BenchJson::object();    // each with its unit last in its name
  std::optional<double> ratio_to_limit = {};  // where the limit was measured in the same run
};

class BenchReport {
 public:
  enum class Style { kTable, kJson };
  explicit BenchReport(Style style) : style_(style) {}
  Style style() const { return style_; }

  void Add(const BenchRow& row);
  // For the person who waits: a line on stderr, with a table only.
  void Progress(std::string_view text) const;

 private:
  Style style_;
};

class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  bool empty() const { return values_.empty(); }
  // Precondition: not empty. O(samples).
  double Median() const;

 private:
  std::vector<double> values_;
};

// Calls round() until `min_time_ms` have passed: three times at least, kMaxRounds at most. The
// first call warms up: is_warm is false in it, and what it measures should not be kept.
inline constexpr int kMaxRounds = 100'000;
template <typename Round>
void RepeatFor(std::int64_t min_time_ms, Round round) {
  const SteadyClock clock;
  round(false);
  const std::int64_t end = clock.NowNs() + min_time_ms * 1'000'000;
  for (int i = 0; i < kMaxRounds && (i < 3 || clock.NowNs() < end); ++i) round(true);
}

// ns of one load that depends on the load before it, at random places in `bytes` of memory: a chain
// through every cache line, in random order. What an operation that touches cold records cannot
// avoid.
double MeasureRandomAccessNs(std::uint64_t bytes, std::int64_t min_time_ms);

}  // namespace ashlar::apps
