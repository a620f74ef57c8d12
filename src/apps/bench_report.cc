#include "apps/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::apps {
namespace {

std::string ForPeople(const BenchJson& value) {
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

std::string Pairs(const BenchJson& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, ForPeople(value));
  }
  return text;
}

}  // namespace

void BenchReport::Add(const BenchRow& row) {
  if (style_ == Style::kJson) {
    BenchJson json = {{"name", row.name}, {"params", row.params}};
    json.update(row.figures);
    if (row.ratio_to_limit) json["ratio_to_limit"] = *row.ratio_to_limit;
    fmt::print("{}\n", json.dump());
  } else {
    std::string figures = Pairs(row.figures);
    if (row.ratio_to_limit) figures += fmt::format(", ratio_to_limit {:.3g}", *row.ratio_to_limit);
    fmt::print("{:<14} {:<48} {}\n", row.name, Pairs(row.params), figures);
  }
  std::fflush(stdout);
}

void BenchReport::Progress(std::string_view text) const {
  if (style_ == Style::kTable) fmt::print(stderr, "{}\n", text);
}

double Samples::Median() const {
  ASHLAR_CHECK(!values_.empty(), "the median of nothing");
  std::vector<double> values = values_;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MeasureRandomAccessNs(std::uint64_t bytes, std::int64_t min_time_ms) {
  struct alignas(64) Line {
    std::uint32_t next = 0;
  };
  constexpr std::uint32_t kLoads = 1024;  // between two looks at the clock
  const auto count = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes / sizeof(Line), 2, std::uint64_t{1} << 30));
  std::vector<Line> lines(count);
  for (std::uint32_t i = 0; i < count; ++i) lines[i].next = i;
  // Sattolo's shuffle: one cycle through all.
  for (std::uint32_t i = count - 1; i > 0; --i) {
    std::swap(lines[i].next, lines[RandomBits(7, 0, i) % i].next);
  }
  const SteadyClock clock;
  Samples samples;
  std::uint32_t at = 0;
  RepeatFor(min_time_ms, [&](bool is_warm) {
    // The warm-up loads what the caches can hold.
    for (std::uint32_t i = 0; !is_warm && i < count; ++i) at = lines[at].next;
    const std::int64_t start = clock.NowNs();
    for (std::uint32_t i = 0; i < kLoads; ++i) at = lines[at].next;
    const std::int64_t end = clock.NowNs();
    if (is_warm) samples.Add(static_cast<double>(end - start) / kLoads);
  });
  ASHLAR_CHECK(at < count, "{}", at);  // and the loads are not optimised away
  return samples.Median();
}

}  // namespace ashlar::apps
