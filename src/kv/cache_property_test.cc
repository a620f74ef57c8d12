// Random programs of the language in testing/cache_ops.h against the naive model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_ops.h"

namespace ashlar::kv {
namespace {

using testing::CacheWorld;
using testing::LayoutNamed;
using testing::WorldOptions;

std::vector<std::uint8_t> RandomProgram(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::uint8_t> program(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    program[i] = static_cast<std::uint8_t>(RandomBits(seed, 9, i));
  }
  return program;
}

std::uint64_t BlockBytes(const KvLayoutSpec& spec) {
  std::uint64_t bytes = 0;
  const KvLayout layout = *KvLayout::Create(spec);
  for (const StoreGroup& group : layout.store_groups()) bytes += group.block_bytes;
  return bytes;
}

class CacheProperty : public ::testing::TestWithParam<std::string> {};

TEST_P(CacheProperty, HitsAreExactWhereNothingIsReplaced) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    WorldOptions options{.layout = LayoutNamed(GetParam()),
                         .has_limits = false,
                         .is_roomy = true,
                         .check_every = 50};
    options.memory_bytes = BlockBytes(options.layout) * 4'000;
    CacheWorld world(options);
    world.Run(RandomProgram(seed, 10'000), 1500);
    EXPECT_GT(world.hits(), 200u);
    EXPECT_EQ(world.refusals(), 0u);
    EXPECT_EQ(world.cache().counters().replaced_blocks, 0u);
  }
}

TEST_P(CacheProperty, EveryPolicyKeepsEveryPromise) {
  for (const ReplacementKind kind : kReplacementKinds) {
    WorldOptions options{.layout = LayoutNamed(GetParam()), .replacement = kind, .check_every = 20};
    options.memory_bytes = BlockBytes(options.layout) * 60;
    options.max_memory_bytes = options.memory_bytes * 3 / 2;
    CacheWorld world(options);
    world.Run(RandomProgram(100 + static_cast<std::uint64_t>(kind), 30'000), 4000);
    EXPECT_GT(world.hits(), 0u);
    EXPECT_GT(world.refusals(), 0u);
    EXPECT_GT(world.cache().counters().replaced_blocks, 0u);
  }
}

// One-block pages, a ceiling of a few blocks, more scopes than the index has room for: where
// copies, pages and nodes run short.
TEST_P(CacheProperty, TightMemoryKeepsEveryPromise) {
  for (const ReplacementKind kind : kReplacementKinds) {
    WorldOptions options{.layout = LayoutNamed(GetParam()), .replacement = kind, .check_every = 20};
    const KvLayout layout = *KvLayout::Create(options.layout);
    std::uint64_t largest = 0;
    for (const StoreGroup& group : layout.store_groups()) {
      largest = std::max<std::uint64_t>(largest, group.block_bytes);
    }
    options.page_bytes = largest;
    options.memory_bytes = largest * layout.store_groups().size() * 12;
    options.max_memory_bytes = options.memory_bytes * 2;
    options.ceiling_bytes = BlockBytes(options.layout) * 3;
    options.scopes = 40;
    CacheWorld world(options);
    world.Run(RandomProgram(200 + static_cast<std::uint64_t>(kind), 40'000), 5000);
    EXPECT_GT(world.refusals(), 0u);
    EXPECT_GT(world.cache().counters().replaced_blocks, 0u);
  }
}

TEST_P(CacheProperty, CollidingHashesNeverServeOtherTokens) {
  WorldOptions options{
      .layout = LayoutNamed(GetParam()),
      .has_limits = false,
      .is_roomy = true,
      .check_every = 100,
      .hasher = [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 42; }};
  options.memory_bytes = BlockBytes(options.layout) * 4000;
  CacheWorld world(options);
  world.Run(RandomProgram(7, 4000), 400);
  EXPECT_GT(world.hits(), 100u);
}

// Sanitizers cost a factor of ten.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kOps = 100'000;
#else
constexpr std::uint64_t kOps = 1'000'000;
#endif

TEST(CachePropertyLong, AMillionOperationsKeepEveryPromise) {
  const std::vector<std::string> layouts = {"full",  "window",  "sinks", "hybrid",
                                            "mixed", "encoded", "codecs"};
  constexpr std::uint64_t kWorlds = 7 * kReplacementKinds.size();
  std::uint64_t ops = 0;
  std::uint64_t refusals = 0;
  for (std::uint64_t world_number = 0; world_number < kWorlds; ++world_number) {
    WorldOptions options{.layout = LayoutNamed(layouts[world_number % layouts.size()]),
                         .replacement = kReplacementKinds[world_number % kReplacementKinds.size()],
                         .has_limits = world_number % 2 == 0,
                         .check_every = 500};
    options.memory_bytes = BlockBytes(options.layout) * (40 + world_number % 3 * 30);
    options.max_memory_bytes = options.memory_bytes * 3 / 2;
    CacheWorld world(options);
    const std::uint64_t wanted = kOps / kWorlds + 1;
    const std::uint64_t done = world.Run(RandomProgram(1'000 + world_number, wanted * 12), wanted);
    EXPECT_EQ(done, wanted);
    EXPECT_GT(world.hits(), 0u);
    EXPECT_GT(world.cache().counters().replaced_blocks, 0u);
    refusals += world.refusals();
    ops += done;
  }
  EXPECT_GE(ops, kOps);
  EXPECT_GT(refusals, 0u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CacheProperty,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::kv
