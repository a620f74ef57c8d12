#include "load/pacer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::load {
namespace {

constexpr double kNsPerS = 1e9;
constexpr std::uint64_t kArrivalStream = 0x61727269;  // apart from the draws for texts

}  // namespace

Pacer::Pacer(PacerOptions options) : options_(std::move(options)) {
  ASHLAR_CHECK(options_.concurrency > 0, "nothing may run");
  ASHLAR_CHECK(
      options_.arrivals_ns.empty() || options_.arrivals_ns.size() == options_.conversations,
      "{} arrivals of {} conversations", options_.arrivals_ns.size(), options_.conversations);
  ASHLAR_CHECK(std::ranges::is_sorted(options_.arrivals_ns), "arrivals are not in order");
}

std::optional<Pacer::Start> Pacer::Begin(std::int64_t now_ns) {
  if (options_.end_ns.has_value() && now_ns >= *options_.end_ns) Stop();
  if (!has_more() || running_ >= options_.concurrency) return std::nullopt;
  const std::int64_t intended_ns =
      options_.arrivals_ns.empty() ? now_ns : options_.arrivals_ns[next_];
  if (intended_ns > now_ns) return std::nullopt;
  ++running_;
  return Start{.conversation = next_++, .intended_ns = intended_ns};
}

void Pacer::End() {
  ASHLAR_CHECK(running_ > 0, "no conversation runs");
  --running_;
}

std::optional<std::int64_t> Pacer::NextNs() const {
  if (!has_more() || running_ >= options_.concurrency) return std::nullopt;
  return options_.arrivals_ns.empty() ? 0 : options_.arrivals_ns[next_];
}

std::vector<std::int64_t> PoissonArrivals(double rate_per_s, std::size_t count,
                                          std::uint64_t seed) {
  ASHLAR_CHECK(rate_per_s > 0, "{} per second", rate_per_s);
  std::vector<std::int64_t> arrivals;
  arrivals.reserve(count);
  double at_s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    at_s -= std::log1p(-RandomUnit(seed, kArrivalStream, i)) / rate_per_s;
    arrivals.push_back(static_cast<std::int64_t>(at_s * kNsPerS));
  }
  return arrivals;
}

std::vector<std::int64_t> EvenArrivals(double rate_per_s, std::size_t count) {
  ASHLAR_CHECK(rate_per_s > 0, "{} per second", rate_per_s);
  std::vector<std::int64_t> arrivals;
  arrivals.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    arrivals.push_back(static_cast<std::int64_t>(static_cast<double>(i) / rate_per_s * kNsPerS));
  }
  return arrivals;
}

}  // namespace ashlar::load
