// Appending to the event log, and computing keys and hashes, takes nothing from operator new:
// counted, in a program of its own, by replacing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "kv/event_log.h"

namespace {
std::uint64_t g_allocations = 0;
}  // namespace

// Never inlined: the compiler would see malloc and free pair up with new and delete, and object.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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

  const std::uint64_t before = g_allocations;
  BlockKey key = RootKey(ScopeDigest{});
  for (int i = 0; i < 100; ++i) {  // wraps around several times
    const auto block = std::span(tokens).first(16);
    const BlockKey parent = key;
    key = hasher.NextKey(parent, block);
    log.Append({.key = key, .parent = parent, .tokens = block});
  }
  ASSERT_FALSE(log.Read(log.oldest_sequence(), kCapacity, events));
  ChainHashes(0, tokens, 16, hashes);
  EXPECT_EQ(g_allocations - before, 0u);
  EXPECT_EQ(events.size(), kCapacity);
  EXPECT_EQ(hashes.size(), 10u);
}

TEST(EventLogAllocation, TheCounterCounts) {
  const std::uint64_t before = g_allocations;
  int* volatile escaped = new int(1);  // volatile: or the compiler drops the pair
  delete escaped;
  EXPECT_GT(g_allocations, before);
}

}  // namespace
}  // namespace ashlar::kv
