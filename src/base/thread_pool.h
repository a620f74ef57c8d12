// A pool that splits work into fixed parts. Which thread runs a part never changes what the part
// computes, and callers cut work at boundaries that do not depend on the number of threads, so
// results are the same bits on 1 or N threads.
//
// Cost: a parallel region of a decode step lasts tens of microseconds and there are hundreds per
// token, so idle workers spin for a while before they sleep. One owner thread; regions do not nest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace ashlar {

// A non-owning reference to a callable: no heap allocation on the decode path.
template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no thread at all. 1 to kMaxThreads.
  explicit ThreadPool(std::size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr std::size_t kMaxThreads = 256;

  std::size_t threads() const { return workers_.size() + 1; }

  // Calls body(item, worker) once for every item in [0, items), then returns. Items are handed out
  // in order to whichever worker is free; `worker` < threads() names a private scratch. The caller
  // works too. Everything the body wrote is visible to the caller afterwards.
  void ParallelFor(std::size_t items, FunctionRef<void(std::size_t item, std::size_t worker)> body);

 private:
  using Body = FunctionRef<void(std::size_t, std::size_t)>;

  void WorkerLoop(std::size_t worker);
  void RunItems(const Body& body, std::size_t items, std::size_t worker);

  // Published before generation_ moves, read by workers after they see it move.
  const Body* body_ = nullptr;
  std::size_t items_ = 0;

  alignas(64) std::atomic<std::uint64_t> generation_{0};  // +1 per region
  alignas(64) std::atomic<std::size_t> next_item_{0};
  alignas(64) std::atomic<std::size_t> workers_busy_{0};
  alignas(64) std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace ashlar
