#include "base/thread_pool.h"

#include <utility>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ashlar {
namespace {

// About 50 microseconds of pauses: longer than the gap between two regions of a decode step,
// shorter than anyone would notice on an idle server.
constexpr int kSpinsBeforeSleep = 2000;

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the first value of `counter` that differs from `old`.
template <typename T>
T WaitForChange(const std::atomic<T>& counter, T old) {
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    const T now = counter.load(std::memory_order_acquire);
    if (now != old) return now;
    CpuRelax();
  }
  for (;;) {
    counter.wait(old, std::memory_order_acquire);
    const T now = counter.load(std::memory_order_acquire);
    if (now != old) return now;
  }
}

}  // namespace

ThreadPool::ThreadPool(std::size_t threads) {
  ASHLAR_CHECK(threads >= 1 && threads <= kMaxThreads, "{} threads; 1 to {} are possible", threads,
               kMaxThreads);
  workers_.reserve(threads - 1);
  for (std::size_t worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(std::size_t items, Body body) {
  if (items == 0) return;
  if (workers_.empty() || items == 1) {
    for (std::size_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  body_ = &body;
  items_ = items;
  next_item_.store(0, std::memory_order_relaxed);
  workers_busy_.store(workers_.size(), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunItems(body, items, 0);
  for (std::size_t busy = workers_busy_.load(std::memory_order_acquire); busy != 0;) {
    busy = WaitForChange(workers_busy_, busy);
  }
}

void ThreadPool::WorkerLoop(std::size_t worker) {
  std::uint64_t seen = 0;
  for (;;) {
    seen = WaitForChange(generation_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    RunItems(*body_, items_, worker);
    if (workers_busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) workers_busy_.notify_one();
  }
}

void ThreadPool::RunItems(const Body& body, std::size_t items, std::size_t worker) {
  for (;;) {
    const std::size_t item = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (item >= items) return;
    body(item, worker);
  }
}

}  // namespace ashlar
