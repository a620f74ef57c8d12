#include "model/expert_choice.h"

#include <algorithm>
#include <limits>

#include "kernels/kernel_set.h"

namespace ashlar::model {
namespace {

using Gating = ExpertsConfig::Gating;

void Softmax(std::span<float> values) {
  const float max = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) sum += value = kernels::Exp(value - max);
  for (float& value : values) value /= sum;
}

float ScoreOf(std::span<const float> scores, const float* bias, std::uint32_t expert) {
  return bias == nullptr ? scores[expert] : scores[expert] + bias[expert];
}

// The sum of a group's two best.
float GroupScore(std::span<const float> scores, const float* bias, std::uint32_t first,
                 std::uint32_t size) {
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (std::uint32_t e = first; e < first + size; ++e) {
    const float score = ScoreOf(scores, bias, e);
    if (score > best) {
      second = best;
      best = score;
    } else if (score > second) {
      second = score;
    }
  }
  return best + second;
}

// Whether enough groups are better for this one to be left out.
bool IsLeftOut(const ExpertsConfig& config, std::span<const float> scores, const float* bias,
               std::uint32_t group) {
  const std::uint32_t size = config.count / config.groups;
  const float own = GroupScore(scores, bias, group * size, size);
  std::uint32_t better = 0;
  for (std::uint32_t g = 0; g < config.groups; ++g) {
    const float other = GroupScore(scores, bias, g * size, size);
    if (other > own || (other == own && g < group)) ++better;
  }
  return better >= config.used_groups;
}

// Inserts by score into the best so far.
void Choose(const ExpertsConfig& config, std::span<const float> scores, const float* bias,
            std::span<ExpertChoice> choices) {
  const std::uint32_t size = config.count / config.groups;
  std::size_t found = 0;
  for (std::uint32_t e = 0; e < config.count; ++e) {
    if (config.groups > 1) {
      if (e % size == 0 && IsLeftOut(config, scores, bias, e / size)) {
        e += size - 1;
        continue;
      }
    }
    const float score = ScoreOf(scores, bias, e);
    std::size_t at = found;
    while (at > 0 && choices[at - 1].weight < score) --at;
    if (at == choices.size()) continue;
    found = std::min(found + 1, choices.size());
    std::move_backward(choices.begin() + static_cast<std::ptrdiff_t>(at),
                       choices.begin() + static_cast<std::ptrdiff_t>(found) - 1,
                       choices.begin() + static_cast<std::ptrdiff_t>(found));
    choices[at] = {e, score};
  }
}

}  // namespace

void ChooseExperts(const ExpertsConfig& config, std::span<float> scores, const float* bias,
                   std::span<ExpertChoice> choices) {
  if (config.gating == Gating::kSoftmax) Softmax(scores);
  if (config.gating == Gating::kSigmoid) {
    for (float& score : scores) score = 1.0f / (1.0f + kernels::Exp(-score));
  }
  Choose(config, scores, bias, choices);
  float sum = 0;
  const float max = scores[choices[0].expert];
  for (ExpertChoice& choice : choices) {
    choice.weight = scores[choice.expert];
    if (config.gating == Gating::kSoftmaxOfUsed) choice.weight = kernels::Exp(choice.weight - max);
    sum += choice.weight;
  }
  const bool is_divided = config.is_normalised || config.gating == Gating::kSoftmaxOfUsed;
  for (ExpertChoice& choice : choices) {
    if (is_divided) choice.weight /= sum;
    choice.weight *= config.scale;
  }
}

}  // namespace ashlar::model
