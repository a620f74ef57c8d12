#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace ashlar::model {
namespace {

// The channel whose wavelength turns `rotations` times over the original context (YaRN,
// section 3.2).
double CorrectionChannel(const RopeSpec& spec, std::uint32_t dims, double rotations) {
  return dims * std::log(spec.scaling.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.base));
}

// 1 where YaRN keeps the trained frequency, 0 where it interpolates.
double ExtrapolatedShare(const RopeSpec& spec, std::uint32_t dims, std::size_t pair) {
  const double last = dims - 1.0;
  double low = CorrectionChannel(spec, dims, spec.scaling.beta_fast);
  double high = CorrectionChannel(spec, dims, spec.scaling.beta_slow);
  if (spec.scaling.is_rounded) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::clamp(low, 0.0, last);
  high = std::clamp(high, 0.0, last);
  const double ramp = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

Rope::Rope(const RopeSpec& spec, std::uint32_t dims, std::span<const float> divisors)
    : frequencies_(dims / 2), magnitude_(spec.scaling.magnitude) {
  const std::size_t pairs = frequencies_.size();
  ASHLAR_CHECK(divisors.empty() || divisors.size() == pairs, "{} divisors for {} pairs",
               divisors.size(), pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(spec.base, -2.0 * static_cast<double>(i) / dims);
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
    if (spec.scaling.kind == RopeScaling::Kind::kLinear) {
      frequency /= spec.scaling.factor;
    } else if (spec.scaling.kind == RopeScaling::Kind::kYarn) {
      const double share = ExtrapolatedShare(spec, dims, i);
      frequency = frequency * share + frequency / spec.scaling.factor * (1.0 - share);
    }
    frequencies_[i] = frequency;
  }
}

void Rope::Angles(std::uint64_t position, float* cosine, float* sine) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    cosine[i] = static_cast<float>(std::cos(angle) * magnitude_);
    sine[i] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace ashlar::model
