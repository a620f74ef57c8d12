// An Engine on a thread of its own, reachable from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/service.h"

namespace ashlar::engine {

class EngineRunner final : public Service {
 public:
  // `clock` must outlive the runner. max_waiting: sequences submitted and not yet running; more are
  // refused with kResourceExhausted.
  EngineRunner(std::unique_ptr<Engine> engine, const Clock& clock, std::size_t max_waiting);
  // Cancels what is left and joins the thread.
  ~EngineRunner() override;

  const ServiceInfo& info() const override { return engine_->info(); }
  ServiceStats stats() const override;
  Result<std::vector<RequestId>> SubmitAll(std::vector<Submission> submissions) override;
  void Cancel(RequestId id) override;

  // Refuses new requests, cancels the running ones and joins. Idempotent.
  void Stop();

 private:
  struct Queued {
    RequestId id;
    Submission submission;
    std::int64_t submitted_ns;
  };

  void Loop();

  const Clock& clock_;
  const std::size_t max_waiting_;
  std::unique_ptr<Engine> engine_;  // the loop's thread only, but for info() and Check()

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Queued> submissions_;
  std::vector<RequestId> cancellations_;
  ServiceStats stats_;
  std::uint64_t next_id_ = 1;
  bool is_stopping_ = false;

  std::thread thread_;  // last: the loop uses everything above
};

}  // namespace ashlar::engine
