// What a run showed. The first part is counted in both modes, the second in serve mode only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/latency_histogram.h"
#include "kv/miss.h"

namespace ashlar::simulate {

// 0: no target.
struct LatencyTargets {
  std::int64_t ttft_ns = 0;
  std::int64_t itl_ns = 0;  // of a request's mean gap between tokens
};

// The state over time in at most kBins bins, whose width doubles as a run gets longer; of each bin
// the most that was seen.
class Timeline {
 public:
  static constexpr std::size_t kBins = 512;
  struct Sample {
    std::uint64_t live_bytes = 0;
    std::uint64_t idle_bytes = 0;
    std::uint64_t running = 0;
    std::uint64_t waiting = 0;
  };
  // Times never decrease. O(1) amortised.
  void Add(std::int64_t now_ns, const Sample& sample);
  std::int64_t bin_ns() const { return bin_ns_; }
  const std::vector<Sample>& bins() const { return bins_; }

 private:
  std::int64_t bin_ns_ = 1'000'000;
  std::vector<Sample> bins_;
};

struct Results {
  std::uint64_t requests = 0;  // that were served
  std::uint64_t refused = 0;   // the queue was full
  std::uint64_t too_long = 0;  // they can never fit; in cache mode: served as far as they fit
  std::uint64_t skipped = 0;   // bad lines of the trace
  std::uint64_t prompt_tokens = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t blocks_total = 0;  // of prompts, begun ones too
  std::uint64_t blocks_hit = 0;    // whole ones
  std::uint64_t replaced_blocks = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t capacity_blocks = 0;  // of one lane group, if the model has one only; else 0
  // By kv::MissReason: admissions, and prompt tokens of theirs that had to be computed.
  std::array<std::uint64_t, kv::kMissReasons> misses = {};
  std::array<std::uint64_t, kv::kMissReasons> missed_tokens = {};

  LatencyTargets targets;
  LatencyHistogram ttft;            // from arrival to the first token
  LatencyHistogram itl;             // between two tokens of a request
  LatencyHistogram tpot;            // a request's mean gap
  LatencyHistogram e2e;             // from arrival to the last token
  LatencyHistogram queue;           // from arrival to admission
  std::uint64_t good_requests = 0;  // within both targets
  std::uint64_t good_tokens = 0;
  std::uint64_t growth_preemptions = 0;  // for a running sequence that needed memory
  std::uint64_t urgent_preemptions = 0;  // for a more urgent one that waited
  std::uint64_t recomputed_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t prefill_tokens = 0;
  std::uint64_t decode_tokens = 0;
  std::int64_t busy_ns = 0;      // in steps
  std::int64_t duration_ns = 0;  // from the first arrival to the last end
  std::uint64_t peak_live_bytes = 0;
  Timeline timeline;

  std::uint64_t preemptions() const { return growth_preemptions + urgent_preemptions; }
};

double Share(std::uint64_t part, std::uint64_t whole);  // 0 of nothing

}  // namespace ashlar::simulate
