#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

namespace ashlar::server {
namespace {

TEST(WorkerPool, OneThreadRunsTasksInOrder) {
  WorkerPool pool(1);
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 100; ++i) {
    pool.Post([&order, i] { order.push_back(i); });
  }
  pool.Post([&done] { done.set_value(); });
  done.get_future().wait();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order.at(static_cast<std::size_t>(i)), i);
  }
}

TEST(WorkerPool, SeveralThreadsRunTasksAtOnce) {
  WorkerPool pool(2);
  std::promise<void> first;
  std::promise<void> second;
  // Each waits for the other: one thread alone would never come through.
  pool.Post([&] {
    first.set_value();
    second.get_future().wait();
  });
  std::promise<void> done;
  pool.Post([&] {
    first.get_future().wait();
    second.set_value();
    done.set_value();
  });
  done.get_future().wait();
}

TEST(WorkerPool, StopDestroysWhatHasNotRunAndRefusesMore) {
  WorkerPool pool(1);
  const auto token = std::make_shared<int>(0);
  std::promise<void> started;
  std::promise<void> go;
  std::atomic<int> ran = 0;
  pool.Post([&] {
    started.set_value();
    go.get_future().wait();
  });
  started.get_future().wait();
  pool.Post([token, &ran] { ++ran; });
  EXPECT_EQ(token.use_count(), 2);
  std::thread stopper([&pool] { pool.Stop(); });
  while (token.use_count() > 1 && ran == 0) {
    std::this_thread::yield();
  }
  go.set_value();
  stopper.join();
  pool.Post([token, &ran] { ++ran; });
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(ran, 0);
  pool.Stop();
}

}  // namespace
}  // namespace ashlar::server
