#include "server/request_metrics.h"

#include <algorithm>
#include <array>

namespace ashlar::server {
namespace {

// vLLM's.
constexpr std::array kChoices = {1.0, 2.0, 5.0, 10.0, 20.0};
constexpr std::array kRequestSeconds = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                        5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                        60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr std::array kTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                      0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
// Ours: from a health check to a long stream.
constexpr std::array kHttpSeconds = {0.001, 0.005, 0.025, 0.1,  0.25, 0.5,  1.0,
                                     2.5,   5.0,   10.0,  30.0, 60.0, 300.0};

constexpr double Seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Methods are the client's to invent; labels are not.
std::string MethodLabel(const std::string& method) {
  constexpr std::array<std::string_view, 7> kKnown = {"GET",    "HEAD",    "POST", "PUT",
                                                      "DELETE", "OPTIONS", "PATCH"};
  return std::ranges::find(kKnown, method) != kKnown.end() ? method : "other";
}

}  // namespace

std::vector<double> Bounds125(std::uint64_t most) {
  std::vector<double> bounds;
  for (std::uint64_t decade = 1; bounds.size() < Histogram::kMaxBounds; decade *= 10) {
    for (const std::uint64_t mantissa : {1, 2, 5}) {
      const std::uint64_t bound = mantissa * decade;
      if (bound > most || bounds.size() == Histogram::kMaxBounds) return bounds;
      bounds.push_back(static_cast<double>(bound));
    }
  }
  return bounds;
}

RequestMetrics::Values::Values(std::uint64_t max_context)
    : prompt_tokens(Bounds125(max_context)),
      generation_tokens(Bounds125(max_context)),
      max_generation_tokens(Bounds125(max_context)),
      n(kChoices),
      max_tokens(Bounds125(max_context)),
      computed_tokens(Bounds125(max_context)),
      e2e(kRequestSeconds),
      inference(kRequestSeconds),
      prefill(kRequestSeconds),
      decode(kRequestSeconds),
      time_per_token(kTokenSeconds) {}

void RequestMetrics::OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) {
  (void)request;
  const engine::Usage& usage = sequence.usage;
  const std::lock_guard lock(mutex_);
  ++values_.ended[static_cast<std::size_t>(sequence.ending)];
  values_.generation_tokens.Observe(static_cast<double>(sequence.completion_tokens));
  if (usage.prompt_tokens > 0) {  // the beams of a search have one prompt together
    values_.prompt_tokens.Observe(static_cast<double>(usage.prompt_tokens));
    values_.computed_tokens.Observe(static_cast<double>(usage.prompt_tokens - usage.cached_tokens));
  }
  values_.e2e.Observe(Seconds(sequence.e2e_ns));
  if (usage.ttft_ns == 0) return;  // it never came to a token
  values_.prefill.Observe(Seconds(usage.prefill_ns));
  values_.decode.Observe(Seconds(usage.decode_ns));
  values_.inference.Observe(Seconds(usage.prefill_ns + usage.decode_ns));
  if (usage.completion_tokens > 1) {
    values_.time_per_token.Observe(Seconds(usage.decode_ns) /
                                   static_cast<double>(usage.completion_tokens - 1));
  }
}

void RequestMetrics::OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) {
  const std::string route(record.route);
  const std::lock_guard lock(mutex_);
  ++values_.requests[{MethodLabel(record.method), route, record.status}];
  values_.seconds.try_emplace(route, kHttpSeconds).first->second.Observe(Seconds(duration_ns));
  if (const auto& generation = record.generation) {
    values_.n.Observe(static_cast<double>(generation->n));
    if (generation->max_tokens)
      values_.max_tokens.Observe(static_cast<double>(*generation->max_tokens));
    values_.max_generation_tokens.Observe(static_cast<double>(generation->longest_completion));
  }
}

void RequestMetrics::OnRefused(int status) {
  const std::lock_guard lock(mutex_);
  ++values_.refused[status];
}

RequestMetrics::Values RequestMetrics::Read() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

}  // namespace ashlar::server
