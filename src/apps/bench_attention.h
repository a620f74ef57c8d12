// `ashlar bench attention`: how near attention over the cache's blocks comes to what the machine
// can do, which is measured in the same run, in turns with it.
//
//   decode    one sequence of `context` tokens takes a step
//   batch     kBatchSequences of them do: with a prefix of `context` tokens each, or one for all
//   prefill   a chunk of kChunkTokens tokens that follow `context` others
//
// A step of decode or batch runs through all layers that are held, so that it reads what a step of
// the model reads; between two steps the limit's turn empties the caches. Prefill takes one layer
// a turn. What a step of the model takes is scaled from the layers that ran. A ratio is the median
// over rounds of a step's speed to that of the limit's turns just before and after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/bench_attention_rig.h"
#include "apps/bench_limits.h"
#include "apps/bench_report.h"
#include "base/result.h"

namespace ashlar::apps {

inline constexpr std::size_t kBatchSequences = 16;
inline constexpr std::size_t kChunkTokens = 512;
inline constexpr std::uint64_t kMinBenchContext = 256;  // one block of the largest size
inline constexpr std::uint64_t kMaxBenchContext = std::uint64_t{1} << 20;

enum class AttentionCase : std::uint8_t { kDecode, kBatch, kPrefill };
inline constexpr std::string_view kAttentionCaseNames[] = {"decode", "batch", "prefill"};

struct AttentionBenchOptions {
  std::vector<AttentionGeometry> geometries;
  std::vector<std::uint64_t> contexts;  // tokens, multiples of block_tokens
  std::vector<CodecPair> codecs;
  std::vector<AttentionCase> cases;
  std::uint32_t block_tokens = 16;
  std::size_t threads = 1;
  kernels::Isa isa = kernels::Isa::kReference;
  std::uint64_t memory_bytes = 0;  // most bytes of blocks
  std::uint64_t limit_buffer_bytes = LimitMeter::kBufferBytes;
  std::int64_t min_time_ms = 1000;  // of each figure; three rounds at least unless they take long
};

// What does not fit into memory_bytes is left out, with a line on stderr; an error if that is all.
// Other errors: those of AttentionRig::Check, before anything is printed.
Status RunAttentionBench(const AttentionBenchOptions& options, BenchReport& report);

}  // namespace ashlar::apps
