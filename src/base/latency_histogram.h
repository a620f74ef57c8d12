// A distribution of times in fixed memory (57 KiB), however many are added. Buckets grow with the
// time: a percentile is within 1/256 of the one of a sorted list; count, mean, least and largest
// are exact (the mean up to f64).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar {

class LatencyHistogram {
 public:
  // Times below 0 count as 0. O(1).
  void Add(std::int64_t ns);

  std::uint64_t count() const { return count_; }
  // 0 when empty, like all below.
  double mean_ns() const { return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_); }
  std::int64_t max_ns() const { return max_ns_; }

  // The least time that at least `share` of all do not exceed. `share` in [0, 1]. O(buckets).
  std::int64_t PercentileNs(double share) const;

  struct Step {
    std::int64_t ns = 0;
    double share = 0;  // of all times, that are at most this long
  };
  // One for each bucket that has any, by time.
  std::vector<Step> Distribution() const;

 private:
  // 2^kBits buckets for times from 2^n to 2^(n+1); below 2^(kBits+1) one for each ns.
  static constexpr unsigned kBits = 7;
  static constexpr std::size_t kBuckets = (std::size_t{63 - kBits} << kBits) + (1U << kBits);

  static std::size_t BucketOf(std::uint64_t ns);
  // The middle of a bucket, within what was added.
  std::int64_t MiddleOf(std::size_t bucket) const;

  std::array<std::uint64_t, kBuckets> buckets_ = {};
  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
  std::int64_t min_ns_ = 0;
  std::int64_t max_ns_ = 0;
};

}  // namespace ashlar
