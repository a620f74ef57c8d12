#include "load/results.h"

#include <algorithm>

namespace ashlar::load {

void PieceTimeline::Add(std::int64_t now_ns) {
  now_ns = std::max<std::int64_t>(now_ns, 0);
  while (now_ns / bin_ns_ >= static_cast<std::int64_t>(kBins)) {
    for (std::size_t i = 0; i < bins_.size(); i += 2) {
      bins_[i / 2] = bins_[i] + (i + 1 < bins_.size() ? bins_[i + 1] : 0);
    }
    bins_.resize((bins_.size() + 1) / 2);
    bin_ns_ *= 2;
  }
  const auto bin = static_cast<std::size_t>(now_ns / bin_ns_);
  if (bin >= bins_.size()) bins_.resize(bin + 1);
  ++bins_[bin];
}

std::int64_t NsPerOutputToken(const RequestRecord& record) {
  if (record.completion_tokens < 2) return 0;
  return (record.last_ns - record.first_ns) /
         static_cast<std::int64_t>(record.completion_tokens - 1);
}

void Results::OnPiece(std::int64_t now_ns, std::optional<std::int64_t> gap_ns) {
  ++totals_.pieces;
  timeline_.Add(now_ns);
  if (gap_ns) itl_.Add(*gap_ns);
}

bool Results::IsGood(const RequestRecord& record) const {
  const std::int64_t ttft_ns = record.first_ns - record.intended_ns;
  return (targets_.ttft_ns == 0 || ttft_ns <= targets_.ttft_ns) &&
         (targets_.itl_ns == 0 || NsPerOutputToken(record) <= targets_.itl_ns);
}

void Results::OnSuccess(const RequestRecord& record, const std::optional<AnswerUsage>& usage) {
  ++totals_.completed;
  totals_.prompt_tokens += record.prompt_tokens;
  totals_.completion_tokens += record.completion_tokens;
  if (usage) {
    says_usage_ = true;
    says_cached_ |= usage->cached_tokens.has_value();
    totals_.cached_tokens += usage->cached_tokens.value_or(0);
  }
  if (IsGood(record)) {
    ++totals_.good_requests;
    totals_.good_tokens += record.completion_tokens;
  }
  delay_.Add(record.sent_ns - record.intended_ns);
  ttft_.Add(record.first_ns - record.intended_ns);
  e2e_.Add(record.end_ns - record.intended_ns);
  if (record.completion_tokens > 1) tpot_.Add(NsPerOutputToken(record));
  records_.push_back(record);
}

void Results::OnFailure(const RequestRecord& record, const Failure& failure) {
  ++totals_.failed;
  records_.push_back(record);
  const bool has_room = failures_.size() < kMaxFailureKinds || failures_.contains(failure.kind);
  FailureCount& count = failures_[has_room ? failure.kind : "other"];
  if (count.count++ == 0) count.example = failure.message;
}

void Results::OnRunning(std::size_t running) {
  totals_.most_running = std::max(totals_.most_running, running);
}

}  // namespace ashlar::load
