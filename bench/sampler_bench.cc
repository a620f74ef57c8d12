// What choosing one token takes, beside reading its logits once (`read`), by vocabulary and by how
// the logits spread: `text` has a few likely tokens and a long tail, as trained models have;
// `flat` is noise of one standard deviation, as random weights have.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_set.h"
#include "model/sampler.h"

namespace ashlar::model {
namespace {

const kernels::KernelSet& Kernels() { return kernels::KernelsFor(kernels::BestIsa()); }

enum class Spread : std::uint8_t { kText, kFlat };

std::vector<float> Logits(std::size_t vocab, Spread spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0.0f, spread == Spread::kText ? 2.5f : 1.0f);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = noise(random);
  if (spread == Spread::kText) {
    for (float above = 18.0f; above > 8.0f; above -= 0.5f) logits[random() % vocab] = above;
  }
  return logits;
}

void Choose(benchmark::State& state, std::size_t vocab, Spread spread,
            const SamplingParams& params) {
  const std::vector<float> logits = Logits(vocab, spread);
  Sampler sampler(vocab, Kernels());
  const TokenHistory history({});
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.Sample(logits, params, history, position++));
  }
}

void Logprob(benchmark::State& state, std::size_t vocab, Spread spread) {
  const std::vector<float> logits = Logits(vocab, spread);
  for (auto _ : state) benchmark::DoNotOptimize(LogSumExp(Kernels(), logits));
}

void Read(benchmark::State& state, std::size_t vocab, Spread spread) {
  const std::vector<float> logits = Logits(vocab, spread);
  for (auto _ : state) benchmark::DoNotOptimize(Kernels().max_of(logits.data(), vocab));
}

const bool kRegistered = [] {
  const std::pair<const char*, SamplingParams> choices[] = {
      {"greedy", {.temperature = 0}},
      {"temperature", {}},
      {"top_k_40", {.top_k = 40}},
      {"top_k_10000", {.top_k = 10'000}},
      {"top_p_95", {.top_p = 0.95}},
      {"min_p_05", {.min_p = 0.05}},
      {"top_k_40_top_p_95", {.top_k = 40, .top_p = 0.95}},
  };
  for (const std::size_t vocab : {std::size_t{49'152}, std::size_t{128'256}}) {
    for (const Spread spread : {Spread::kText, Spread::kFlat}) {
      const std::string at =
          "/" + std::to_string(vocab) + (spread == Spread::kText ? "/text" : "/flat");
      const auto enter = [&](const std::string& name, auto run, auto... args) {
        benchmark::RegisterBenchmark((name + at).c_str(), run, vocab, spread, args...)
            ->Unit(benchmark::kMicrosecond);
      };
      enter("read", Read);
      for (const auto& [name, params] : choices) enter(name, Choose, params);
      enter("logprob", Logprob);
    }
  }
  return true;
}();

}  // namespace
}  // namespace ashlar::model
