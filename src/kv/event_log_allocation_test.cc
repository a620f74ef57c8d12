// Appending to the event log, and computing keys and hashes, takes nothing from operator new:
// counted, in a program of its own, by replacing it.
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/allocation_count.h"
#include "kv/event_log.h"

namespace ashlar::kv {
namespace {

TEST(EventLogAllocation, AppendsAndReadsIntoRoomDoNone) {
  constexpr std::uint64_t kCapacity = 8;
  EventLog log({.capacity = kCapacity, .block_tokens = 16});
  KeyHasher hasher;
  const std::vector<TokenId> tokens(160, 3);
  std::vector<KvEvent> events;
  events.reserve(kCapacity);
  std::vector<std::uint64_t> hashes;
  hashes.reserve(10);

  const std::uint64_t before = AllocationsSoFar().calls;
  BlockKey key = RootKey(ScopeDigest{});
  for (int i = 0; i < 100; ++i) {  // wraps around several times
    const auto block = std::span(tokens).first(16);
    const BlockKey parent = key;
    key = hasher.NextKey(parent, block);
    log.Append({.key = key, .parent = parent, .tokens = block});
  }
  ASSERT_FALSE(log.Read(log.oldest_sequence(), kCapacity, events));
  ChainHashes(0, tokens, 16, hashes);
  EXPECT_EQ(AllocationsSoFar().calls - before, 0u);
  EXPECT_EQ(events.size(), kCapacity);
  EXPECT_EQ(hashes.size(), 10u);
}

TEST(EventLogAllocation, TheCounterCounts) {
  const std::uint64_t before = AllocationsSoFar().calls;
  int* volatile escaped = new int(1);  // volatile: or the compiler drops the pair
  delete escaped;
  EXPECT_GT(AllocationsSoFar().calls, before);
}

}  // namespace
}  // namespace ashlar::kv
