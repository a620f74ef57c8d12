#include "simulate/figures.h"

#include <string>
#include <utility>

namespace ashlar::simulate {
namespace {

ReportJson LatencyJson(const LatencyHistogram& histogram) {
  ReportJson json = ReportJson::object();
  const auto columns = ColumnsOf(histogram);
  for (std::size_t i = 0; i < columns.size(); ++i) json[std::string(kColumns[i])] = columns[i];
  return json;
}

void AddServe(const Results& results, ReportJson& json) {
  for (const Latency& latency : LatenciesOf(results)) {
    json[fmt::format("{}_ms", latency.name)] = LatencyJson(*latency.histogram);
  }
  json["duration_s"] = Seconds(results.duration_ns);
  json["busy_s"] = Seconds(results.busy_ns);
  json["steps"] = results.steps;
  json["prefill_tokens"] = results.prefill_tokens;
  json["decode_tokens"] = results.decode_tokens;
  json["output_tokens_per_s"] = PerSecond(results, results.output_tokens);
  json["good_requests"] = results.good_requests;
  json["good_requests_per_s"] = PerSecond(results, results.good_requests);
  json["good_tokens_per_s"] = PerSecond(results, results.good_tokens);
  json["preemptions"] = results.preemptions();
  json["preemptions_by_kind"] = {{"growth", results.growth_preemptions},
                                 {"urgent", results.urgent_preemptions}};
  json["recomputed_tokens"] = results.recomputed_tokens;
  json["kv_bytes_reserved"] = results.arena_bytes;
  json["kv_bytes_live_peak"] = results.peak_live_bytes;
}

}  // namespace

double PerSecond(const Results& results, std::uint64_t count) {
  return results.duration_ns == 0 ? 0 : static_cast<double>(count) / Seconds(results.duration_ns);
}

std::array<Latency, 5> LatenciesOf(const Results& results) {
  return {Latency{"ttft", "from arrival to the first token", &results.ttft},
          Latency{"itl", "between two tokens", &results.itl},
          Latency{"tpot", "per token after the first, of each request", &results.tpot},
          Latency{"e2e", "from arrival to the last token", &results.e2e},
          Latency{"queue", "from arrival to admission", &results.queue}};
}

std::array<double, kColumns.size()> ColumnsOf(const LatencyHistogram& histogram) {
  return {histogram.mean_ns() / 1e6,        Ms(histogram.PercentileNs(0.5)),
          Ms(histogram.PercentileNs(0.9)),  Ms(histogram.PercentileNs(0.95)),
          Ms(histogram.PercentileNs(0.99)), Ms(histogram.max_ns())};
}

ReportJson JsonOf(const Run& run) {
  const Results& results = run.results;
  ReportJson params = run.params;
  params.update(run.setting);
  ReportJson json = {{"name", "simulate"},
                     {"mode", run.mode == Mode::kServe ? "serve" : "cache"},
                     {"params", std::move(params)},
                     {"requests", results.requests},
                     {"refused", results.refused},
                     {"too_long", results.too_long},
                     {"skipped_lines", results.skipped},
                     {"blocks_total", results.blocks_total},
                     {"blocks_hit", results.blocks_hit},
                     {"hit_rate_blocks", Share(results.blocks_hit, results.blocks_total)},
                     {"prompt_tokens", results.prompt_tokens},
                     {"hit_tokens", results.hit_tokens},
                     {"hit_rate_tokens", Share(results.hit_tokens, results.prompt_tokens)},
                     {"hit_tokens_by_tier", {{"ram", results.hit_tokens}}},
                     {"output_tokens", results.output_tokens},
                     {"capacity_blocks", results.capacity_blocks},
                     {"replaced_blocks", results.replaced_blocks}};
  ReportJson misses = ReportJson::object();
  for (std::size_t i = 0; i < results.misses.size(); ++i) {
    misses[std::string(kv::NameOf(static_cast<kv::MissReason>(i)))] = {
        {"requests", results.misses[i]}, {"tokens", results.missed_tokens[i]}};
  }
  json["misses"] = std::move(misses);
  if (run.mode == Mode::kServe) AddServe(results, json);
  return json;
}

}  // namespace ashlar::simulate
