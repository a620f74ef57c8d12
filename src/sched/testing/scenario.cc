#include "sched/testing/scenario.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::sched::testing {
namespace {

constexpr std::uint64_t kMostSteps = 100'000;

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  // 0 to below - 1.
  std::uint64_t operator()(std::uint64_t below) { return RandomBits(seed_, 77, next_++) % below; }
  bool OneIn(std::uint64_t n) { return (*this)(n) == 0; }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

// Some prompts begin with one of a few common texts.
std::vector<TokenId> MakePrompt(Random& random, const ScenarioSize& size, std::uint64_t id) {
  const std::uint64_t family = random(4);
  const std::uint64_t common = family == 0 ? 0 : random(size.prompt_tokens);
  const std::uint64_t own = 1 + random(size.prompt_tokens - common);
  std::vector<TokenId> prompt(common + own);
  for (std::uint64_t i = 0; i < prompt.size(); ++i) {
    const std::uint64_t text = i < common ? family : 1000 + id;
    prompt[i] = static_cast<TokenId>(RandomBits(text, 1, i) % size.vocab);
  }
  return prompt;
}

}  // namespace

Scenario MakeScenario(std::uint64_t seed, const ScenarioSize& size) {
  Random random(seed);
  Scenario scenario;
  scenario.block_tokens = size.block_tokens;
  SchedulerLimits& limits = scenario.limits;
  limits.max_running = static_cast<std::uint32_t>(1 + random(6));
  limits.max_step_tokens =
      limits.max_running + static_cast<std::uint32_t>(random(random.OneIn(2) ? 8 : 64));
  limits.prefill_chunk = static_cast<std::uint32_t>(1 + random(random.OneIn(2) ? 8 : 48));
  scenario.cost = {.fixed_ns = static_cast<double>(random(50'000)),
                   .per_token_ns = static_cast<double>(1 + random(5'000)),
                   .per_context_token_ns = static_cast<double>(random(20))};
  if (random.OneIn(2)) limits.itl_target_ns = static_cast<std::int64_t>(1 + random(200'000));
  constexpr std::uint64_t kHeadrooms[] = {0, 1, 16, ~std::uint64_t{0}};
  scenario.headroom_tokens = kHeadrooms[random(4)];
  const std::uint64_t priorities = 1 + random(3);
  const std::uint64_t tenants = 1 + random(3);
  const std::uint64_t count = 1 + random(size.requests);
  const std::uint64_t spread_ns = 1 + random(2'000'000);
  std::uint64_t most_blocks = 0;
  for (std::uint64_t id = 0; id < count; ++id) {
    ScenarioRequest request = {.id = SequenceId(id)};
    request.arrival_ns = static_cast<std::int64_t>(random.OneIn(2) ? 0 : random(spread_ns));
    request.prompt = MakePrompt(random, size, id);
    request.generate = 1 + random(size.generate);
    request.priority = static_cast<std::int32_t>(random(priorities)) - 1;
    const std::uint64_t tenant = random(tenants);
    request.tenant = std::string(tenant, 'x');
    request.weight = static_cast<std::uint32_t>(1 + tenant);
    if (random.OneIn(6)) {
      request.cancel_ns = request.arrival_ns + static_cast<std::int64_t>(random(500'000));
    }
    const std::uint64_t blocks =
        (request.stored_tokens() + size.block_tokens - 1) / size.block_tokens;
    most_blocks = std::max(most_blocks, blocks);
    scenario.requests.push_back(std::move(request));
  }
  std::ranges::stable_sort(scenario.requests, {}, &ScenarioRequest::arrival_ns);
  scenario.blocks = most_blocks + random(random.OneIn(2) ? 3 : 4 * most_blocks);
  return scenario;
}

void Play(const Scenario& scenario, Target& target, ManualClock& clock, PlanSink& sink) {
  std::vector<const ScenarioRequest*> cancels;
  for (const ScenarioRequest& request : scenario.requests) {
    if (request.cancel_ns) cancels.push_back(&request);
  }
  const auto cancel_time = [](const ScenarioRequest* request) { return *request->cancel_ns; };
  std::ranges::stable_sort(cancels, {}, cancel_time);
  auto next = scenario.requests.begin();
  auto cancel = cancels.begin();
  for (std::uint64_t step = 0;; ++step) {
    ASHLAR_CHECK(step < kMostSteps, "no end after {} steps", step);
    for (; next != scenario.requests.end() && next->arrival_ns <= clock.NowNs(); ++next) {
      sink.OnSubmit(*next);
      target.Submit(*next);
    }
    for (; cancel != cancels.end() && cancel_time(*cancel) <= clock.NowNs(); ++cancel) {
      target.Cancel((*cancel)->id);
      sink.OnCancel((*cancel)->id);
    }
    if (const StepPlan* const plan = target.Step()) {
      sink.OnPlan(*plan);
      const double last_ns = scenario.cost.PredictNs(plan->tokens, plan->attended_pairs);
      clock.AdvanceNs(1 + static_cast<std::int64_t>(last_ns));
      continue;
    }
    ASHLAR_CHECK(!target.has_work(), "nothing to do, and work is left");
    if (next == scenario.requests.end()) return;
    clock.AdvanceNs(std::max<std::int64_t>(0, next->arrival_ns - clock.NowNs()));
  }
}

}  // namespace ashlar::sched::testing
