// Threads that do the server's own work (parsing, tokenising, detokenising, formatting), so that
// neither the engine's thread nor the connections' ever wait for it.
//
// The queue is unbounded here; what bounds it is that a connection has one request and a request is
// queued once at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::server {

class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // From any thread. After Stop the task is destroyed and not run. Tasks must not throw.
  void Post(std::function<void()> task);

  // Waits for the tasks that are running, destroys the rest. Idempotent; also done by the
  // destructor.
  void Stop();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<std::function<void()>> tasks_;  // protected by mutex_
  bool is_stopped_ = false;                  // protected by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace ashlar::server
