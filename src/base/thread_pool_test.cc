#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

class ThreadPoolTest : public testing::TestWithParam<std::size_t> {};

TEST_P(ThreadPoolTest, RunsEveryItemOnceAndPublishesItsWrites) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (std::size_t items : {0, 1, 2, 3, 64, 1000}) {
    std::vector<int> runs(items, 0);
    pool.ParallelFor(items, [&](std::size_t item, std::size_t worker) {
      ASSERT_LT(worker, pool.threads());
      ++runs[item];
    });
    EXPECT_EQ(runs, std::vector<int>(items, 1));
  }
}

TEST_P(ThreadPoolTest, ManySmallRegionsInARow) {
  ThreadPool pool(GetParam());
  std::vector<std::uint64_t> sums(4, 0);
  for (int region = 0; region < 2000; ++region) {
    pool.ParallelFor(sums.size(), [&](std::size_t item, std::size_t) { sums[item] += item; });
  }
  EXPECT_EQ(sums, (std::vector<std::uint64_t>{0, 2000, 4000, 6000}));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPoolDeathTest, RefusesNoThreads) { EXPECT_DEATH(ThreadPool(0), "0 threads"); }

}  // namespace
}  // namespace ashlar
