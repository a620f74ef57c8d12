#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace ashlar::model {
namespace {

// Tokens this far below the largest logit (after temperature) have less than e^-40 = 4e-18 of its
// probability: less than a double resolves in the sum. Leaving them out makes sampling fast.
constexpr double kNegligible = 40.0;

// Total order: likelier first, lower id among equals.
template <typename Entry>
bool IsLikelier(const Entry& a, const Entry& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

Error OutOfRange(std::string_view field, double value, std::string_view range) {
  return MakeError(ErrorCode::kInvalidArgument, "{} is {}; it must be {}", field, value, range);
}

}  // namespace

Status Validate(const SamplingParams& params, std::size_t vocab_size) {
  // Written so that NaN fails every test.
  const auto in = [](double value, double low, double high) {
    return value >= low && value <= high;
  };
  if (!in(params.temperature, 0, 100)) {
    return OutOfRange("temperature", params.temperature, "0 to 100");
  }
  if (!(params.top_p > 0) || !in(params.top_p, 0, 1)) {
    return OutOfRange("top_p", params.top_p, "above 0 and at most 1");
  }
  if (!in(params.min_p, 0, 1)) return OutOfRange("min_p", params.min_p, "0 to 1");
  if (!(params.repetition_penalty > 0) || !in(params.repetition_penalty, 0, 100)) {
    return OutOfRange("repetition_penalty", params.repetition_penalty, "above 0 and at most 100");
  }
  if (!in(params.presence_penalty, -2, 2)) {
    return OutOfRange("presence_penalty", params.presence_penalty, "-2 to 2");
  }
  if (!in(params.frequency_penalty, -2, 2)) {
    return OutOfRange("frequency_penalty", params.frequency_penalty, "-2 to 2");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
      return OutOfRange("a token of logit_bias", token, fmt::format("0 to {}", vocab_size - 1));
    }
    if (!in(bias, -100, 100)) return OutOfRange("a bias of logit_bias", bias, "-100 to 100");
  }
  return {};
}

TokenHistory::TokenHistory(std::span<const TokenId> prompt) {
  for (const TokenId token : prompt) counts_[token].in_prompt = true;
}

void TokenHistory::Add(TokenId generated) { ++counts_[generated].generated; }

Sampler::Sampler(std::size_t vocab_size) : adjusted_(vocab_size) {
  candidates_.reserve(vocab_size);
  weights_.reserve(vocab_size);
}

TokenId Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                        const TokenHistory& history, std::uint64_t position) {
  const bool is_adjusted = !params.logit_bias.empty() || params.repetition_penalty != 1.0 ||
                           params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
  if (params.temperature == 0.0 && !is_adjusted) return ArgMax(logits);
  AdjustLogits(logits, params, history);
  if (params.temperature == 0.0) return ArgMax(adjusted_);
  return Draw(params, position);
}

void Sampler::AdjustLogits(std::span<const float> logits, const SamplingParams& params,
                           const TokenHistory& history) {
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [token, bias] : params.logit_bias) {
    adjusted_[static_cast<std::size_t>(token)] += bias;
  }
  const auto repetition = static_cast<float>(params.repetition_penalty);
  for (const auto& [token, counts] : history.counts()) {
    float& logit = adjusted_[static_cast<std::size_t>(token)];
    if (repetition != 1.0f) logit = logit > 0 ? logit / repetition : logit * repetition;
    if (counts.generated > 0) {
      logit -= static_cast<float>(params.presence_penalty +
                                  params.frequency_penalty * static_cast<double>(counts.generated));
    }
  }
}

TokenId Sampler::Draw(const SamplingParams& params, std::uint64_t position) {
  const float best = adjusted_[static_cast<std::size_t>(ArgMax(adjusted_))];
  if (!(best > -std::numeric_limits<float>::infinity())) return 0;
  const double temperature = params.temperature;
  candidates_.clear();
  const float floor_logit =
      static_cast<float>(static_cast<double>(best) - kNegligible * temperature);
  for (std::size_t i = 0; i < adjusted_.size(); ++i) {
    if (adjusted_[i] >= floor_logit) candidates_.push_back({adjusted_[i], static_cast<TokenId>(i)});
  }
  const bool needs_order = params.top_k > 0 || params.top_p < 1.0 || params.min_p > 0.0;
  if (needs_order) {
    const std::size_t keep = params.top_k > 0
                                 ? std::min<std::size_t>(params.top_k, candidates_.size())
                                 : candidates_.size();
    const auto keep_end = candidates_.begin() + static_cast<std::ptrdiff_t>(keep);
    std::partial_sort(candidates_.begin(), keep_end, candidates_.end(), IsLikelier<Candidate>);
    candidates_.erase(keep_end, candidates_.end());
  }
  weights_.clear();
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(std::exp((static_cast<double>(candidate.logit) - best) / temperature));
    sum += weights_.back();
  }
  if (needs_order) {
    std::size_t keep = weights_.size();
    if (params.top_p < 1.0) {
      double mass = 0;
      keep = 0;
      while (keep < weights_.size() && mass < params.top_p * sum) mass += weights_[keep++];
      keep = std::max<std::size_t>(keep, 1);
    }
    // weights_[0] is 1, the likeliest token's.
    while (keep > 1 && weights_[keep - 1] < params.min_p) --keep;
    weights_.resize(keep);
    sum = 0;
    for (const double weight : weights_) sum += weight;
  }
  double rest = RandomUnit(params.seed, /*stream=*/0, position) * sum;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    rest -= weights_[i];
    if (rest < 0) return candidates_[i].token;
  }
  return candidates_[weights_.size() - 1].token;  // rounding left a crumb
}

TokenId ArgMax(std::span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) best = logit > best ? logit : best;
  if (best == -std::numeric_limits<float>::infinity()) return 0;
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

double LogSumExp(std::span<const float> logits) {
  const double best = static_cast<double>(logits[static_cast<std::size_t>(ArgMax(logits))]);
  if (!std::isfinite(best)) return best;
  double sum = 0;
  for (const float logit : logits) {
    if (logit > -std::numeric_limits<float>::infinity()) sum += std::exp(logit - best);
  }
  return best + std::log(sum);
}

std::vector<std::pair<TokenId, float>> TopLogprobs(std::span<const float> logits, std::size_t count,
                                                   double log_sum) {
  struct Entry {
    float logit;
    TokenId token;
  };
  std::vector<Entry> heap;  // the `count` likeliest so far, least likely at the front
  count = std::min(count, logits.size());
  heap.reserve(count + 1);
  for (std::size_t i = 0; count > 0 && i < logits.size(); ++i) {
    const Entry entry = {logits[i], static_cast<TokenId>(i)};
    if (std::isnan(entry.logit)) continue;
    if (heap.size() == count && !IsLikelier(entry, heap.front())) continue;
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end(), IsLikelier<Entry>);
    if (heap.size() > count) {
      std::pop_heap(heap.begin(), heap.end(), IsLikelier<Entry>);
      heap.pop_back();
    }
  }
  std::sort_heap(heap.begin(), heap.end(), IsLikelier<Entry>);
  std::vector<std::pair<TokenId, float>> top;
  top.reserve(heap.size());
  for (const Entry& entry : heap) {
    top.emplace_back(entry.token, static_cast<float>(static_cast<double>(entry.logit) - log_sum));
  }
  return top;
}

}  // namespace ashlar::model
