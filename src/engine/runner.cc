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

Result<std::vector<RequestId>> EngineRunner::SubmitAll(std::vector<Submission> submissions) {
  for (const Submission& one : submissions) ASHLAR_TRY(engine_->Check(one.request));
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return MakeError(ErrorCode::kUnavailable, "the engine is shutting down");
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

void EngineRunner::Loop() {
  std::vector<Queued> submissions;
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
    for (Queued& one : submissions) {
      engine_->Submit(one.id, std::move(one.submission.request), std::move(one.submission.sink),
                      one.submitted_ns);
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
