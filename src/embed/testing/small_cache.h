// What the tests of the surface share: small layouts, and a sequence driven like an engine does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ashlar/kv_cache.h"

namespace ashlar::cache::testing {

inline LaneGroup SmallGroup(const char* name, std::uint32_t layer) {
  return {.name = name,
          .lanes = LanesOf({.first = layer, .count = 1}, 1),
          .key_dim = 8,
          .value_dim = 8};
}

// One group, blocks of 16 tokens and 512 bytes.
inline Layout SmallLayout() { return {.groups = {SmallGroup("full", 0)}}; }
inline constexpr std::uint64_t kSmallBlockBytes = 512;

// And one of the same size with a window and sinks.
inline Layout HybridLayout() {
  Layout layout = SmallLayout();
  layout.groups.push_back(SmallGroup("sliding", 1));
  layout.groups.back().window = 40;
  layout.groups.back().sinks = 4;
  return layout;
}

inline Cache MakeCache(const Layout& layout, CacheOptions options) {
  Expected<Cache> cache = Cache::Create(layout, std::move(options));
  EXPECT_TRUE(cache) << (cache ? "" : cache.error().message);
  return std::move(cache).value();
}
inline Cache MakeSmallCache() { return MakeCache(SmallLayout(), {.memory_bytes = 256 * 1024}); }

inline std::vector<TokenId> Numbers(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

inline Scope TestScope() { return {.model = "test", .codec = "f16"}; }

// Admits; expects it to work.
inline Sequence Start(Cache& cache, std::span<const TokenId> prompt, AdmitOptions options) {
  Expected<Admission> admission = cache.Admit(TestScope(), prompt, options);
  EXPECT_TRUE(admission) << (admission ? "" : admission.error().message);
  EXPECT_EQ(admission->status, AdmitStatus::kAdmitted);
  return std::move(*admission->sequence);
}

// Prepares and commits; expects it to work.
inline void Store(Sequence& sequence, std::span<const TokenId> tokens) {
  const Expected<void> prepared = sequence.Prepare(tokens.size());
  ASSERT_TRUE(prepared) << prepared.error().message;
  const Expected<void> committed = sequence.Commit(tokens);
  ASSERT_TRUE(committed) << committed.error().message;
}

// Admits a prompt, stores what was no hit, and lets it go: the cache knows it afterwards.
inline std::uint64_t Remember(Cache& cache, std::span<const TokenId> prompt) {
  Sequence sequence = Start(cache, prompt, {.max_tokens = prompt.size()});
  const std::uint64_t hit = sequence.size();
  Store(sequence, prompt.subspan(hit));
  return hit;
}

}  // namespace ashlar::cache::testing
