#include "engine/monitor.h"

#include <algorithm>

namespace ashlar::engine {
namespace {

// Those that vLLM's dashboards are drawn for.
constexpr double kTtftSeconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                   0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                   20,    40,    80,   160,  640,  2560};
constexpr double kItlSeconds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequestSeconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kStepTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
// Ours.
constexpr double kStepSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                   0.25,  0.5,    1,     2.5,  5,     10};

constexpr double Seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

EngineHistograms::EngineHistograms()
    : ttft(kTtftSeconds),
      itl(kItlSeconds),
      queue(kRequestSeconds),
      step(kStepSeconds),
      step_tokens(kStepTokens) {}

Monitor::Monitor() = default;

void Monitor::OnStep(const StepRecord& record, const sched::StepPlan& plan) {
  steps_.Push(record);
  histograms_.step.Observe(Seconds(record.total_ns));
  histograms_.step_tokens.Observe(static_cast<double>(plan.tokens));
}

void Monitor::OnAdmitted(const AdmissionRecord& admission) {
  const auto reason = static_cast<std::size_t>(admission.lookup.reason);
  ++misses_[reason];
  missed_tokens_[reason] += admission.lookup.prompt_tokens - admission.lookup.hit_tokens;
  if (!admission.is_resumed) histograms_.queue.Observe(Seconds(admission.queue_ns));
}

void Monitor::OnFirstToken(std::int64_t ttft_ns) { histograms_.ttft.Observe(Seconds(ttft_ns)); }

void Monitor::OnNextToken(std::int64_t itl_ns) { histograms_.itl.Observe(Seconds(itl_ns)); }

void Monitor::OnEnd(const SequenceRecord& sequence) { sequences_.Push(sequence); }

void Monitor::AddTo(EngineReport& report) const {
  report.histograms = histograms_;
  report.misses = misses_;
  report.missed_tokens = missed_tokens_;
}

EngineTrace Monitor::Read(const TraceWindow& window, std::int64_t now_ns) const {
  EngineTrace trace{.now_ns = now_ns, .steps = {}, .sequences = {}};
  const std::size_t most = std::min(window.max_steps, steps_.size());
  std::size_t steps = 0;
  while (steps < most && (window.within_ns == 0 ||
                          steps_.FromNewest(steps).start_ns >= now_ns - window.within_ns)) {
    ++steps;
  }
  trace.steps.reserve(steps);
  for (std::size_t age = steps; age-- > 0;) trace.steps.push_back(steps_.FromNewest(age));
  const std::int64_t first_ns = trace.steps.empty() ? now_ns : trace.steps.front().start_ns;
  std::size_t sequences = 0;
  while (sequences < sequences_.size() && sequences_.FromNewest(sequences).ended_ns >= first_ns) {
    ++sequences;
  }
  trace.sequences.reserve(sequences);
  for (std::size_t age = sequences; age-- > 0;) {
    trace.sequences.push_back(sequences_.FromNewest(age));
  }
  return trace;
}

}  // namespace ashlar::engine
