// An Engine on a thread of its own, reachable from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/control.h"
#include "engine/engine.h"
#include "engine/monitor.h"
#include "engine/service.h"

namespace ashlar::engine {

class EngineRunner final : public Service, public Control {
 public:
  // A report is published after steps when the last one is this old.
  static constexpr std::int64_t kReportEveryNs = 50'000'000;

  // `clock` must outlive the runner. max_waiting: sequences submitted and not yet running; more are
  // refused with kResourceExhausted.
  EngineRunner(std::unique_ptr<Engine> engine, const Clock& clock, std::size_t max_waiting);
  // Cancels what is left and joins the thread.
  ~EngineRunner() override;

  const ServiceInfo& info() const override { return engine_->info(); }
  ServiceStats stats() const override;
  Result<std::vector<RequestId>> SubmitAll(std::vector<Submission> submissions) override;
  void Cancel(RequestId id) override;

  std::shared_ptr<const EngineReport> Report() const override;
  Result<CacheState> DescribeCache(std::size_t max_runs) override;
  Result<EventBatch> ReadEvents(std::uint64_t from, std::size_t max) override;
  Result<kv::SnapshotPart> ReadSnapshotPart(std::uint32_t first_node,
                                            std::uint32_t max_nodes) override;
  Result<EngineTrace> ReadTrace(const TraceWindow& window) override;
  Result<bool> ResetPrefixCache(WhenBusy when_busy) override;
  Result<bool> Sleep(WhenBusy when_busy) override;
  Status WakeUp() override;

  // Refuses new requests, cancels the running ones and joins. Idempotent.
  void Stop();

 private:
  struct Queued {
    RequestId id;
    Submission submission;
    std::int64_t submitted_ns;
  };
  // A question to the engine's thread, on the stack of who waits for it. false: shutting down.
  using Question = std::function<void(bool is_running)>;

  // Calls `answer` on the engine's thread, between two steps, and returns what it returns.
  template <typename T>
  Result<T> Ask(const std::function<Result<T>()>& answer);

  void Loop();
  void TakeSubmissions();
  void Publish();
  bool IsBusy() const;

  const Clock& clock_;
  const std::size_t max_waiting_;
  std::unique_ptr<Engine> engine_;  // the loop's thread only, but for info() and Check()

  // Of the loop's thread.
  Monitor monitor_;
  std::vector<Queued> taken_;  // scratch
  std::int64_t published_ns_ = 0;
  std::optional<kv::TreeSummary> tree_;
  std::size_t tree_runs_ = 0;  // asked for when it was made
  std::int64_t tree_made_ns_ = 0;
  std::int64_t tree_cost_ns_ = 0;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Queued> submissions_;
  std::vector<RequestId> cancellations_;
  std::vector<Question> questions_;
  ServiceStats stats_;
  std::shared_ptr<const EngineReport> report_;
  std::uint64_t next_id_ = 1;
  bool is_stopping_ = false;
  bool is_stopped_ = false;  // the loop takes no more questions
  bool is_sleeping_ = false;

  std::thread thread_;  // last: the loop uses everything above
};

}  // namespace ashlar::engine
