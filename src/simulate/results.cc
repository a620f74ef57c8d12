#include "simulate/results.h"

#include <algorithm>

namespace ashlar::simulate {

void Timeline::Add(std::int64_t now_ns, const Sample& sample) {
  const auto merge = [](Sample& into, const Sample& from) {
    into = {.live_bytes = std::max(into.live_bytes, from.live_bytes),
            .idle_bytes = std::max(into.idle_bytes, from.idle_bytes),
            .running = std::max(into.running, from.running),
            .waiting = std::max(into.waiting, from.waiting)};
  };
  while (now_ns / bin_ns_ >= static_cast<std::int64_t>(kBins)) {
    bin_ns_ *= 2;
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      const Sample old = bins_[i];
      if (i % 2 == 0) {
        bins_[i / 2] = old;
      } else {
        merge(bins_[i / 2], old);
      }
    }
    bins_.resize((bins_.size() + 1) / 2);
  }
  const auto bin = static_cast<std::size_t>(now_ns / bin_ns_);
  if (bins_.size() <= bin) bins_.resize(bin + 1);
  merge(bins_[bin], sample);
}

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace ashlar::simulate
