// What a run measured: totals, distributions, what each request did and when. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/latency_histogram.h"
#include "load/answer_meter.h"

namespace ashlar::load {

// Times in ns from the beginning of the run.
struct RequestRecord {
  std::int64_t intended_ns = 0;  // when it should have begun; latencies count from here
  std::int64_t sent_ns = 0;
  std::int64_t first_ns = 0;  // its first text, or its end where there was none
  std::int64_t last_ns = 0;   // its last text
  std::int64_t end_ns = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  bool is_ok = false;
};

// 0: no target.
struct LatencyTargets {
  std::int64_t ttft_ns = 0;
  std::int64_t itl_ns = 0;  // of a request's mean gap between tokens
};

// Pieces of text over time in at most kBins bins, whose width doubles as a run gets longer.
class PieceTimeline {
 public:
  static constexpr std::size_t kBins = 1024;
  void Add(std::int64_t now_ns);
  std::int64_t bin_ns() const { return bin_ns_; }
  const std::vector<std::uint64_t>& bins() const { return bins_; }

 private:
  std::int64_t bin_ns_ = 50'000'000;
  std::vector<std::uint64_t> bins_;
};

class Results final : public PieceSink {
 public:
  explicit Results(const LatencyTargets& targets) : targets_(targets) {}

  void OnPiece(std::int64_t now_ns, std::optional<std::int64_t> gap_ns) override;
  void OnSuccess(const RequestRecord& record, const std::optional<AnswerUsage>& usage);
  void OnFailure(const RequestRecord& record, const Failure& failure);
  // Later turns of a conversation that had a failure.
  void OnSkipped(std::size_t requests) { skipped_ += requests; }
  void OnRunning(std::size_t running);

  struct Totals {
    std::uint64_t completed = 0;
    std::uint64_t failed = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t completion_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t good_requests = 0;  // within both targets
    std::uint64_t good_tokens = 0;    // that these generated
    std::uint64_t pieces = 0;
    std::size_t most_running = 0;
  };
  const Totals& totals() const { return totals_; }
  bool says_cached() const { return says_cached_; }  // the server counts cached tokens
  bool says_usage() const { return says_usage_; }    // and tokens at all
  std::size_t skipped() const { return skipped_; }
  const LatencyTargets& targets() const { return targets_; }

  const LatencyHistogram& ttft() const { return ttft_; }
  const LatencyHistogram& itl() const { return itl_; }
  const LatencyHistogram& tpot() const { return tpot_; }
  const LatencyHistogram& e2e() const { return e2e_; }
  // From the intended start to the request being sent: what the generator itself was late.
  const LatencyHistogram& delay() const { return delay_; }
  const PieceTimeline& timeline() const { return timeline_; }
  const std::vector<RequestRecord>& records() const { return records_; }  // in order of their ends

  struct FailureCount {
    std::uint64_t count = 0;
    std::string example;  // the first one's message
  };
  const std::map<std::string, FailureCount>& failures() const { return failures_; }

 private:
  static constexpr std::size_t kMaxFailureKinds = 64;

  bool IsGood(const RequestRecord& record) const;

  const LatencyTargets targets_;
  Totals totals_;
  bool says_cached_ = false;
  bool says_usage_ = false;
  std::size_t skipped_ = 0;
  LatencyHistogram ttft_;
  LatencyHistogram itl_;
  LatencyHistogram tpot_;
  LatencyHistogram e2e_;
  LatencyHistogram delay_;
  PieceTimeline timeline_;
  std::vector<RequestRecord> records_;
  std::map<std::string, FailureCount> failures_;
};

// (last - first) / (tokens - 1); 0 for a request of one token.
std::int64_t NsPerOutputToken(const RequestRecord& record);

}  // namespace ashlar::load
