#include "apps/bench_cost.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kDecodedTokens = 6;   // of each sequence of a batch
constexpr std::uint64_t kBatchTokens = 8192;  // of all prompts of a batch, at the most

class NullSink final : public engine::EventSink {
 public:
  void OnToken(TokenId, const engine::TokenLogprobs*) override {}
  void OnFinish(engine::FinishReason, const engine::Usage&, std::string_view) override {}
};

// Notes what each step did and how long it took.
class StepTimer final : public engine::StepObserver {
 public:
  explicit StepTimer(const kv::KvLayout& layout) : meter_(layout) {}
  void OnStep(const engine::StepRecord& record, const sched::StepPlan& plan) override {
    steps.push_back({meter_.WorkOf(plan), static_cast<double>(record.total_ns)});
  }

  std::vector<simulate::CostSample> steps;

 private:
  const simulate::StepMeter meter_;
};

struct Batch {
  std::uint64_t sequences = 1;
  std::uint64_t prompt_tokens = 1;
  std::uint64_t generate = 1;
};

class Steps {
 public:
  Steps(engine::Engine& engine, StepTimer& timer) : engine_(engine), timer_(timer) {}

  // One round: the batch from its beginning to its end.
  Status Run(const Batch& batch) {
    for (std::uint64_t i = 0; i < batch.sequences; ++i) {
      engine::GenerationRequest request = {.sampling = {.temperature = 0},
                                           .max_tokens = batch.generate};
      for (std::uint64_t j = 0; j < batch.prompt_tokens; ++j) {
        request.prompt.push_back(static_cast<TokenId>(RandomBits(id_, 0, j) % vocab_));
      }
      ASHLAR_TRY(engine_.Check(request));
      engine_.Submit(RequestId(++id_), std::move(request), std::make_shared<NullSink>(), 0);
    }
    while (engine_.has_work()) engine_.Step();
    return {};
  }

  // All batches in every round, so that a busy second meets one round of each; of every step the
  // median time.
  Result<std::vector<simulate::CostSample>> Median(std::span<const Batch> batches, int rounds) {
    std::vector<std::vector<simulate::CostSample>> all;
    all.reserve(static_cast<std::size_t>(rounds));
    for (int round = 0; round < rounds; ++round) {
      timer_.steps.clear();
      for (const Batch& batch : batches) ASHLAR_TRY(Run(batch));
      // Under a target for delays a step may be cut otherwise than before: not the same step then.
      const auto tokens = [](const simulate::CostSample& step) { return step.work.tokens; };
      if (all.empty() || std::ranges::equal(timer_.steps, all[0], {}, tokens, tokens)) {
        all.push_back(timer_.steps);
      }
    }
    std::vector<simulate::CostSample> median = all[0];
    std::vector<double> times(all.size());
    for (std::size_t step = 0; step < median.size(); ++step) {
      std::ranges::transform(all, times.begin(), [&](const auto& one) { return one[step].ns; });
      std::ranges::sort(times);
      median[step].ns = std::max(1.0, times[times.size() / 2]);
    }
    return median;
  }

 private:
  engine::Engine& engine_;
  StepTimer& timer_;
  const std::uint64_t vocab_ = engine_.info().vocab_size;
  std::uint64_t id_ = 0;
};

// Prompts alone, of every size of step and as long as the depth; then batches that generate, at
// several depths.
std::vector<Batch> BatchesFor(const sched::SchedulerLimits& limits, std::uint64_t depth) {
  std::vector<Batch> batches;
  for (std::uint64_t tokens = 1; tokens <= limits.prefill_chunk; tokens *= 2) {
    batches.push_back({.prompt_tokens = tokens});
    if (tokens >= 4) batches.push_back({.prompt_tokens = tokens + tokens / 2});
  }
  batches.push_back({.prompt_tokens = depth});
  // As many prompts as fill a step.
  const std::uint64_t fill = limits.max_step_tokens / limits.prefill_chunk;
  if (fill > 1) batches.push_back({.sequences = fill, .prompt_tokens = limits.prefill_chunk});
  for (std::uint64_t sequences = 1; sequences <= limits.max_running; sequences *= 2) {
    for (std::uint64_t tokens = 16; tokens <= depth; tokens *= 4) {
      if (sequences * tokens > kBatchTokens) break;
      batches.push_back(
          {.sequences = sequences, .prompt_tokens = tokens, .generate = 1 + kDecodedTokens});
    }
  }
  return batches;
}

}  // namespace

std::vector<double> CostKnots(const sched::SchedulerLimits& limits) {
  std::vector<double> knots;
  for (std::uint64_t tokens = 1; tokens < limits.max_step_tokens; tokens *= 2) {
    knots.push_back(static_cast<double>(tokens));
  }
  knots.push_back(static_cast<double>(limits.max_step_tokens));
  return knots;
}

Result<std::vector<simulate::CostSample>> MeasureSteps(engine::Engine& engine,
                                                       const sched::SchedulerLimits& limits,
                                                       const CostBenchOptions& options) {
  StepTimer timer(engine.cache().layout());
  engine.Observe(&timer);
  Steps steps(engine, timer);
  const auto measure = [&]() -> Result<std::vector<simulate::CostSample>> {
    ASHLAR_TRY(steps.Run({.prompt_tokens = limits.prefill_chunk, .generate = 2}));  // warms up
    return steps.Median(BatchesFor(limits, options.depth), options.rounds);
  };
  auto samples = measure();
  engine.CancelAll();
  engine.Observe(nullptr);
  return samples;
}

}  // namespace ashlar::apps
