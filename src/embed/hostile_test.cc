// Absurd arguments: each is an error that names it, and nothing changes.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "ashlar/kv_cache.h"
#include "embed/testing/small_cache.h"

namespace ashlar::cache {
namespace {

using testing::HybridLayout;
using testing::MakeCache;
using testing::MakeSmallCache;
using testing::Numbers;
using testing::Remember;
using testing::SmallLayout;
using testing::Start;
using testing::Store;
using testing::TestScope;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

ErrorCode CodeOf(const Layout& layout, CacheOptions options) {
  const Expected<Cache> cache = Cache::Create(layout, std::move(options));
  EXPECT_FALSE(cache);
  return cache ? ErrorCode::kNotFound : cache.error().code;
}

TEST(HostileTest, CreateRefusesAbsurdOptions) {
  const Layout layout = HybridLayout();
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(CodeOf(layout, {}), kInvalid);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1023}), kInvalid);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = kMax}), ErrorCode::kLimit);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = kMax, .storage = Storage::kDecisionsOnly}),
            ErrorCode::kLimit);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .max_memory_bytes = kMax}), ErrorCode::kLimit);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .max_memory_bytes = 1}), kInvalid);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .max_events = kMax}), ErrorCode::kLimit);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .max_events = (1u << 22) + 1}), kInvalid);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .replacement = static_cast<Replacement>(99)}),
            kInvalid);
  EXPECT_EQ(CodeOf(layout, {.memory_bytes = 1 << 20, .storage = static_cast<Storage>(99)}),
            kInvalid);
}

TEST(HostileTest, CreateRefusesAbsurdAccounts) {
  const auto code = [](std::vector<AccountLimits> accounts) {
    return CodeOf(SmallLayout(), {.memory_bytes = 1 << 20, .accounts = std::move(accounts)});
  };
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(code({{.name = "a", .floor_bytes = kMax}}), kInvalid);
  EXPECT_EQ(code({{.name = "a", .floor_bytes = 2, .ceiling_bytes = 1}}), kInvalid);
  EXPECT_EQ(code({{.name = "a", .floor_bytes = 1 << 20}, {.name = "b", .floor_bytes = 1 << 20}}),
            kInvalid);
  EXPECT_EQ(code(std::vector<AccountLimits>(256)), kInvalid);
}

TEST(HostileTest, AdmitRefusesAbsurdOptions) {
  Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  const auto code = [&cache](AdmitOptions options) {
    const Expected<Admission> admission = cache.Admit(TestScope(), Numbers(1, 20), options);
    EXPECT_FALSE(admission);
    EXPECT_FALSE(admission.error().message.empty());
    return admission.error().code;
  };
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(code({}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 19}), kInvalid);
  EXPECT_EQ(code({.max_tokens = kMaxTokens}), ErrorCode::kLimit);
  EXPECT_EQ(code({.max_tokens = kMaxTokens + 1}), kInvalid);
  EXPECT_EQ(code({.max_tokens = kMax}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .chunk = 0}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .chunk = kMax}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .max_rollback = kMax}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .account = 1}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .account = 0xFFFF}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .retention = {.level = 8}}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .retention = {.ttl_ns = -1}}), kInvalid);
  EXPECT_EQ(code({.max_tokens = 20, .retention = {.ttl_ns = INT64_MAX}}), kInvalid);
  EXPECT_EQ(cache.live_sequences(), 0u);
  EXPECT_EQ(cache.counters().taken_blocks, 0u);
  cache.CheckInvariants();
}

TEST(HostileTest, ValuesOutsideTheirEnumerationAreRefused) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = {1, 2, 3};
  for (const AdmitOptions& options :
       {AdmitOptions{.max_tokens = 8, .reuse = static_cast<Reuse>(9)},
        AdmitOptions{.max_tokens = 8, .on_pending = static_cast<OnPending>(9)}}) {
    const auto admission = cache.Admit(TestScope(), prompt, options);
    ASSERT_FALSE(admission);
    EXPECT_EQ(admission.error().code, ErrorCode::kInvalidArgument);
  }
  Layout layout;
  layout.groups = {{.name = "g",
                    .lanes = LanesOf(LayerRange{.first = 0, .count = 1}, 1),
                    .key_dim = 8,
                    .value_dim = 8,
                    .granularity = static_cast<Granularity>(9)}};
  EXPECT_FALSE(Cache::Create(layout, {.memory_bytes = 1 << 20}));
  // Layers that would wrap around.
  layout.groups[0].granularity = Granularity::kToken;
  layout.groups[0].lanes = LanesOf(LayerRange{.first = ~0u, .count = 2}, 1);
  EXPECT_FALSE(Cache::Create(layout, {.memory_bytes = 1 << 20}));
}

TEST(HostileTest, TheLargestOptionsThatAreAllowedWork) {
  Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  Sequence sequence = Start(cache, Numbers(1, 20),
                            {.max_tokens = 20,
                             .chunk = kMaxTokens,
                             .max_rollback = kMaxTokens,
                             .retention = {.level = 7, .ttl_ns = std::int64_t{1} << 60}});
  Store(sequence, Numbers(1, 20));
  sequence.Release();
  cache.CheckInvariants();
}

TEST(HostileTest, AScopeBeyondItsLimitIsRefusedByEveryCall) {
  Cache cache = MakeSmallCache();
  Scope scope = TestScope();
  scope.tenant_salt = std::string(4097, 's');
  const std::vector<TokenId> prompt = Numbers(1, 20);
  EXPECT_EQ(cache.Probe(scope, prompt).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache.Lookup(scope, prompt).error().code, ErrorCode::kInvalidArgument);
  const Error error = cache.Admit(scope, prompt, {.max_tokens = 20}).error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message.find("ssss"), std::string::npos) << "a salt is a secret";
  EXPECT_EQ(cache.Lookup(TestScope(), prompt, 3).error().code, ErrorCode::kInvalidArgument);
}

TEST(HostileTest, AnyTokenIsData) {
  Cache cache = MakeSmallCache();
  std::vector<TokenId> prompt(40, -1);
  prompt[3] = std::numeric_limits<TokenId>::min();
  prompt[4] = std::numeric_limits<TokenId>::max();
  EXPECT_EQ(Remember(cache, prompt), 0u);
  EXPECT_EQ(Remember(cache, prompt), 39u);
  EXPECT_EQ(cache.Probe(TestScope(), {})->hit_tokens, 0u);
}

TEST(HostileTest, HandlesOfAnotherCacheAreRefused) {
  Cache one = MakeSmallCache();
  Cache two = MakeSmallCache();
  Remember(one, Numbers(1, 64));
  Remember(two, Numbers(1, 64));
  Expected<LookupResult> found = one.Lookup(TestScope(), Numbers(1, 64));
  EXPECT_EQ(two.Pin(std::move(found->lease)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(one.Reset()) << "the lease was consumed";
  Remember(one, Numbers(1, 64));
  Expected<LookupResult> again = one.Lookup(TestScope(), Numbers(1, 64));
  const PinId pin = *one.Pin(std::move(again->lease));
  EXPECT_EQ(two.Unpin(pin).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(one.Unpin({}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(one.Unpin({.cache = pin.cache, .slot = 0xFFFFFFFF, .generation = 1}).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(one.Unpin({.cache = pin.cache, .slot = pin.slot, .generation = pin.generation + 1})
                .error()
                .code,
            ErrorCode::kNotFound);
  EXPECT_TRUE(one.Unpin(pin));
}

TEST(HostileTest, AnEmptyLeaseCannotBePinned) {
  Cache cache = MakeSmallCache();
  Expected<LookupResult> nothing = cache.Lookup(TestScope(), Numbers(1, 64));
  EXPECT_TRUE(nothing->lease.empty());
  EXPECT_EQ(nothing->lease.Block(0, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache.Pin(std::move(nothing->lease)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache.Pin(std::move(nothing->lease)).error().code,  // NOLINT(bugprone-use-after-move)
            ErrorCode::kInvalidArgument);
}

TEST(HostileTest, AGroupThatDoesNotExistIsRefused) {
  Cache cache = MakeSmallCache();
  const Sequence sequence = Start(cache, {}, {.max_tokens = 16});
  for (const std::uint32_t group : {1u, 0xFFFFFFFFu}) {
    EXPECT_EQ(cache.SizesOf(group).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(sequence.Blocks(group).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(sequence.Addresses(group).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(HostileTest, AMovedCacheFailsEveryCall) {
  Cache cache = MakeSmallCache();
  const Cache moved = std::move(cache);
  // NOLINTBEGIN(bugprone-use-after-move): it is documented
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(cache.groups() + cache.max_blocks() + cache.memory_bytes() + cache.live_sequences() +
                cache.pinned_bytes() + cache.counters().admitted + cache.Memory().memory_bytes,
            0u);
  EXPECT_EQ(cache.SizesOf(0).error().code, kInvalid);
  EXPECT_FALSE(cache.Find({}));
  EXPECT_TRUE(cache.LayoutFingerprint().empty());
  EXPECT_EQ(cache.Probe(TestScope(), {}).error().code, kInvalid);
  EXPECT_EQ(cache.Lookup(TestScope(), {}).error().code, kInvalid);
  EXPECT_EQ(cache.Admit(TestScope(), {}, {.max_tokens = 1}).error().code, kInvalid);
  EXPECT_EQ(cache.BlocksNeeded({.max_tokens = 1}).error().code, kInvalid);
  EXPECT_EQ(cache.Unpin({}).error().code, kInvalid);
  EXPECT_EQ(cache.Resize(1 << 20).error().code, kInvalid);
  EXPECT_EQ(cache.ReadEvents(1, 1).error().code, kInvalid);
  EXPECT_EQ(cache.TakeSnapshot().error().code, kInvalid);
  EXPECT_TRUE(cache.TakeCopies().empty());
  EXPECT_FALSE(cache.Reset());
  cache.ResetAll();
  cache.Invalidate();
  cache.CheckInvariants();
  // NOLINTEND(bugprone-use-after-move)
}

TEST(HostileTest, AClockOfNonsenseDoesNoHarm) {
  std::int64_t now_ns = std::numeric_limits<std::int64_t>::min();
  Cache cache =
      MakeCache(SmallLayout(), {.memory_bytes = 1 << 16, .now_ns = [&now_ns] { return now_ns; }});
  for (const std::int64_t time : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0},
                                  std::numeric_limits<std::int64_t>::max(), std::int64_t{-5}}) {
    now_ns = time;
    Sequence sequence =
        Start(cache, Numbers(1, 64),
              {.max_tokens = 64, .retention = {.level = 7, .ttl_ns = std::int64_t{1} << 60}});
    Store(sequence, Numbers(static_cast<TokenId>(1 + sequence.size()), 64 - sequence.size()));
    sequence.Release();
    cache.CheckInvariants();
  }
}

}  // namespace
}  // namespace ashlar::cache
