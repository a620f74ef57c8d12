#include "simulate/serve_run.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "simulate/tokens.h"

namespace ashlar::simulate {
namespace {

constexpr std::uint64_t kProgressEvery = 256;
constexpr std::int64_t kMaxNs = 4'000'000'000'000'000'000;  // 126 years; twice as many fit

class ServeRun {
 public:
  ServeRun(trace::Source& source, VirtualEngine& engine, ManualClock& clock,
           const ServeRunOptions& options, std::int64_t request_ns, Results& results)
      : source_(source),
        engine_(engine),
        clock_(clock),
        options_(options),
        request_ns_(request_ns),
        results_(results) {}

  Status Run(const Progress& progress) {
    for (std::uint64_t i = 0; i < options_.concurrency; ++i) GivePlace();
    ASHLAR_TRY(ReadNext());
    for (;;) {
      if (clock_.NowNs() > kMaxNs) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "after {} requests more than 126 years have passed; see --cost and "
                         "--time-scale",
                         number_);
      }
      while (has_next_ && IsDue()) {
        Arrive(progress);
        ASHLAR_TRY(ReadNext());
      }
      if (engine_.has_work()) {
        const std::size_t before = engine_.in_flight();
        const sched::StepPlan* const plan = engine_.Step();
        ASHLAR_CHECK(plan != nullptr, "{} sequences and nothing to do", engine_.in_flight());
        for (std::size_t i = engine_.in_flight(); i < before; ++i) GivePlace();
      } else if (has_next_) {
        clock_.AdvanceNs(std::max<std::int64_t>(1, next_ns_ + request_ns_ - clock_.NowNs()));
      } else {
        break;
      }
    }
    results_.duration_ns = clock_.NowNs();
    return {};
  }

 private:
  bool is_closed() const { return options_.concurrency > 0; }

  Status ReadNext() {
    ASHLAR_ASSIGN(has_next_, source_.Next(next_));
    if (!has_next_ || is_closed()) return {};
    if (number_ == 0) first_ms_ = next_.timestamp_ms;
    const double ns = (next_.timestamp_ms - first_ms_) * 1e6 * options_.time_scale;
    next_ns_ = static_cast<std::int64_t>(std::min(ns, static_cast<double>(kMaxNs)));
    return {};
  }

  bool IsDue() {
    if (is_closed()) {
      if (places_.empty()) return false;
      next_ns_ = places_.front();
    }
    return next_ns_ + request_ns_ <= clock_.NowNs();
  }

  // Closed loop: the next request may come now.
  void GivePlace() {
    if (is_closed()) places_.push_back(clock_.NowNs());
  }

  void Arrive(const Progress& progress) {
    if (++number_ % kProgressEvery == 0) progress(number_);
    if (is_closed()) places_.pop_front();
    if (!engine_.CouldEverRun(next_.input_tokens, next_.max_tokens)) {
      ++results_.too_long;
      GivePlace();
      return;
    }
    if (engine_.waiting() >= options_.max_waiting) {
      ++results_.refused;
      GivePlace();
      return;
    }
    VirtualRequest request = {.tokens = {},
                              .prompt_tokens = next_.input_tokens,
                              .output_tokens = next_.output_tokens,
                              .max_tokens = next_.max_tokens,
                              .scope = next_.scope,
                              .tenant = next_.tenant,
                              .priority = next_.priority};
    MakeTokens(next_, number_, options_.hash_block_tokens, request.tokens);
    engine_.Submit(SequenceId(number_), std::move(request), next_ns_);
  }

  trace::Source& source_;
  VirtualEngine& engine_;
  ManualClock& clock_;
  const ServeRunOptions& options_;
  const std::int64_t request_ns_;
  Results& results_;
  trace::Request next_;
  bool has_next_ = false;
  double first_ms_ = 0;
  std::int64_t next_ns_ = 0;         // when it arrives
  std::deque<std::int64_t> places_;  // closed loop: since when they are free
  std::uint64_t number_ = 0;
};

}  // namespace

Status RunServe(const OpenSource& open, const kv::KvLayout& layout, const ServeRunOptions& options,
                const CostModel& cost, const Progress& progress, Results& results) {
  ASHLAR_ASSIGN(const std::unique_ptr<trace::Source> source, open());
  ManualClock clock;
  ASHLAR_ASSIGN(const std::unique_ptr<VirtualEngine> engine,
                VirtualEngine::Create(layout, options.engine, cost, clock, results));
  ServeRun run(*source, *engine, clock, options, cost.request_ns(), results);
  ASHLAR_TRY(run.Run(progress));
  results.replaced_blocks = engine->cache().counters().replaced_blocks;
  return {};
}

}  // namespace ashlar::simulate
