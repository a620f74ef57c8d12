// Counts of values between fixed bounds, as Prometheus knows them: a value falls into the first
// bucket whose bound it does not exceed. A plain value that allocates nothing; one writer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace ashlar {

class Histogram {
 public:
  static constexpr std::size_t kMaxBounds = 32;

  // `bounds` rise; at most kMaxBounds. What exceeds the last has a bucket of its own.
  explicit Histogram(std::span<const double> bounds) : bounds_used_(bounds.size()) {
    ASHLAR_CHECK(bounds.size() <= kMaxBounds && std::ranges::is_sorted(bounds), "{} bounds",
                 bounds.size());
    std::ranges::copy(bounds, bounds_.begin());
  }

  void Observe(double value) { Observe(value, 1); }
  // The same value so many times.
  void Observe(double value, std::uint64_t times) {
    std::size_t bucket = 0;
    while (bucket < bounds_used_ && value > bounds_[bucket]) ++bucket;
    counts_[bucket] += times;
    count_ += times;
    sum_ += value * static_cast<double>(times);
  }

  std::span<const double> bounds() const { return {bounds_.data(), bounds_used_}; }
  // One more than bounds. Not cumulative.
  std::span<const std::uint64_t> counts() const { return {counts_.data(), bounds_used_ + 1}; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::size_t bounds_used_;
  std::array<double, kMaxBounds> bounds_ = {};
  std::array<std::uint64_t, kMaxBounds + 1> counts_ = {};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace ashlar
