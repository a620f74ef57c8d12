#include "model/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "base/rng.h"

namespace ashlar::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const kernels::KernelSet& Kernels() { return kernels::KernelsFor(kernels::BestIsa()); }

TokenId SampleOnce(std::vector<float> logits, const SamplingParams& params,
                   const TokenHistory& history = TokenHistory({}), std::uint64_t position = 0) {
  Sampler sampler(logits.size(), Kernels());
  return sampler.Sample(logits, params, history, position);
}

// How often each token is drawn at positions 0 .. draws-1.
std::map<TokenId, int> Histogram(const std::vector<float>& logits, const SamplingParams& params,
                                 int draws) {
  Sampler sampler(logits.size(), Kernels());
  const TokenHistory history({});
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) {
    ++counts[sampler.Sample(logits, params, history, static_cast<std::uint64_t>(i))];
  }
  return counts;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  const SamplingParams greedy = {.temperature = 0};
  EXPECT_EQ(SampleOnce({1, 3, 2}, greedy), 1);
  EXPECT_EQ(SampleOnce({1, 3, 3}, greedy), 1);
  EXPECT_EQ(SampleOnce({kNan, 1, kNan, 2}, greedy), 3);
  EXPECT_EQ(SampleOnce({-kInfinity, -kInfinity}, greedy), 0);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f), -kInfinity};
  const auto counts = Histogram(logits, {.temperature = 1.0, .seed = 5}, 8000);
  EXPECT_NEAR(counts.at(0), 1000, 120);
  EXPECT_NEAR(counts.at(1), 2000, 160);
  EXPECT_NEAR(counts.at(2), 5000, 180);
  EXPECT_FALSE(counts.contains(3));
  // At temperature 1/2 the weights are squared: 1, 4, 25.
  const auto sharper = Histogram(logits, {.temperature = 0.5, .seed = 5}, 3000);
  EXPECT_NEAR(sharper.at(2), 2500, 90);
}

TEST(Sampler, ADrawIsAFunctionOfSeedAndPosition) {
  std::vector<float> logits(50, 0.0f);
  const SamplingParams params = {.temperature = 1.0, .seed = 42};
  std::vector<TokenId> forward, backward;
  forward.reserve(40);
  backward.reserve(40);
  Sampler sampler(logits.size(), Kernels());
  const TokenHistory history({});
  for (std::uint64_t p = 0; p < 40; ++p)
    forward.push_back(sampler.Sample(logits, params, history, p));
  for (std::uint64_t p = 40; p-- > 0;)
    backward.push_back(sampler.Sample(logits, params, history, p));
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  SamplingParams other = params;
  other.seed = 43;
  std::vector<TokenId> different;
  different.reserve(40);
  for (std::uint64_t p = 0; p < 40; ++p)
    different.push_back(sampler.Sample(logits, other, history, p));
  EXPECT_NE(forward, different);
}

TEST(Sampler, TopKTopPAndMinPKeepWhatTheySay) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.25f),
                                     std::log(0.15f)};
  const auto kept = [&](const SamplingParams& params) {
    std::vector<TokenId> tokens;
    for (const auto& [token, count] : Histogram(logits, params, 2000)) tokens.push_back(token);
    return tokens;
  };
  EXPECT_EQ(kept({}), (std::vector<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_k = 1}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept({.top_k = 3}), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(kept({.top_k = 99}), (std::vector<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_p = 0.49}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept({.top_p = 0.7}), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(kept({.top_p = 1e-9}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept({.min_p = 0.4}), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(kept({.min_p = 1.0}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept({.top_k = 3, .min_p = 0.4}), (std::vector<TokenId>{1, 2}));
}

// What the parameters keep, by sorting all tokens: (id, probability), in the order of ids. Empty
// when rounding decides where top_p or min_p cuts.
std::map<std::size_t, double> KeptOf(const std::vector<float>& logits,
                                     const SamplingParams& params) {
  constexpr double kClose = 1e-5;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return logits[i]; });
  if (params.top_k > 0) order.resize(std::min<std::size_t>(order.size(), params.top_k));
  std::vector<double> weights;
  double sum = 0;
  for (const std::size_t i : order) {
    weights.push_back(
        std::exp((static_cast<double>(logits[i]) - logits[order[0]]) / params.temperature));
    sum += weights.back();
  }
  double mass = 0;
  std::map<std::size_t, double> kept;
  for (std::size_t i = 0; i < order.size() && mass < params.top_p * sum; ++i) {
    mass += weights[i];
    if (params.top_p < 1 && std::abs(mass - params.top_p * sum) < kClose * sum) return {};
    const bool is_at_border = std::abs(weights[i] - params.min_p) < kClose;
    if (params.min_p > 0 && is_at_border && i > 0) return {};
    if (weights[i] >= params.min_p) kept[order[i]] = weights[i];
  }
  sum = 0;
  for (const auto& [token, weight] : kept) sum += weight;
  for (auto& [token, weight] : kept) weight /= sum;
  return kept;
}

TEST(Sampler, DrawsWhatSortingAllTokensWould) {
  std::mt19937 random(11);
  const auto one_of = [&](auto... values) {
    const double all[] = {static_cast<double>(values)...};
    return all[random() % std::size(all)];
  };
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits(1 + random() % 3000);
    std::normal_distribution<float> normal(0, static_cast<float>(one_of(0.1, 2, 6)));
    const bool has_ties = random() % 2 == 0;
    for (float& logit : logits) {
      logit = normal(random);
      if (has_ties) logit = std::round(logit * 2) / 2;
      if (random() % 50 == 0) logit = random() % 2 == 0 ? -kInfinity : kNan;
    }
    logits[random() % logits.size()] = 1.0f;
    const SamplingParams params = {
        .temperature = one_of(0.3, 1, 2),
        .top_k = static_cast<std::uint32_t>(one_of(0, 0, 1, 7, 500, logits.size() - 1)),
        .top_p = one_of(1, 1, 1 - 1e-9, 0.999, 0.9, 0.3, 1e-6),
        .min_p = one_of(0, 0, 0.001, 0.2, 1),
        .seed = random()};
    const std::map<std::size_t, double> kept = KeptOf(logits, params);
    if (kept.empty()) continue;
    Sampler sampler(logits.size(), Kernels());
    for (std::uint64_t position = 0; position < 20; ++position) {
      double rest = RandomUnit(params.seed, 0, position);
      bool is_close = false;  // to the border of two tokens
      auto want = kept.begin();
      for (auto at = kept.begin(); at != kept.end() && rest >= 0; ++at) {
        want = at;
        rest -= at->second;
        is_close = is_close || std::abs(rest) < 1e-6;
      }
      if (is_close) continue;
      ++compared;
      ASSERT_EQ(sampler.Sample(logits, params, TokenHistory({}), position), want->first)
          << logits.size() << " tokens, T " << params.temperature << ", top_k " << params.top_k
          << ", top_p " << params.top_p << ", min_p " << params.min_p;
    }
  }
  EXPECT_GT(compared, 6000);
}

TEST(Sampler, ChoosesAlikeOnEveryIsa) {
  std::mt19937 random(13);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(3001);
  for (float& logit : logits) logit = normal(random);
  logits[17] = kNan;
  const SamplingParams choices[] = {{}, {.top_k = 9}, {.top_p = 0.8}, {.min_p = 0.01}};
  for (const SamplingParams& params : choices) {
    std::vector<TokenId> want;
    for (const kernels::Isa isa : kernels::RunnableIsas()) {
      Sampler sampler(logits.size(), kernels::KernelsFor(isa));
      std::vector<TokenId> got(50);
      for (std::size_t position = 0; position < got.size(); ++position) {
        got[position] = sampler.Sample(logits, params, TokenHistory({}), position);
      }
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << NameOf(isa);
    }
  }
}

TEST(Sampler, LogitsAndTemperaturesAtTheirLimits) {
  const auto draw = [](std::vector<float> logits, double temperature) {
    return SampleOnce(std::move(logits), {.temperature = temperature, .top_p = 0.9});
  };
  for (const double temperature : {1e-300, 1.0, 100.0}) {
    EXPECT_EQ(draw({1, kInfinity, 2, kNan}, temperature), 1);
    EXPECT_EQ(draw({-kInfinity, -kInfinity}, temperature), 0);
    EXPECT_EQ(draw({kNan, kNan, 0}, temperature), 2);
    EXPECT_EQ(draw({-3e38f, kNan, 3e38f}, temperature), 2);
  }
  EXPECT_EQ(draw({1.0f, std::nextafter(1.0f, 2.0f)}, 1e-300), 1);
  const auto hot = Histogram({0, 1}, {.temperature = 100}, 1000);
  EXPECT_NEAR(hot.at(0), 500, 60);
}

TEST(Sampler, PenaltiesCountWhatTheyShould) {
  const std::vector<TokenId> prompt = {0};
  TokenHistory history(prompt);
  history.Add(1);
  history.Add(1);
  const SamplingParams greedy = {.temperature = 0};
  const auto with = [&](auto change, std::vector<float> logits) {
    SamplingParams params = greedy;
    change(params);
    return SampleOnce(std::move(logits), params, history);
  };
  // Repetition: prompt and completion; divides positive logits, multiplies negative ones.
  const auto repetition = [](SamplingParams& p) { p.repetition_penalty = 2.0; };
  EXPECT_EQ(with(repetition, {3.0f, 3.0f, 1.6f}), 2);
  EXPECT_EQ(with(repetition, {-1.0f, -1.0f, -1.9f}), 2);
  EXPECT_EQ(with(repetition, {3.0f, 3.0f, 1.4f}), 0);
  // Presence: the completion only, once.
  const auto presence = [](SamplingParams& p) { p.presence_penalty = 1.0; };
  EXPECT_EQ(with(presence, {2.0f, 2.5f, 0.0f}), 0);
  EXPECT_EQ(with(presence, {1.0f, 2.5f, 0.0f}), 1);
  // Frequency: per occurrence.
  const auto frequency = [](SamplingParams& p) { p.frequency_penalty = 1.0; };
  EXPECT_EQ(with(frequency, {1.0f, 2.5f, 0.0f}), 0);
  EXPECT_EQ(with(frequency, {0.4f, 2.5f, 0.0f}), 1);
}

TEST(Sampler, LogitBiasForbidsAndForces) {
  EXPECT_EQ(SampleOnce({5, 1, 0}, {.temperature = 0, .logit_bias = {{0, -100.0f}}}), 1);
  EXPECT_EQ(SampleOnce({5, 1, 0}, {.temperature = 0, .logit_bias = {{2, 100.0f}}}), 2);
}

TEST(Sampler, ValidateNamesFieldValueAndRange) {
  const auto message = [](const SamplingParams& params) {
    const Status status = Validate(params, 10);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.temperature = 0}), "");
  EXPECT_EQ(message({.temperature = -0.1}), "temperature is -0.1; it must be 0 to 100");
  EXPECT_NE(message({.temperature = std::nan("")}), "");
  EXPECT_NE(message({.top_p = 0.0}), "");
  EXPECT_NE(message({.top_p = 1.01}), "");
  EXPECT_NE(message({.min_p = -1}), "");
  EXPECT_NE(message({.repetition_penalty = 0}), "");
  EXPECT_NE(message({.repetition_penalty = 1e-45}), "");  // logits would overflow
  EXPECT_EQ(message({.repetition_penalty = 0.01}), "");
  EXPECT_NE(message({.presence_penalty = 2.1}), "");
  EXPECT_NE(message({.frequency_penalty = -2.1}), "");
  EXPECT_EQ(message({.logit_bias = {{9, 1.0f}}}), "");
  EXPECT_NE(message({.logit_bias = {{10, 1.0f}}}).find("0 to 9"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{0, 101.0f}}}), "");
}

TEST(Logprobs, LogSumExpOfAnyNumberOfLogits) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 5);
  for (const std::size_t size : {1u, 15u, 1023u, 1024u, 1025u, 2500u}) {
    std::vector<float> logits(size);
    double sum = 0;
    for (float& logit : logits) logit = normal(random);
    logits[size / 2] = kNan;
    logits.back() = 1.0f;
    if (size > 20) logits[size - 3] = -kInfinity;
    for (const float logit : logits) sum += std::isnan(logit) ? 0 : std::exp(double{logit});
    EXPECT_NEAR(LogSumExp(Kernels(), logits), std::log(sum), 1e-6) << size;
  }
  const std::vector<float> none = {-kInfinity, kNan};
  EXPECT_EQ(LogSumExp(Kernels(), {}), -kInfinity);
  EXPECT_EQ(LogSumExp(Kernels(), none), -kInfinity);
  const std::vector<float> unbounded = {1, kInfinity};
  EXPECT_EQ(LogSumExp(Kernels(), unbounded), kInfinity);
}

TEST(Logprobs, AreNormalisedAndOrdered) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(300);
  for (float& logit : logits) logit = std::round(normal(random) * 4) / 4;  // ties happen
  const double log_sum = LogSumExp(Kernels(), logits);
  double mass = 0;
  for (const float logit : logits) mass += std::exp(logit - log_sum);
  EXPECT_NEAR(mass, 1.0, 3e-7);  // of f32 exponentials

  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    const float of_a = logits[static_cast<std::size_t>(a)];
    const float of_b = logits[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  for (const std::size_t count : {0u, 1u, 20u, 300u, 400u}) {
    const auto top = TopLogprobs(logits, count, log_sum);
    ASSERT_EQ(top.size(), std::min<std::size_t>(count, logits.size()));
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(top[i].first, order[i]);
      EXPECT_FLOAT_EQ(top[i].second,
                      static_cast<float>(logits[static_cast<std::size_t>(order[i])] - log_sum));
    }
  }
}

}  // namespace
}  // namespace ashlar::model
