// What a cache allocates beside its arena, counted, against what a plan says.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/testing/allocation_count.h"
#include "kv/cache.h"
#include "plan/capacity.h"
#include "plan/registry.h"

namespace ashlar::plan {
namespace {

TEST(Bookkeeping, IsNeverLessThanTheCacheAllocatesAndLittleMore) {
  struct Case {
    const char* model;
    const char* codec;
    std::uint64_t arena_bytes;
    std::uint32_t block_tokens;
  };
  for (const Case& c :
       {Case{"smollm2-135m", "f16", 16 * kGiB, 16}, Case{"smollm2-135m", "q4", 8 * kGiB, 16},
        Case{"gemma-3-270m", "f16", 4 * kGiB, 16}, Case{"llama-3-8b", "balanced", 64 * kGiB, 32},
        Case{"falcon-7b", "f16", 8 * kGiB, 16}, Case{"deepseek-v3", "q8", 100 * kGiB, 64}}) {
    const kv::KvLayout layout = *LayoutOf(*Registry::BuiltIn().Find(c.model),
                                          *model::ParseKvCodecSpec(c.codec), c.block_tokens);
    const ManualClock clock;
    const std::uint64_t before = AllocationsSoFar().bytes;
    const auto cache =
        kv::KvCache::Create(layout, {.memory_bytes = c.arena_bytes, .has_bytes = false}, clock);
    ASSERT_TRUE(cache.ok()) << cache.error().message;
    const std::uint64_t counted = AllocationsSoFar().bytes - before;
    const std::uint64_t planned = BookkeepingBytes(layout, c.arena_bytes);
    EXPECT_GE(planned, counted) << c.model;
    EXPECT_LT(static_cast<double>(planned), 1.4 * static_cast<double>(counted)) << c.model;
  }
}

}  // namespace
}  // namespace ashlar::plan
