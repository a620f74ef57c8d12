#include "base/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ashlar {

std::size_t LatencyHistogram::BucketOf(std::uint64_t ns) {
  const auto bits = static_cast<unsigned>(std::bit_width(ns));
  const unsigned shift = bits > kBits + 1 ? bits - (kBits + 1) : 0;
  return (std::size_t{shift} << kBits) + static_cast<std::size_t>(ns >> shift);
}

std::int64_t LatencyHistogram::MiddleOf(std::size_t bucket) const {
  const std::size_t octave = bucket >> kBits;
  const std::size_t shift = octave > 1 ? octave - 1 : 0;
  const std::int64_t low = static_cast<std::int64_t>(bucket - (shift << kBits)) << shift;
  return std::clamp(low + ((std::int64_t{1} << shift) >> 1), min_ns_, max_ns_);
}

void LatencyHistogram::Add(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  ++buckets_[BucketOf(static_cast<std::uint64_t>(ns))];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  ++count_;
  sum_ns_ += static_cast<double>(ns);
}

std::int64_t LatencyHistogram::PercentileNs(double share) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (buckets_[i] > 0 && seen >= rank) return MiddleOf(i);
  }
  return max_ns_;
}

std::vector<LatencyHistogram::Step> LatencyHistogram::Distribution() const {
  std::vector<Step> steps;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (buckets_[i] == 0) continue;
    seen += buckets_[i];
    steps.push_back(
        {.ns = MiddleOf(i), .share = static_cast<double>(seen) / static_cast<double>(count_)});
  }
  return steps;
}

}  // namespace ashlar
