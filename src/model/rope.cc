#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace ashlar::model {
namespace {

// The channel whose wavelength turns `rotations` times over the original context (YaRN,
// section 3.2).
double CorrectionChannel(const ModelConfig& config, double rotations) {
  return config.rope_dims *
         std::log(config.rope_scaling.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.rope_base));
}

// 1 where YaRN keeps the trained frequency, 0 where it interpolates.
double ExtrapolatedShare(const ModelConfig& config, std::size_t pair) {
  const double last = config.rope_dims - 1.0;
  const double low =
      std::clamp(std::floor(CorrectionChannel(config, config.rope_scaling.beta_fast)), 0.0, last);
  const double high =
      std::clamp(std::ceil(CorrectionChannel(config, config.rope_scaling.beta_slow)), 0.0, last);
  const double ramp = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

Rope::Rope(const ModelConfig& config, std::span<const float> divisors) {
  const std::size_t pairs = config.rope_dims / 2;
  ASHLAR_CHECK(divisors.empty() || divisors.size() == pairs, "{} divisors for {} pairs",
               divisors.size(), pairs);
  const RopeScaling& scaling = config.rope_scaling;
  frequencies_.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(config.rope_base, -2.0 * static_cast<double>(i) / config.rope_dims);
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
    if (scaling.kind == RopeScaling::Kind::kLinear) {
      frequency /= scaling.factor;
    } else if (scaling.kind == RopeScaling::Kind::kYarn) {
      const double share = ExtrapolatedShare(config, i);
      frequency = frequency * share + frequency / scaling.factor * (1.0 - share);
    }
    frequencies_[i] = frequency;
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    magnitude_ = scaling.attention_factor * (1.0 + 0.1 * std::log(scaling.factor));
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
