#include "load/figures.h"

#include <fmt/format.h>

#include <algorithm>

namespace ashlar::load {

Rates RatesOf(const RunInfo& info, const Results& results) {
  const Results::Totals& totals = results.totals();
  const double per_s = info.duration_s > 0 ? 1 / info.duration_s : 0;
  return {.requests_per_s = static_cast<double>(totals.completed) * per_s,
          .prompt_tokens_per_s = static_cast<double>(totals.prompt_tokens) * per_s,
          .completion_tokens_per_s = static_cast<double>(totals.completion_tokens) * per_s,
          .good_requests_per_s = static_cast<double>(totals.good_requests) * per_s,
          .good_tokens_per_s = static_cast<double>(totals.good_tokens) * per_s,
          .tokens_per_piece = totals.pieces == 0 ? 0
                                                 : static_cast<double>(totals.completion_tokens) /
                                                       static_cast<double>(totals.pieces)};
}

bool HasTargets(const Results& results) {
  return results.targets().ttft_ns > 0 || results.targets().itl_ns > 0;
}

std::array<Latency, 5> LatenciesOf(const Results& results) {
  return {Latency{"ttft", "from the intended start to the first text", &results.ttft()},
          Latency{"itl", "between two pieces of text", &results.itl()},
          Latency{"tpot", "per token after the first, of each request", &results.tpot()},
          Latency{"e2e", "from the intended start to the end of the answer", &results.e2e()},
          Latency{"delay", "from the intended start to the request being sent", &results.delay()}};
}

std::array<double, kColumns.size()> ColumnsOf(const LatencyHistogram& histogram) {
  return {histogram.mean_ns() / 1e6,        Ms(histogram.PercentileNs(0.5)),
          Ms(histogram.PercentileNs(0.9)),  Ms(histogram.PercentileNs(0.95)),
          Ms(histogram.PercentileNs(0.99)), Ms(histogram.max_ns())};
}

std::vector<std::pair<std::string, std::string>> SummaryLines(const RunInfo& info,
                                                              const Results& results) {
  const Results::Totals& totals = results.totals();
  const Rates rates = RatesOf(info, results);
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back(
      "requests",
      fmt::format("{} completed, {} failed{}{}, at most {} at a time", totals.completed,
                  totals.failed,
                  results.skipped() > 0 ? fmt::format(", {} skipped", results.skipped()) : "",
                  info.is_interrupted ? ", interrupted" : "", totals.most_running));
  lines.emplace_back(
      "time", fmt::format("{:.2f} s, {:.2f} requests/s", info.duration_s, rates.requests_per_s));
  if (results.says_cached() && totals.prompt_tokens > 0) {
    const double share =
        static_cast<double>(totals.cached_tokens) / static_cast<double>(totals.prompt_tokens);
    lines.emplace_back("prompt tokens", fmt::format("{}, of them {} cached ({:.1f}%), {:.1f}/s",
                                                    totals.prompt_tokens, totals.cached_tokens,
                                                    100 * share, rates.prompt_tokens_per_s));
  } else {
    lines.emplace_back("prompt tokens", fmt::format("{}, {:.1f}/s", totals.prompt_tokens,
                                                    rates.prompt_tokens_per_s));
  }
  lines.emplace_back(
      "completion tokens",
      fmt::format("{}, {:.1f}/s, {:.2f} in a piece of the stream{}", totals.completion_tokens,
                  rates.completion_tokens_per_s, rates.tokens_per_piece,
                  results.says_usage() ? "" : " (pieces: the server counts none)"));
  if (HasTargets(results)) {
    std::string targets;
    if (results.targets().ttft_ns > 0) {
      targets += fmt::format(" TTFT <= {:g} ms", Ms(results.targets().ttft_ns));
    }
    if (results.targets().itl_ns > 0) {
      targets += fmt::format(" ITL <= {:g} ms", Ms(results.targets().itl_ns));
    }
    lines.emplace_back("goodput",
                       fmt::format("{} requests within{}: {:.2f} requests/s, {:.1f} tokens/s",
                                   totals.good_requests, targets, rates.good_requests_per_s,
                                   rates.good_tokens_per_s));
  }
  return lines;
}

}  // namespace ashlar::load
