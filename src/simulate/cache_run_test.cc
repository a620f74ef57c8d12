// The production cache against counts of a few lines each, exactly.
#include "simulate/cache_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"
#include "simulate/synthetic.h"

namespace ashlar::simulate {
namespace {

using testing::HasSubstr;
using Trace = std::vector<trace::Request>;

class ListSource final : public trace::Source {
 public:
  explicit ListSource(const Trace& trace) : trace_(trace) {}
  Result<bool> Next(trace::Request& request) override {
    if (next_ == trace_.size()) return false;
    request = trace_[next_++];
    return true;
  }

 private:
  const Trace& trace_;
  std::size_t next_ = 0;
};

OpenSource Of(const Trace& trace) {
  return
      [&trace]() -> std::unique_ptr<trace::Source> { return std::make_unique<ListSource>(trace); };
}

// Prompts of one to 20 blocks down a tree of ids in which some branches are popular.
Trace MakeTrace(std::uint64_t seed, std::size_t requests) {
  Trace trace;
  std::map<std::vector<std::uint64_t>, std::uint64_t> ids;
  for (std::size_t i = 0; i < requests; ++i) {
    std::vector<std::uint64_t> path;
    trace::Request request = {.timestamp_ms = static_cast<double>(i), .output_tokens = 1};
    const std::size_t blocks = 1 + RandomBits(seed, 1, i) % 20;
    for (std::size_t block = 0; block < blocks; ++block) {
      const double unit = RandomUnit(seed, 2, i * 32 + block);
      path.push_back(static_cast<std::uint64_t>(6 * unit * unit * unit));
      request.hash_ids.push_back(ids.try_emplace(path, ids.size()).first->second);
    }
    request.input_tokens = blocks * 512 - RandomBits(seed, 3, i) % 512;
    request.max_tokens = 1;
    trace.push_back(std::move(request));
  }
  return trace;
}

Results Simulated(const Trace& trace, const CacheRunOptions& options) {
  Results results;
  const Status status = RunCache(Of(trace), options, [](std::uint64_t) {}, results);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return results;
}

Results RunBest(const Trace& trace, const CacheRunOptions& options) {
  Results results;
  const Status status = RunOptimum(Of(trace), options, [](std::uint64_t) {}, results);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return results;
}

// A block is a hit if it was seen before and all blocks before it are hits.
std::uint64_t CountUnlimited(const Trace& trace) {
  std::set<std::uint64_t> seen;
  std::uint64_t hits = 0;
  for (const trace::Request& request : trace) {
    const auto& ids = request.hash_ids;
    hits += static_cast<std::uint64_t>(
        std::ranges::find_if(ids, [&](std::uint64_t id) { return !seen.contains(id); }) -
        ids.begin());
    seen.insert(ids.begin(), ids.end());
  }
  return hits;
}

// The blocks of a request that is served stay; then they have been used, the first one last.
std::uint64_t CountLru(const Trace& trace, std::size_t capacity) {
  std::list<std::uint64_t> order;  // used longest ago first
  std::map<std::uint64_t, std::list<std::uint64_t>::iterator> cached;
  std::uint64_t hits = 0;
  for (const trace::Request& request : trace) {
    auto ids = request.hash_ids;
    ids.resize(std::min(ids.size(), capacity));
    hits += static_cast<std::uint64_t>(
        std::ranges::find_if(ids, [&](std::uint64_t id) { return !cached.contains(id); }) -
        ids.begin());
    for (const std::uint64_t id : ids) {
      if (const auto at = cached.find(id); at != cached.end()) order.erase(at->second);
      cached[id] = order.end();
    }
    for (; order.size() + ids.size() > capacity; order.pop_front()) cached.erase(order.front());
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      cached[*id] = order.insert(order.end(), *id);
    }
  }
  return hits;
}

TEST(CacheRun, WithoutALimitBlocksAreHitAsAnIndependentCountSays) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Trace trace = MakeTrace(seed, 400);
    const Results results = Simulated(trace, {});
    EXPECT_EQ(results.blocks_hit, CountUnlimited(trace));
    EXPECT_EQ(results.requests, trace.size());
    EXPECT_EQ(results.replaced_blocks, 0U);
    EXPECT_EQ(results.too_long, 0U);
    std::uint64_t blocks = 0;
    std::uint64_t tokens = 0;
    for (const trace::Request& request : trace) {
      blocks += request.hash_ids.size();
      tokens += request.input_tokens;
    }
    EXPECT_EQ(results.blocks_total, blocks);
    EXPECT_EQ(results.prompt_tokens, tokens);
    EXPECT_LE(results.hit_tokens, tokens);
    EXPECT_EQ(RunBest(trace, {}).blocks_hit, results.blocks_hit);
  }
}

TEST(CacheRun, LruIsAnIndependentLru) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Trace trace = MakeTrace(seed, 400);
    for (const std::uint64_t capacity : {1, 7, 19, 20, 21, 64, 300, 1000}) {
      SCOPED_TRACE(capacity);
      EXPECT_EQ(Simulated(trace, {.capacity_blocks = capacity}).blocks_hit,
                CountLru(trace, capacity));
    }
  }
}

TEST(CacheRun, AWholePromptCanBeHitAndItsLastPartCountsInTokens) {
  const Trace trace = {
      {.input_tokens = 700, .output_tokens = 1, .max_tokens = 1, .hash_ids = {1, 2}},
      {.input_tokens = 700, .output_tokens = 1, .max_tokens = 1, .hash_ids = {1, 2}}};
  const Results results = Simulated(trace, {});
  EXPECT_EQ(results.blocks_hit, 2U);
  EXPECT_EQ(results.hit_tokens, 700U);
}

TEST(CacheRun, NoPolicyBeatsTheOptimum) {
  const Trace trace = MakeTrace(3, 600);
  for (const std::uint64_t capacity : {20, 60, 200}) {
    const std::uint64_t best = RunBest(trace, {.capacity_blocks = capacity}).blocks_hit;
    std::set<std::uint64_t> hits;
    for (const kv::ReplacementKind kind : kv::kReplacementKinds) {
      const Results results = Simulated(trace, {.capacity_blocks = capacity, .replacement = kind});
      EXPECT_LE(results.blocks_hit, best) << kv::NameOf(kind) << " " << capacity;
      hits.insert(results.blocks_hit);
    }
    EXPECT_GT(hits.size(), 2U);  // they do differ
    EXPECT_LE(best, CountUnlimited(trace));
  }
}

// All ways to choose, for traces small enough.
std::uint64_t BestOf(const Trace& trace, std::size_t at, std::set<std::uint64_t> cached,
                     std::size_t capacity) {
  if (at == trace.size()) return 0;
  const auto& ids = trace[at].hash_ids;
  std::uint64_t hits = 0;
  while (hits < ids.size() && cached.contains(ids[hits])) ++hits;
  cached.insert(ids.begin(), ids.end());
  std::uint64_t best = 0;
  const std::vector<std::uint64_t> all(cached.begin(), cached.end());
  const std::size_t excess = all.size() - std::min(all.size(), capacity);
  for (std::uint32_t leave = 0; leave < (1U << all.size()); ++leave) {
    if (static_cast<std::size_t>(std::popcount(leave)) != excess) continue;
    std::set<std::uint64_t> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (((leave >> i) & 1) == 0) kept.insert(all[i]);
    }
    best = std::max(best, BestOf(trace, at + 1, std::move(kept), capacity));
  }
  return hits + best;
}

TEST(CacheRun, TheOptimumIsTheBestOfAllChoices) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Trace trace = MakeTrace(seed, 5);
    for (trace::Request& request : trace) {
      request.hash_ids.resize(std::min<std::size_t>(request.hash_ids.size(), 3));
      request.input_tokens = request.hash_ids.size() * 512;
    }
    EXPECT_EQ(RunBest(trace, {.capacity_blocks = 4}).blocks_hit, BestOf(trace, 0, {}, 4)) << seed;
  }
}

TEST(CacheRun, ATraceWithoutIdsIsHitByTheToken) {
  const Trace trace = {
      {.input_tokens = 40, .output_tokens = 0, .prefixes = std::vector<std::uint32_t>(40, 1)},
      {.input_tokens = 50, .output_tokens = 0, .prefixes = std::vector<std::uint32_t>(50, 1)},
      {.input_tokens = 50, .output_tokens = 0, .prefixes = std::vector<std::uint32_t>(50, 1)}};
  const Results results = Simulated(trace, {.block_tokens = 16});
  EXPECT_EQ(results.hit_tokens, 40U + 50U);
  EXPECT_EQ(results.blocks_hit, 2U + 3U);
  EXPECT_EQ(results.blocks_total, 3U + 4U + 4U);
}

TEST(CacheRun, WhatARequestGeneratedServesTheNextTurn) {
  SyntheticOptions options = *SyntheticPreset("chat");
  options.requests = 300;
  options.pause_s = 1;
  const OpenSource open = [&]() -> std::unique_ptr<trace::Source> {
    return MakeSynthetic(options);
  };
  Results results;
  ASSERT_TRUE(RunCache(
                  open, {.hash_block_tokens = SyntheticOptions::kBlockTokens}, [](std::uint64_t) {},
                  results)
                  .ok());
  // All that is not new is hit: prefixes once each, and every turn's own part.
  std::set<std::uint64_t> seen;
  std::uint64_t hits = 0;
  const auto source = MakeSynthetic(options);
  for (trace::Request request; *source->Next(request);) {
    const std::size_t prompt = request.input_tokens / SyntheticOptions::kBlockTokens;
    for (std::size_t i = 0; i < prompt && seen.contains(request.hash_ids[i]); ++i) ++hits;
    seen.insert(request.hash_ids.begin(), request.hash_ids.end());
  }
  EXPECT_EQ(results.blocks_hit, hits);
  EXPECT_GT(hits, results.blocks_total / 2);
}

TEST(CacheRun, TheSameTraceGivesTheSameNumbers) {
  const Trace trace = MakeTrace(9, 200);
  for (const kv::ReplacementKind kind : kv::kReplacementKinds) {
    const CacheRunOptions options = {.capacity_blocks = 50, .replacement = kind};
    const Results a = Simulated(trace, options);
    const Results b = Simulated(trace, options);
    EXPECT_EQ(a.blocks_hit, b.blocks_hit);
    EXPECT_EQ(a.misses, b.misses);
    EXPECT_EQ(a.replaced_blocks, b.replaced_blocks);
  }
}

TEST(CacheRun, ATraceThatNamesOnlySomeBlocksIsRefused) {
  const Trace trace = {{.input_tokens = 512, .output_tokens = 1, .max_tokens = 1, .hash_ids = {1}},
                       {.input_tokens = 512, .output_tokens = 1, .max_tokens = 1}};
  Results results;
  const Status status = RunCache(Of(trace), {.capacity_blocks = 10}, [](std::uint64_t) {}, results);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("some of its prompts only"));
}

}  // namespace
}  // namespace ashlar::simulate
