// `ashlar bench cache`: what the cache's operations cost, and how far that depends on its size.
//
// The caches have the bookkeeping of a real one and no bytes (has_bytes = false), so a million
// blocks fit anywhere. Operations are timed in sequences of kSequenceBlocks blocks; a sequence is
// chosen at random among all in the cache, so that in a large cache its records are in no
// processor cache: that is what growth with size must be made of, and the same run measures how
// long such a load takes (random_access, over as many bytes as the cache's records have).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench_report.h"
#include "base/result.h"
#include "kv/replacement.h"

namespace ashlar::apps {

inline constexpr std::uint64_t kMinBenchBlocks = 512;
inline constexpr std::uint64_t kMaxBenchBlocks = 4'000'000;  // some 1.5 GB of records

struct CacheBenchOptions {
  std::vector<std::uint64_t> blocks = {1'000, 10'000, 100'000, 1'000'000};  // smallest first
  std::vector<kv::ReplacementKind> policies = {kv::kReplacementKinds.begin(),
                                               kv::kReplacementKinds.end()};
  std::int64_t min_time_ms = 100;  // of each figure
  std::string only;                // a name of CacheBenchNames; empty: all
};

// "allocate", "append", ..., "fragmentation".
std::span<const std::string_view> CacheBenchNames();

Status RunCacheBench(const CacheBenchOptions& options, BenchReport& report);

// Several lane groups of different block sizes in one arena, under a random load: how much of it
// cannot be used. See bench_fragmentation.cc.
Status RunFragmentationBench(BenchReport& report);

}  // namespace ashlar::apps
