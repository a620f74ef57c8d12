// The cache alone: request after request in the trace's order, one at a time, without time. What
// is left is what the cache can do at best, and comparable with published curves.
//
// Where the trace names the blocks of its prompts (hash ids), those are the cache's blocks, however
// many tokens they stand for, and a hit is counted by the block. Otherwise blocks are the layout's
// and hits are counted by the token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "kv/replacement.h"
#include "simulate/results.h"
#include "trace/request.h"

namespace ashlar::simulate {

struct CacheRunOptions {
  std::uint64_t capacity_blocks = 0;  // of the trace's, or the layout's; 0: unlimited
  kv::ReplacementKind replacement = kv::ReplacementKind::kLru;
  std::uint64_t hash_block_tokens = 512;
  std::uint32_t block_tokens = 16;  // of a trace without hash ids
};

// Called now and then with the number of requests so far.
using Progress = std::function<void(std::uint64_t requests)>;

// Opens the same trace from its beginning, each time.
using OpenSource = std::function<Result<std::unique_ptr<trace::Source>>()>;

// A request that is longer than the capacity is served and kept as far as it fits. Without a
// capacity the trace is read twice, the first time to count what differs. Errors: the source's;
// kInvalidArgument for a capacity that is too large.
Status RunCache(const OpenSource& open, const CacheRunOptions& options, const Progress& progress,
                Results& results);

// The same under the optimum (Belady, 1966): the block that is needed last leaves, of those needed
// together the last. Needs the future: the trace is read first, which takes 8 bytes for each block
// of each request, and about 100 for each block that differs. Errors: of RunCache;
// kResourceExhausted for more than 2^31 blocks in all.
Status RunOptimum(const OpenSource& open, const CacheRunOptions& options, const Progress& progress,
                  Results& results);

}  // namespace ashlar::simulate
