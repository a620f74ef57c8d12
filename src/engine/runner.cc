#include "engine/runner.h"

#include <utility>

namespace ashlar::engine {

EngineRunner::EngineRunner(std::unique_ptr<Engine> engine, const Clock& clock,
                           std::size_t max_waiting)
    : clock_(clock), max_waiting_(max_waiting), engine_(std::move(engine)) {
  thread_ = std::thread([this] { Loop(); });
}

EngineRunner::~EngineRunner() { Stop(); }

ServiceStats EngineRunner::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  stats.waiting += submissions_.size();
  return stats;
}

Result<RequestId> EngineRunner::Submit(GenerationRequest request, std::shared_ptr<EventSink> sink) {
  ASHLAR_TRY(engine_->Check(request));
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return MakeError(ErrorCode::kUnavailable, "the engine is shutting down");
  const std::size_t waiting = stats_.waiting + submissions_.size();
  if (waiting >= max_waiting_) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "{} requests are waiting already, the most this server queues; try again later", waiting);
  }
  const RequestId id(next_id_++);
  submissions_.push_back({id, std::move(request), std::move(sink), clock_.NowNs()});
  changed_.notify_one();
  return id;
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

void EngineRunner::Loop() {
  std::vector<Submission> submissions;
  std::vector<RequestId> cancellations;
  bool is_stopping = false;
  while (!is_stopping) {
    {
      std::unique_lock lock(mutex_);
      stats_ = engine_->stats();
      changed_.wait(lock, [&] {
        return is_stopping_ || engine_->has_work() || !submissions_.empty() ||
               !cancellations_.empty();
      });
      is_stopping = is_stopping_;
      submissions.swap(submissions_);
      cancellations.swap(cancellations_);
      stats_.waiting += submissions.size();  // until the next step has sorted them in
    }
    for (Submission& one : submissions) {
      engine_->Submit(one.id, std::move(one.request), std::move(one.sink), one.submitted_ns);
    }
    for (const RequestId id : cancellations) engine_->Cancel(id);
    submissions.clear();
    cancellations.clear();
    if (!is_stopping) engine_->Step();
  }
  engine_->CancelAll();
  const std::lock_guard lock(mutex_);
  stats_ = engine_->stats();
}

}  // namespace ashlar::engine
