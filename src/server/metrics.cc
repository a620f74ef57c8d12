#include "server/metrics.h"

#include <dirent.h>
#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/block_pool.h"
#include "kv/miss.h"
#include "server/metric_catalog.h"

namespace ashlar::server {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

double Seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

class Families {
 public:
  // vllm: metrics carry these.
  explicit Families(Labels model) : model_(std::move(model)) {}

  void Value(std::string_view name, double value, Labels labels = {}) {
    prometheus::ClientMetric& metric = Add(name, std::move(labels));
    if (families_.back().type == prometheus::MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }
  void Value(std::string_view name, std::uint64_t value, Labels labels = {}) {
    Value(name, static_cast<double>(value), std::move(labels));
  }

  void Distribution(std::string_view name, const Histogram& histogram, Labels labels = {}) {
    prometheus::ClientMetric::Histogram& out = Add(name, std::move(labels)).histogram;
    out.sample_count = histogram.count();
    out.sample_sum = histogram.sum();
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
      below += histogram.counts()[i];
      out.bucket.push_back({.cumulative_count = below, .upper_bound = histogram.bounds()[i]});
    }
    // The serializer adds the bucket of infinity, from the count.
  }

  // A family without a series yet.
  void Declare(std::string_view name) { (void)FamilyOf(name); }

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::MetricFamily& FamilyOf(std::string_view name) {
    if (families_.empty() || families_.back().name != name) {
      const MetricInfo& info = MetricNamed(name);
      families_.push_back({.name = std::string(name),
                           .help = std::string(info.help),
                           .type = info.type,
                           .metric = {}});
    }
    return families_.back();
  }

  prometheus::ClientMetric& Add(std::string_view name, Labels labels) {
    prometheus::MetricFamily& family = FamilyOf(name);
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    if (name.starts_with("vllm:")) metric.label = model_;
    metric.label.insert(metric.label.end(), std::make_move_iterator(labels.begin()),
                        std::make_move_iterator(labels.end()));
    return metric;
  }

  const Labels model_;
  std::vector<prometheus::MetricFamily> families_;
};

// Whole sets of blocks, one of every group, that the arena holds.
std::uint64_t BlocksInArena(const MetricSources& sources) {
  const std::uint64_t bytes = sources.info.kv_bytes_per_token * sources.info.block_tokens;
  return bytes == 0 ? 0 : sources.report.memory.arena_bytes / bytes;
}

double LiveBytes(const kv::MemoryReport& memory) {
  double bytes = 0;
  for (const kv::MemoryRow& row : memory.rows) {
    if (row.state != kv::BlockState::kIdle) bytes += static_cast<double>(row.bytes);
  }
  return bytes;
}

void AddVllmState(const MetricSources& sources, Families& out) {
  const engine::ServiceStats& stats = sources.report.stats;
  const bool is_asleep = sources.report.is_sleeping;
  out.Value("vllm:num_requests_running", stats.running);
  out.Value("vllm:num_requests_waiting", stats.waiting);
  out.Value("vllm:engine_sleep_state", is_asleep ? 0.0 : 1.0, {{"sleep_state", "awake"}});
  out.Value("vllm:engine_sleep_state", is_asleep ? 1.0 : 0.0,
            {{"sleep_state", "weights_offloaded"}});
  out.Value("vllm:engine_sleep_state", 0.0, {{"sleep_state", "discard_all"}});
  const kv::MemoryReport& memory = sources.report.memory;
  out.Value(
      "vllm:kv_cache_usage_perc",
      memory.arena_bytes == 0 ? 0.0 : LiveBytes(memory) / static_cast<double>(memory.arena_bytes));
}

void AddVllmTokens(const MetricSources& sources, Families& out) {
  const engine::ServiceStats& stats = sources.report.stats;
  out.Value("vllm:prefix_cache_queries_total", stats.prompt_tokens);
  out.Value("vllm:prefix_cache_hits_total", stats.cached_tokens);
  out.Value("vllm:num_preemptions_total", stats.preemptions);
  out.Value("vllm:prompt_tokens_total", stats.prompt_tokens);
  out.Value("vllm:prompt_tokens_by_source_total", stats.prompt_tokens - stats.cached_tokens,
            {{"source", "local_compute"}});
  out.Value("vllm:prompt_tokens_by_source_total", stats.cached_tokens,
            {{"source", "local_cache_hit"}});
  out.Value("vllm:prompt_tokens_cached_total", stats.cached_tokens);
  out.Value("vllm:generation_tokens_total", stats.generated_tokens);
  out.Value("vllm:spec_decode_num_draft_tokens_total", stats.guessed_tokens);
  out.Value("vllm:spec_decode_num_accepted_tokens_total", stats.accepted_tokens);
  for (std::size_t i = 0; i < kEndings; ++i) {
    out.Value("vllm:request_success_total", sources.requests.ended[i],
              {{"finished_reason", std::string(NameOf(static_cast<Ending>(i)))}});
  }
}

void AddVllmHistograms(const MetricSources& sources, Families& out) {
  const engine::EngineHistograms& engine = sources.report.histograms;
  const RequestMetrics::Values& requests = sources.requests;
  out.Distribution("vllm:iteration_tokens_total", engine.step_tokens);
  out.Distribution("vllm:request_prompt_tokens", requests.prompt_tokens);
  out.Distribution("vllm:request_generation_tokens", requests.generation_tokens);
  out.Distribution("vllm:request_max_num_generation_tokens", requests.max_generation_tokens);
  out.Distribution("vllm:request_params_n", requests.n);
  out.Distribution("vllm:request_params_max_tokens", requests.max_tokens);
  out.Distribution("vllm:request_prefill_kv_computed_tokens", requests.computed_tokens);
  out.Distribution("vllm:time_to_first_token_seconds", engine.ttft);
  out.Distribution("vllm:inter_token_latency_seconds", engine.itl);
  out.Distribution("vllm:request_time_per_output_token_seconds", requests.time_per_token);
  out.Distribution("vllm:e2e_request_latency_seconds", requests.e2e);
  out.Distribution("vllm:request_queue_time_seconds", engine.queue);
  out.Distribution("vllm:request_inference_time_seconds", requests.inference);
  out.Distribution("vllm:request_prefill_time_seconds", requests.prefill);
  out.Distribution("vllm:request_decode_time_seconds", requests.decode);
  out.Value("vllm:cache_config_info", 1.0,
            {{"block_size", std::to_string(sources.info.block_tokens)},
             {"num_gpu_blocks", std::to_string(BlocksInArena(sources))},
             {"cache_dtype", sources.info.kv_codec},
             {"enable_prefix_caching", sources.info.has_prefix_cache ? "True" : "False"}});
}

void AddMemory(const engine::EngineReport& report, Families& out) {
  const kv::MemoryReport& memory = report.memory;
  out.Value("ashlar:kv_arena_bytes", memory.arena_bytes);
  const auto account_name = [&](kv::AccountId id) -> std::string {
    if (id == kv::kSharedAccount) return "shared";
    if (id == kv::kCommonAccount) return "common";
    return report.accounts[id.value()];
  };
  for (const kv::MemoryRow& row : memory.rows) {
    out.Value("ashlar:kv_bytes", row.bytes,
              {{"account", account_name(row.account)},
               {"group", report.groups[row.group]},
               {"kind", row.is_open_blocks ? "open_block" : "block"},
               {"state", std::string(NameOf(row.state))}});
  }
  const auto nobodys = [&](std::string_view state, std::uint64_t bytes) {
    out.Value("ashlar:kv_bytes", bytes,
              {{"account", ""}, {"group", ""}, {"kind", "free"}, {"state", std::string(state)}});
  };
  nobodys("free_slot", memory.free_slot_bytes);
  nobodys("free_page", memory.free_page_bytes);
  nobodys("slack", memory.slack_bytes);
  nobodys("remainder", memory.remainder_bytes);
  out.Value("ashlar:kv_promised_bytes", memory.promised_bytes);
  out.Value("ashlar:kv_pinned_bytes", report.pinned_bytes);
  const auto wasted =
      static_cast<double>(memory.free_slot_bytes + memory.slack_bytes + memory.remainder_bytes);
  out.Value("ashlar:kv_fragmentation_ratio",
            memory.arena_bytes == 0 ? 0.0 : wasted / static_cast<double>(memory.arena_bytes));
  out.Value("ashlar:kv_blocks_taken_total", report.cache.taken_blocks);
  out.Value("ashlar:kv_blocks_sealed_total", report.cache.sealed_blocks);
  out.Value("ashlar:kv_blocks_replaced_total", report.cache.replaced_blocks);
  out.Value("ashlar:kv_blocks_copied_total", report.cache.copied_blocks);
  out.Value("ashlar:kv_blocks_converged_total", report.cache.converged_blocks);
  out.Value("ashlar:kv_blocks_unindexed_total", report.cache.unindexed_blocks);
  out.Value("ashlar:kv_blocks_moved_total", report.block_moves);
  out.Value("ashlar:kv_refused_total", report.stats.kv_refused);
}

void AddPrefixes(const MetricSources& sources, Families& out) {
  const engine::EngineReport& report = sources.report;
  out.Value("ashlar:prefix_hit_tokens_total", report.stats.cached_tokens, {{"tier", "ram"}});
  for (std::size_t i = 0; i < kv::kMissReasons; ++i) {
    out.Value("ashlar:prefix_misses_total", report.misses[i],
              {{"reason", std::string(NameOf(static_cast<kv::MissReason>(i)))}});
  }
  for (std::size_t i = 0; i < kv::kMissReasons; ++i) {
    out.Value("ashlar:prefix_missed_tokens_total", report.missed_tokens[i],
              {{"reason", std::string(NameOf(static_cast<kv::MissReason>(i)))}});
  }
  out.Value("ashlar:kv_events_total", report.events);
  out.Value("ashlar:kv_event_streams", sources.events.open);
  out.Value("ashlar:kv_event_streams_cut_total", sources.events.cut);
}

void AddSteps(const engine::EngineReport& report, Families& out) {
  const engine::ServiceStats& stats = report.stats;
  out.Value("ashlar:steps_total", stats.steps);
  out.Distribution("ashlar:step_seconds", report.histograms.step);
  out.Value("ashlar:step_part_seconds_total", Seconds(stats.plan_ns), {{"part", "plan"}});
  out.Value("ashlar:step_part_seconds_total", Seconds(stats.forward_ns), {{"part", "forward"}});
  out.Value("ashlar:step_part_seconds_total", Seconds(stats.sample_ns), {{"part", "sample"}});
  out.Value("ashlar:preemptions_total", stats.preemptions - stats.urgent_preemptions,
            {{"kind", "growth"}});
  out.Value("ashlar:preemptions_total", stats.urgent_preemptions, {{"kind", "urgency"}});
  out.Value("ashlar:computed_tokens_total", stats.prefill_tokens, {{"kind", "prefill"}});
  out.Value("ashlar:computed_tokens_total", stats.decode_tokens, {{"kind", "decode"}});
  out.Value("ashlar:recomputed_tokens_total", stats.recomputed_tokens);
  out.Value("ashlar:context_cuts_total", stats.context_cuts);
  for (std::size_t i = 0; i < engine::kFinishReasons; ++i) {
    out.Value("ashlar:sequences_ended_total", stats.finished[i],
              {{"reason", std::string(NameOf(static_cast<engine::FinishReason>(i)))}});
  }
}

void AddHttp(const RequestMetrics::Values& requests, Families& out) {
  out.Declare("ashlar:http_requests_total");
  for (const auto& [key, count] : requests.requests) {
    const auto& [method, route, status] = key;
    out.Value("ashlar:http_requests_total", count,
              {{"method", method}, {"route", route}, {"status", std::to_string(status)}});
  }
  out.Declare("ashlar:http_request_seconds");
  for (const auto& [route, histogram] : requests.seconds) {
    out.Distribution("ashlar:http_request_seconds", histogram, {{"route", route}});
  }
  out.Declare("ashlar:http_refused_total");
  for (const auto& [status, count] : requests.refused) {
    out.Value("ashlar:http_refused_total", count, {{"status", std::to_string(status)}});
  }
}

void AddProcess(const MetricSources& sources, Families& out) {
  out.Value("ashlar:build_info", 1.0,
            {{"version", std::string(sources.version)}, {"kv_codec", sources.info.kv_codec}});
  out.Value("process_start_time_seconds", sources.process.start_time_seconds);
  out.Value("process_cpu_seconds_total", sources.process.cpu_seconds);
  out.Value("process_resident_memory_bytes", sources.process.resident_bytes);
  out.Value("process_virtual_memory_bytes", sources.process.virtual_bytes);
  out.Value("process_open_fds", sources.process.open_fds);
}

// When this process started, in clock ticks since the machine did: field 22 of /proc/self/stat.
double StartTicks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The second field, in parentheses, may hold spaces.
  const std::size_t at = text.rfind(')');
  if (at == std::string::npos) return 0;
  std::size_t begin = at + 2;
  for (int field = 3; field < 22; ++field) {
    begin = text.find(' ', begin);
    if (begin == std::string::npos) return 0;
    ++begin;
  }
  return std::strtod(text.c_str() + begin, nullptr);
}

}  // namespace

ProcessValues ReadProcessValues() {
  ProcessValues values;
  timespec now = {};
  timespec since_boot = {};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  values.start_time_seconds =
      seconds(now) - seconds(since_boot) + StartTicks() / static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  values.cpu_seconds = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  std::ifstream pages("/proc/self/statm");
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  if (double total = 0, resident = 0; pages >> total >> resident) {
    values.virtual_bytes = total * page_bytes;
    values.resident_bytes = resident * page_bytes;
  }
  if (DIR* const files = opendir("/proc/self/fd"); files != nullptr) {
    while (const dirent* entry = readdir(files)) {
      if (entry->d_name[0] != '.') ++values.open_fds;
    }
    closedir(files);
    --values.open_fds;  // the folder itself
  }
  return values;
}

std::string FormatMetrics(const MetricSources& sources) {
  Families families({{"model_name", std::string(sources.model_name)}, {"engine", "0"}});
  AddVllmState(sources, families);
  AddVllmTokens(sources, families);
  AddVllmHistograms(sources, families);
  AddMemory(sources.report, families);
  AddPrefixes(sources, families);
  AddSteps(sources.report, families);
  AddHttp(sources.requests, families);
  AddProcess(sources, families);
  return prometheus::TextSerializer().Serialize(families.Take());
}

}  // namespace ashlar::server
