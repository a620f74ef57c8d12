#include "model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"

namespace ashlar::model {
namespace {

// Its inverse is finite in f32; what is colder draws alike.
constexpr double kLowestTemperature = 1e-30;

// For top_k, tokens are looked at a stretch at a time: so many stretches for each token kept (with
// 4 and 16 the same choice takes as long), none shorter than pays (one vector of AVX-512).
constexpr std::size_t kStretchesPerToken = 8;
constexpr std::size_t kLeastStretch = 16;

// Logits whose exponentials are summed at a time: they stay in the level 1 cache.
constexpr std::size_t kTermsAtOnce = 1024;

// Total order: likelier first, lower id among equals.
template <typename Entry>
bool IsLikelier(const Entry& a, const Entry& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

template <typename Entries>
double WeightOf(const Entries& candidates) {
  double sum = 0;
  for (const auto& candidate : candidates) sum += static_cast<double>(candidate.weight);
  return sum;
}

// The first entry with which the weights so far exceed `rest`; the number of entries when rounding
// left a crumb.
template <typename Entry, typename Weight>
std::size_t PickAt(double rest, const std::vector<Entry>& entries, Weight weight) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    rest -= static_cast<double>(weight(entries[i]));
    if (rest < 0) return i;
  }
  return entries.size();
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
  if (!in(params.repetition_penalty, 0.01, 100)) {
    return OutOfRange("repetition_penalty", params.repetition_penalty, "0.01 to 100");
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

Sampler::Sampler(std::size_t vocab_size, const kernels::KernelSet& kernels)
    : kernels_(kernels), adjusted_(vocab_size), weights_(vocab_size) {
  candidates_.reserve(vocab_size);
  selection_.reserve(vocab_size);
  stretch_max_.reserve(vocab_size / kLeastStretch);
}

TokenId Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                        const TokenHistory& history, std::uint64_t position) {
  const bool is_adjusted = !params.logit_bias.empty() || params.repetition_penalty != 1.0 ||
                           params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
  if (params.temperature == 0.0 && !is_adjusted) return ArgMax(kernels_, logits);
  AdjustLogits(logits, params, history);
  if (params.temperature == 0.0) return ArgMax(kernels_, adjusted_);
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
  const TokenId likeliest = ArgMax(kernels_, adjusted_);
  const float best = adjusted_[static_cast<std::size_t>(likeliest)];
  if (!std::isfinite(best)) return likeliest;
  const double factor = 1.0 / std::max(params.temperature, kLowestTemperature);
  const double sum = kernels_.softmax_terms(adjusted_.data(), best, static_cast<float>(factor),
                                            adjusted_.size(), weights_.data());
  const double at = RandomUnit(params.seed, /*stream=*/0, position);
  if (params.top_k == 0 && params.top_p == 1.0 && params.min_p == 0.0) {
    const std::size_t token = PickAt(at * sum, weights_, std::identity());
    return token < weights_.size() ? static_cast<TokenId>(token) : likeliest;
  }
  const double left = Cut(params, sum);
  const std::size_t i = PickAt(at * left, candidates_, std::mem_fn(&Candidate::weight));
  return i < candidates_.size() ? candidates_[i].token : likeliest;
}

// Leaves in candidates_ what top_k, then top_p, then min_p keep, and returns its weight; `sum`: of
// all tokens.
double Sampler::Cut(const SamplingParams& params, double sum) {
  const bool has_top_p = params.top_p < 1.0;
  const float least_logit = LogitThatManyReach(params.top_k);
  double least_weight = 0;
  if (params.top_k == 0) {
    // Tokens lighter than the average of what top_p leaves out are less than all of it together.
    // (A half: room for rounding.)
    const auto tokens = static_cast<double>(weights_.size());
    least_weight = has_top_p ? (1.0 - params.top_p) * sum / tokens / 2 : params.min_p;
  }
  candidates_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0.0f || adjusted_[i] < least_logit) continue;
    if (static_cast<double>(weights_[i]) < least_weight) continue;
    candidates_.push_back({adjusted_[i], static_cast<TokenId>(i), weights_[i]});
  }
  if (params.top_k > 0) {
    KeepTopK(params.top_k);
    sum = WeightOf(candidates_);
  }
  if (has_top_p) KeepTopP(params.top_p * sum);
  if (params.min_p > 0) {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return static_cast<double>(candidate.weight) < params.min_p;
    });
  }
  return WeightOf(candidates_);
}

// A logit that at least `count` tokens reach, since in `count` stretches one does; -infinity where
// that says nothing.
float Sampler::LogitThatManyReach(std::size_t count) {
  const std::size_t stretch = count == 0 ? 0 : weights_.size() / kStretchesPerToken / count;
  if (stretch < kLeastStretch) return -std::numeric_limits<float>::infinity();
  stretch_max_.clear();
  for (std::size_t i = 0; i + stretch <= adjusted_.size(); i += stretch) {
    stretch_max_.push_back(kernels_.max_of(adjusted_.data() + i, stretch));
  }
  const auto last = stretch_max_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(stretch_max_.begin(), last, stretch_max_.end(), std::greater());
  return *last;
}

void Sampler::KeepTopK(std::size_t count) {
  if (count >= candidates_.size()) return;
  selection_ = candidates_;
  const auto last = selection_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(selection_.begin(), last, selection_.end(), IsLikelier<Candidate>);
  KeepDownTo(*last);
}

// Keeps the fewest candidates, likeliest first, that weigh `mass` together.
void Sampler::KeepTopP(double mass) {
  selection_ = candidates_;
  // The last of them is one of these; those before them weigh what `mass` has lost.
  std::span<Candidate> range = selection_;
  while (range.size() > 1) {
    const std::span<Candidate> likelier = range.first(range.size() / 2);
    const auto middle = range.begin() + static_cast<std::ptrdiff_t>(likelier.size());
    std::nth_element(range.begin(), middle, range.end(), IsLikelier<Candidate>);
    const double weight = WeightOf(likelier);
    if (weight >= mass) {
      range = likelier;
    } else {
      mass -= weight;
      range = range.subspan(likelier.size());
    }
  }
  if (!range.empty()) KeepDownTo(range.front());
}

void Sampler::KeepDownTo(const Candidate& last) {
  std::erase_if(candidates_,
                [&](const Candidate& candidate) { return IsLikelier(last, candidate); });
}

TokenId ArgMax(const kernels::KernelSet& kernels, std::span<const float> logits) {
  const float best = kernels.max_of(logits.data(), logits.size());
  if (best == -std::numeric_limits<float>::infinity()) return 0;
  return static_cast<TokenId>(std::ranges::find(logits, best) - logits.begin());
}

double LogSumExp(const kernels::KernelSet& kernels, std::span<const float> logits) {
  const float best = kernels.max_of(logits.data(), logits.size());
  if (!std::isfinite(best)) return static_cast<double>(best);
  std::array<float, kTermsAtOnce> terms;
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); i += kTermsAtOnce) {
    sum += kernels.softmax_terms(logits.data() + i, best, 1.0f,
                                 std::min(kTermsAtOnce, logits.size() - i), terms.data());
  }
  return static_cast<double>(best) + std::log(sum);
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
