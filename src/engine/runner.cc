#include "engine/runner.h"

#include <algorithm>
#include <future>
#include <utility>

#include "engine/cache_state.h"

namespace ashlar::engine {
namespace {

Error ShuttingDown() { return {ErrorCode::kUnavailable, "the engine is shutting down"}; }

Error EventsAreOff() {
  return {ErrorCode::kUnsupported, "KV events are off; start with --kv-events above 0"};
}

}  // namespace

EngineRunner::EngineRunner(std::unique_ptr<Engine> engine, const Clock& clock,
                           std::size_t max_waiting)
    : clock_(clock), max_waiting_(max_waiting), engine_(std::move(engine)) {
  engine_->Observe(&monitor_);
  Publish();
  thread_ = std::thread([this] { Loop(); });
}

EngineRunner::~EngineRunner() { Stop(); }

ServiceStats EngineRunner::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  stats.waiting += submissions_.size();
  return stats;
}

Result<std::vector<RequestId>> EngineRunner::SubmitAll(std::vector<Submission> submissions) {
  for (const Submission& one : submissions) ASHLAR_TRY(engine_->Check(one.request));
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return ShuttingDown();
  if (is_sleeping_) {
    return MakeError(ErrorCode::kUnavailable, "the server sleeps until POST /wake_up");
  }
  if (submissions.size() > 1 && submissions.size() > max_waiting_) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the request has {} sequences, more than the {} that this server queues; ask "
                     "for fewer at a time",
                     submissions.size(), max_waiting_);
  }
  const std::size_t waiting = stats_.waiting + submissions_.size();
  if (waiting + submissions.size() > max_waiting_) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{} sequences are waiting already and {} more are asked for; this server "
                     "queues {}; try again later",
                     waiting, submissions.size(), max_waiting_);
  }
  std::vector<RequestId> ids;
  ids.reserve(submissions.size());
  for (Submission& one : submissions) {
    ids.emplace_back(next_id_++);
    submissions_.push_back({ids.back(), std::move(one), clock_.NowNs()});
  }
  changed_.notify_one();
  return ids;
}

void EngineRunner::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancellations_.push_back(id);
  changed_.notify_one();
}

void EngineRunner::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// --- Control ---

template <typename T>
Result<T> EngineRunner::Ask(const std::function<Result<T>()>& answer) {
  std::promise<Result<T>> promise;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return ShuttingDown();
    questions_.emplace_back([&](bool is_running) {
      promise.set_value(is_running ? answer() : Result<T>(ShuttingDown()));
    });
    changed_.notify_one();
  }
  return promise.get_future().get();
}

std::shared_ptr<const EngineReport> EngineRunner::Report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

Result<CacheState> EngineRunner::DescribeCache(std::size_t max_runs) {
  return Ask<CacheState>([&]() -> Result<CacheState> {
    const std::int64_t now_ns = clock_.NowNs();
    const auto pause_ns =
        static_cast<std::int64_t>(static_cast<double>(tree_cost_ns_) / kTreeShare);
    if (!tree_ || tree_runs_ != max_runs || now_ns - tree_made_ns_ >= pause_ns) {
      tree_ = kv::SummarizeTree(engine_->cache(), max_runs);
      tree_runs_ = max_runs;
      tree_made_ns_ = clock_.NowNs();
      tree_cost_ns_ = tree_made_ns_ - now_ns;
    }
    CacheState state = StateOf(engine_->cache());
    state.tree = *tree_;
    state.tree_age_ns = clock_.NowNs() - tree_made_ns_;
    return state;
  });
}

Result<EventBatch> EngineRunner::ReadEvents(std::uint64_t from, std::size_t max) {
  return Ask<EventBatch>([&]() -> Result<EventBatch> {
    if (!engine_->cache().events().is_on()) return EventsAreOff();
    return EventsOf(engine_->cache(), from, max);
  });
}

Result<kv::SnapshotPart> EngineRunner::ReadSnapshotPart(std::uint32_t first_node,
                                                        std::uint32_t max_nodes) {
  return Ask<kv::SnapshotPart>([&]() -> Result<kv::SnapshotPart> {
    if (!engine_->cache().events().is_on()) return EventsAreOff();
    return engine_->cache().TakeSnapshotPart(first_node, std::min(max_nodes, kMaxSnapshotNodes));
  });
}

Result<EngineTrace> EngineRunner::ReadTrace(const TraceWindow& window) {
  return Ask<EngineTrace>(
      [&]() -> Result<EngineTrace> { return monitor_.Read(window, clock_.NowNs()); });
}

bool EngineRunner::IsBusy() const {
  if (engine_->has_work()) return true;
  const std::lock_guard lock(mutex_);
  return !submissions_.empty();
}

Result<bool> EngineRunner::ResetPrefixCache(WhenBusy when_busy) {
  return Ask<bool>([&]() -> Result<bool> {
    if (when_busy == WhenBusy::kRefuse && IsBusy()) return false;
    engine_->cache().ResetAll();
    Publish();
    return true;
  });
}

Result<bool> EngineRunner::Sleep(WhenBusy when_busy) {
  return Ask<bool>([&]() -> Result<bool> {
    {
      const std::lock_guard lock(mutex_);
      const bool is_busy = engine_->has_work() || !submissions_.empty();
      if (when_busy == WhenBusy::kRefuse && is_busy) return false;
      is_sleeping_ = true;
    }
    TakeSubmissions();
    engine_->CancelAll();
    engine_->cache().ResetAll();
    engine_->cache().DiscardFreePages();
    Publish();
    return true;
  });
}

Status EngineRunner::WakeUp() {
  const Result<bool> woken = Ask<bool>([&]() -> Result<bool> {
    {
      const std::lock_guard lock(mutex_);
      is_sleeping_ = false;
    }
    Publish();
    return true;
  });
  if (!woken.ok()) return woken.error();
  return {};
}

// --- The engine's thread ---

void EngineRunner::TakeSubmissions() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(submissions_);
    stats_.waiting += taken_.size();  // until the next step has sorted them in
  }
  for (Queued& one : taken_) {
    engine_->Submit(one.id, std::move(one.submission.request), std::move(one.submission.sink),
                    one.submitted_ns);
  }
  taken_.clear();
}

// Called with nothing held.
void EngineRunner::Publish() {
  auto report = std::make_shared<EngineReport>();
  const kv::KvCache& cache = engine_->cache();
  report->time_ns = published_ns_ = clock_.NowNs();
  report->stats = engine_->stats();
  report->cache = cache.counters();
  report->memory = cache.Account();
  report->accounts = AccountNamesOf(cache);
  report->groups = GroupNamesOf(cache);
  report->block_moves = cache.core().pool.store().moves();
  report->pinned_bytes = cache.pinned_bytes();
  report->events = cache.events().last_sequence();
  report->oldest_event = cache.events().oldest_sequence();
  monitor_.AddTo(*report);
  const std::lock_guard lock(mutex_);
  report->is_sleeping = is_sleeping_;
  stats_ = report->stats;
  report_ = std::move(report);
}

void EngineRunner::Loop() {
  std::vector<RequestId> cancellations;
  std::vector<Question> questions;
  bool is_stopping = false;
  while (!is_stopping) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return is_stopping_ || engine_->has_work() || !submissions_.empty() ||
               !cancellations_.empty() || !questions_.empty();
      });
      is_stopping = is_stopping_;
      cancellations.swap(cancellations_);
      questions.swap(questions_);
    }
    TakeSubmissions();
    for (const RequestId id : cancellations) engine_->Cancel(id);
    for (const Question& question : questions) question(/*is_running=*/true);
    cancellations.clear();
    questions.clear();
    if (!is_stopping) engine_->Step();
    if (!engine_->has_work() || clock_.NowNs() - published_ns_ >= kReportEveryNs) {
      Publish();
    } else {
      const ServiceStats stats = engine_->stats();
      const std::lock_guard lock(mutex_);
      stats_ = stats;
    }
  }
  TakeSubmissions();
  engine_->CancelAll();
  Publish();
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    questions.swap(questions_);
  }
  for (const Question& question : questions) question(/*is_running=*/false);
}

}  // namespace ashlar::engine
