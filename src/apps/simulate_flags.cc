#include "apps/simulate_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/flags.h"
#include "base/byte_size.h"
#include "base/mapped_file.h"
#include "plan/kv_need.h"
#include "plan/plan.h"

namespace ashlar::apps {
namespace {

constexpr std::size_t kMaxRuns = 1000;
constexpr std::uint64_t kMaxConcurrency = 1'000'000;
constexpr double kMaxSeconds = 1e6;
constexpr std::uint64_t kDefaultRequests = 1000;
constexpr double kNsPerMs = 1e6;
constexpr double kMiB = 1 << 20;
constexpr std::string_view kOptimum = "optimum";

Status CheckNumber(std::string_view flag, double value, double most) {
  if (value >= 0 && value <= most) return {};  // and no NaN
  return MakeError(ErrorCode::kInvalidArgument, "{} is {:g}; it must be 0 to {:g}", flag, value,
                   most);
}

// "128" or "100:2k".
Status ParseRange(std::string_view flag, const std::string& text, simulate::LengthRange& range) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  const auto first = ParseTokenCount(text.substr(0, colon));
  const auto last = colon == text.npos ? first : ParseTokenCount(text.substr(colon + 1));
  if (!first.ok() || !last.ok()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is '{}'; it must be a number, or a range like 100:2k", flag, text);
  }
  range = {.least = *first, .most = *last};
  return {};
}

Status ParseCount(std::string_view flag, const std::string& text, std::uint64_t& count) {
  if (text.empty()) return {};
  const auto parsed = ParseTokenCount(text);
  if (!parsed.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is '{}'; it must be a number like 100 or 4k",
                     flag, text);
  }
  count = *parsed;
  return {};
}

Status ResolveSynthetic(const SimulateFlags& flags, SimulateSetup& setup) {
  ASHLAR_ASSIGN(setup.synthetic, simulate::SyntheticPreset(flags.workload));
  simulate::SyntheticOptions& options = setup.synthetic;
  options.requests = flags.requests == 0 ? kDefaultRequests : flags.requests;
  options.conversations_per_s = flags.rate.value_or(options.conversations_per_s);
  options.pause_s = flags.pause_s.value_or(options.pause_s);
  options.seed = flags.seed;
  ASHLAR_TRY(ParseCount("--prefix-tokens", flags.prefix_tokens, options.prefix_tokens));
  ASHLAR_TRY(ParseCount("--prefixes", flags.prefixes, options.prefixes));
  ASHLAR_TRY(ParseCount("--documents", flags.documents, options.documents));
  ASHLAR_TRY(ParseCount("--document-tokens", flags.document_tokens, options.document_tokens));
  ASHLAR_TRY(ParseRange("--prompt-tokens", flags.prompt_tokens, options.prompt_tokens));
  ASHLAR_TRY(ParseRange("--turns", flags.turns, options.turns));
  ASHLAR_TRY(ParseRange("--turn-tokens", flags.turn_tokens, options.turn_tokens));
  ASHLAR_TRY(ParseRange("--output-tokens", flags.output_tokens, options.output_tokens));
  return simulate::Validate(options);
}

Status ResolveTrace(const SimulateFlags& flags, SimulateSetup& setup) {
  if (flags.trace.empty() == flags.workload.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "give --trace FILE or --workload NAME (shared-prompt, chat, rag, agent), {}",
                     flags.trace.empty() ? "one of them" : "not both");
  }
  if (flags.trace.empty()) return ResolveSynthetic(flags, setup);
  if (flags.trace_block_tokens < 1 || flags.trace_block_tokens > trace::kMaxTokens) {
    return MakeError(ErrorCode::kInvalidArgument, "--trace-block-tokens is {}; it must be 1 to {}",
                     flags.trace_block_tokens, trace::kMaxTokens);
  }
  setup.trace = flags.trace;
  setup.reader = {.block_tokens = flags.trace_block_tokens,
                  .max_requests = flags.requests,
                  .on_bad = flags.skips_bad ? trace::OnBadLine::kSkip : trace::OnBadLine::kFail};
  ASHLAR_ASSIGN(const auto reader, trace::Reader::Open(setup.trace, setup.reader));
  return {};
}

// --- The model and what its steps cost ---

double ActiveParameters(const plan::Plan& plan) {
  const plan::Geometry& geometry = plan.subject.geometry;
  auto active = static_cast<double>(plan.parameters);
  if (!geometry.experts || geometry.experts->count == 0 || geometry.experts->active == 0) {
    return active;
  }
  const plan::Experts& experts = *geometry.experts;
  for (std::uint32_t layer = 0; layer < geometry.layers.size(); ++layer) {
    if (!experts.IsIn(layer)) continue;
    active -= static_cast<double>(experts.count - std::min(experts.active, experts.count)) * 3.0 *
              geometry.hidden * experts.width;
  }
  return std::max(active, 0.0);
}

simulate::ModelWork WorkOf(const plan::Plan& plan) {
  const plan::Geometry& geometry = plan.subject.geometry;
  const auto parameters = static_cast<double>(plan.parameters);
  const double active = ActiveParameters(plan);
  simulate::ModelWork work = {.weight_bytes = static_cast<double>(plan.weights_bytes),
                              .flops_per_token = 2 * active};
  if (active < parameters) {
    const double share = static_cast<double>(geometry.experts->active) / geometry.experts->count;
    // Of all experts: what is left out for a token is 1 - share of them.
    work.expert_share = share;
    work.expert_bytes = work.weight_bytes * (parameters - active) / (1 - share) / parameters;
    work.weight_bytes -= work.expert_bytes;
  }
  for (const model::LayerKv& own : geometry.layers) {
    const model::LayerKv& layer = own.source_layer ? geometry.layers[*own.source_layer] : own;
    if (layer.kv_heads == 0) continue;
    const double value = layer.value_dim > 0 ? layer.value_dim : layer.key_dim;
    work.flops_per_pair += 2.0 * geometry.heads * (layer.key_dim + value);
  }
  return work;
}

Result<simulate::CostModel> ResolveCost(const std::string& cost, const plan::Subject& subject) {
  if (cost.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "serve mode needs --cost: a file of `ashlar bench cost --out FILE`, one in "
                     "its form, or a device by name: {}",
                     simulate::CostModel::DeviceNames());
  }
  simulate::ModelWork work;
  const auto plan = plan::MakePlan(subject, {.workload = {.context = 1}});
  if (plan.ok()) work = WorkOf(*plan);
  if (const auto device = simulate::CostModel::FindDevice(cost)) {
    if (!plan.ok()) return plan.error();
    return simulate::CostModel::Of(*device, work);
  }
  const auto file = MappedFile::Open(cost);
  if (!file.ok()) {
    return MakeError(file.error().code, "--cost: {}; it is a file, or one of {}",
                     file.error().message, simulate::CostModel::DeviceNames());
  }
  return simulate::CostModel::Parse(
      {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, cost, work);
}

Status ResolveEngine(const SimulateFlags& flags, simulate::VirtualEngineOptions& engine) {
  EngineFlags same;  // those flags mean what they mean to a server
  same.model = "none";
  same.prefix_cache = flags.prefix_cache;
  same.prefill_chunk = flags.prefill_chunk;
  same.max_step_tokens = flags.max_step_tokens;
  if (flags.max_sequences > 0) same.max_sequences = flags.max_sequences;
  same.max_context = flags.max_context;
  same.itl_target_ms = flags.itl_target_ms;
  same.headroom_tokens = flags.headroom_tokens;
  ASHLAR_ASSIGN(const EngineSetup parsed, ResolveEngineFlags(same));
  ASHLAR_TRY(sched::Validate(parsed.engine.limits));
  engine.max_context = parsed.engine.max_context;
  engine.reuse = parsed.engine.reuse;
  engine.limits = parsed.engine.limits;
  engine.headroom_tokens = parsed.engine.headroom_tokens;
  return {};
}

// --- The sweep ---

struct Capacity {
  std::string text;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;  // one of the two; neither: unlimited
};

Result<std::vector<Capacity>> ResolveCapacities(const SimulateFlags& flags, bool is_cache) {
  if (!flags.kv_memory.empty() && !flags.blocks.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "give --kv-memory or --blocks, not both");
  }
  std::vector<Capacity> capacities;
  for (const std::string& text : flags.kv_memory) {
    ASHLAR_ASSIGN(const std::uint64_t bytes, ParseByteSize(text));
    capacities.push_back({.text = text, .bytes = bytes});
  }
  for (const std::string& text : flags.blocks) {
    if (text == "unlimited" && is_cache) {
      capacities.push_back({.text = text});
      continue;
    }
    const auto blocks = ParseTokenCount(text);
    if (!blocks.ok() || *blocks == 0 || *blocks > (std::uint64_t{1} << 32)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--blocks is '{}'; it must be a number from 1{}", text,
                       is_cache ? ", or unlimited" : "");
    }
    capacities.push_back({.text = text, .blocks = *blocks});
  }
  if (!capacities.empty()) return capacities;
  if (is_cache) return std::vector<Capacity>{{.text = "unlimited"}};
  return std::vector<Capacity>{{.text = "1GiB", .bytes = std::uint64_t{1} << 30}};
}

Result<std::vector<std::string>> ResolvePolicies(const SimulateFlags& flags, bool is_cache) {
  std::vector<std::string> names;
  for (const std::string& name : flags.replacement) {
    if (name == "all") {
      for (const kv::ReplacementKind kind : kv::kReplacementKinds) {
        names.emplace_back(kv::NameOf(kind));
      }
      if (is_cache) names.emplace_back(kOptimum);
      continue;
    }
    if (name != kOptimum) {
      ASHLAR_TRY(kv::ParseReplacementKind(name));
    } else if (!is_cache) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--replacement optimum needs to know the future: only --mode cache does");
    }
    names.push_back(name);
  }
  return names;
}

// A value of one dimension of the sweep; a setting where there are several.
template <typename T>
void Say(simulate::Run& run, const char* name, const T& value, std::size_t values) {
  (values > 1 ? run.setting : run.params)[name] = value;
}

struct Sweep {
  const SimulateFlags& flags;
  std::vector<Capacity> capacities;
  std::vector<std::string> policies;
  std::optional<plan::Subject> subject;
  simulate::ReportJson params;
  simulate::ServeRunOptions serve;
  simulate::CacheRunOptions cache;
};

Status AddSetting(const Sweep& sweep, const Capacity& capacity, const std::string& policy,
                  const std::string& codec, std::uint32_t block_tokens, SimulateSetup& setup) {
  const SimulateFlags& flags = sweep.flags;
  SimulateSetting setting = {.serve = sweep.serve};
  simulate::Run& run = setting.run;
  run.mode = flags.mode == "cache" ? simulate::Mode::kCache : simulate::Mode::kServe;
  run.params = sweep.params;
  Say(run, capacity.bytes > 0 ? "kv_memory" : "blocks", capacity.text, sweep.capacities.size());
  Say(run, "replacement", policy, sweep.policies.size());
  if (sweep.subject) {
    Say(run, "kv_codec", codec, flags.kv_codec.size());
    Say(run, "block_tokens", block_tokens, flags.block_tokens.size());
  }
  for (const auto& [name, value] : run.setting.items()) {
    if (name == "kv_memory" || name == "blocks") continue;
    if (!run.series.empty()) run.series += ", ";
    run.series += value.is_string() ? value.get<std::string>() : value.dump() + " tokens";
  }
  if (run.series.empty()) run.series = policy;
  setting.is_optimum = policy == kOptimum;
  const kv::ReplacementKind kind =
      setting.is_optimum ? kv::ReplacementKind::kLru : *kv::ParseReplacementKind(policy);
  std::uint64_t bytes_per_token = 0;
  if (sweep.subject) {
    ASHLAR_ASSIGN(const model::KvCodecSpec spec, model::ParseKvCodecSpec(codec));
    ASHLAR_ASSIGN(setting.layout, plan::LayoutOf(sweep.subject->geometry, spec, block_tokens));
    bytes_per_token = setting.layout->bytes_per_token();
  }
  setting.cache = sweep.cache;
  setting.cache.replacement = setting.serve.engine.replacement = kind;
  setting.cache.block_tokens = block_tokens;
  // A block of the trace with names, or one of the cache's.
  const std::uint64_t tokens =
      run.mode == simulate::Mode::kCache ? setting.cache.hash_block_tokens : block_tokens;
  setting.cache.capacity_blocks =
      capacity.bytes > 0 ? std::max<std::uint64_t>(1, capacity.bytes / (bytes_per_token * tokens))
                         : capacity.blocks;
  setting.serve.engine.kv_memory_bytes =
      capacity.bytes > 0 ? capacity.bytes : capacity.blocks * bytes_per_token * block_tokens;
  run.capacity = capacity.bytes > 0 ? static_cast<double>(capacity.bytes) / kMiB
                                    : static_cast<double>(capacity.blocks);
  setup.settings.push_back(std::move(setting));
  return {};
}

Status ResolveSweep(const Sweep& sweep, SimulateSetup& setup) {
  const SimulateFlags& flags = sweep.flags;
  const std::size_t runs = sweep.capacities.size() * sweep.policies.size() * flags.kv_codec.size() *
                           flags.block_tokens.size();
  if (runs == 0 || runs > kMaxRuns) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the lists of --kv-memory, --blocks, --replacement, --kv-codec and "
                     "--block-tokens ask for {} runs; at most {} are made",
                     runs, kMaxRuns);
  }
  for (const std::uint32_t block_tokens : flags.block_tokens) {
    for (const std::string& codec : flags.kv_codec) {
      for (const std::string& policy : sweep.policies) {
        for (const Capacity& capacity : sweep.capacities) {
          ASHLAR_TRY(AddSetting(sweep, capacity, policy, codec, block_tokens, setup));
        }
      }
    }
  }
  return {};
}

simulate::ReportJson ParamsOf(const SimulateFlags& flags) {
  simulate::ReportJson params = simulate::ReportJson::object();
  if (flags.trace.empty()) {
    params["workload"] = flags.workload;
    params["seed"] = flags.seed;
  } else {
    params["trace"] = flags.trace;
  }
  if (flags.mode == "cache") return params;
  params["cost"] = flags.cost;
  if (flags.concurrency > 0) {
    params["concurrency"] = flags.concurrency;
  } else if (flags.time_scale != 1) {
    params["time_scale"] = flags.time_scale;
  }
  return params;
}

Status CheckRanges(const SimulateFlags& flags) {
  if (flags.mode != "serve" && flags.mode != "cache") {
    return MakeError(ErrorCode::kInvalidArgument, "--mode is '{}'; it must be serve or cache",
                     flags.mode);
  }
  ASHLAR_TRY(CheckNumber("--time-scale", flags.time_scale, kMaxSeconds));
  ASHLAR_TRY(CheckNumber("--target-ttft-ms", flags.target_ttft_ms, kMaxSeconds * 1000));
  ASHLAR_TRY(CheckNumber("--target-itl-ms", flags.target_itl_ms, kMaxSeconds * 1000));
  if (flags.concurrency <= kMaxConcurrency) return {};
  return MakeError(ErrorCode::kInvalidArgument, "--concurrency is {}; it must be at most {}",
                   flags.concurrency, kMaxConcurrency);
}

}  // namespace

Result<SimulateSetup> ResolveSimulate(const SimulateFlags& flags) {
  ASHLAR_TRY(CheckRanges(flags));
  const bool is_cache = flags.mode == "cache";
  SimulateSetup setup;
  ASHLAR_TRY(ResolveTrace(flags, setup));
  Sweep sweep = {.flags = flags, .params = ParamsOf(flags)};
  ASHLAR_ASSIGN(sweep.capacities, ResolveCapacities(flags, is_cache));
  ASHLAR_ASSIGN(sweep.policies, ResolvePolicies(flags, is_cache));
  const std::uint64_t hash_block_tokens =
      flags.trace.empty() ? simulate::SyntheticOptions::kBlockTokens : flags.trace_block_tokens;
  if (!is_cache || !flags.kv_memory.empty()) {
    ASHLAR_ASSIGN(sweep.subject,
                  plan::FindSubject(flags.model.empty() ? DefaultModelPath() : flags.model,
                                    plan::Registry::BuiltIn()));
    sweep.params["model"] = sweep.subject->geometry.name;
  }
  if (!is_cache) {
    ASHLAR_ASSIGN(setup.cost, ResolveCost(flags.cost, *sweep.subject));
    ASHLAR_TRY(ResolveEngine(flags, sweep.serve.engine));
    if (flags.max_context.empty()) {
      sweep.serve.engine.max_context = sweep.subject->geometry.context;
    }
    sweep.serve.concurrency = flags.concurrency;
    sweep.serve.time_scale = flags.time_scale;
    sweep.serve.max_waiting = flags.max_waiting;
    sweep.serve.hash_block_tokens = hash_block_tokens;
  }
  sweep.cache.hash_block_tokens = hash_block_tokens;
  ASHLAR_TRY(ResolveSweep(sweep, setup));
  setup.targets = {.ttft_ns = std::llround(flags.target_ttft_ms * kNsPerMs),
                   .itl_ns = std::llround(flags.target_itl_ms * kNsPerMs)};
  return setup;
}

// --- The command line ---

namespace {

void AddTraceFlags(CLI::App& command, SimulateFlags& flags) {
  command
      .add_option("--mode", flags.mode,
                  "serve: the scheduler and the cache under a virtual clock; cache: the cache "
                  "alone, without time")
      ->capture_default_str();
  command.add_option("--trace", flags.trace,
                     "a file: Mooncake's JSON lines, Azure's CSV, or one of serve --record-trace");
  command.add_option("--workload", flags.workload,
                     "made-up requests instead: shared-prompt, chat, rag or agent");
  command.add_option("-n,--requests", flags.requests,
                     "requests (default: all of the trace; 1000 of a workload)");
  command.add_option("--trace-block-tokens", flags.trace_block_tokens, "tokens of a hash id")
      ->capture_default_str();
  command.add_flag("--skip-bad", flags.skips_bad, "pass over lines that are wrong, and count them");
  command.add_option("--time-scale", flags.time_scale, "times the trace's gaps")
      ->capture_default_str();
  command.add_option("-c,--concurrency", flags.concurrency,
                     "so many requests at a time, whatever their times (default: as they come)");
  command.add_option("--max-waiting", flags.max_waiting, "requests queued; more are refused")
      ->capture_default_str();
  command.add_option("--rate", flags.rate, "of a workload: conversations per second");
  command.add_option("--pause-s", flags.pause_s, "between two turns, on average");
  command.add_option("--prefix-tokens", flags.prefix_tokens, "that conversations begin with");
  command.add_option("--prefixes", flags.prefixes, "different ones, taken in turn");
  command.add_option("--documents", flags.documents, "to be asked about, some far more often");
  command.add_option("--document-tokens", flags.document_tokens, "of each");
  command.add_option("--prompt-tokens", flags.prompt_tokens, "of a first turn: 128, or 100:2k");
  command.add_option("--turns", flags.turns, "of a conversation: a number or a range");
  command.add_option("--turn-tokens", flags.turn_tokens, "that a later turn adds");
  command.add_option("--output-tokens", flags.output_tokens, "of an answer");
  command.add_option("--seed", flags.seed, "of the workload")->capture_default_str();
}

void AddEngineSettings(CLI::App& command, SimulateFlags& flags) {
  command
      .add_option("-m,--model", flags.model,
                  "GGUF file, folder of safetensors, config.json, or a name of `ashlar plan "
                  "--list`: its geometry "
                  "(default: the default model)")
      ->envname("ASHLAR_MODEL");
  command.add_option("--cost", flags.cost,
                     "what steps last: a file of `ashlar bench cost`, or a device: " +
                         simulate::CostModel::DeviceNames());
  command
      .add_option("--kv-memory", flags.kv_memory, "cap of the cache: a size, or a list 1GiB,2GiB")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option(
          "--blocks", flags.blocks,
          "the same as a number of blocks, or a list; of the trace's in --mode cache, where "
          "the default is unlimited")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--replacement", flags.replacement,
                  "lru, fifo, lfu, slru, s3fifo, sieve, cost-aware, a list, or all; --mode cache: "
                  "optimum (Belady's)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--kv-codec", flags.kv_codec, "as for serve; may be repeated")
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--block-tokens", flags.block_tokens, "tokens in a block, or a list")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--prefix-cache", flags.prefix_cache, "on or off")->capture_default_str();
  command.add_option("--prefill-chunk", flags.prefill_chunk, "as for serve")->capture_default_str();
  command.add_option("--max-step-tokens", flags.max_step_tokens, "as for serve (default: 512)");
  command.add_option("--max-sequences", flags.max_sequences, "as for serve (default: 64)");
  command.add_option("--max-context", flags.max_context, "as for serve (default: the model's)");
  command.add_option("--headroom-tokens", flags.headroom_tokens, "as for serve")
      ->capture_default_str();
  command.add_option("--itl-target-ms", flags.itl_target_ms, "as for serve; 0: none")
      ->capture_default_str();
}

}  // namespace

void AddSimulateFlags(CLI::App& command, SimulateFlags& flags) {
  AddTraceFlags(command, flags);
  AddEngineSettings(command, flags);
  command.add_option("--target-ttft-ms", flags.target_ttft_ms, "for goodput; 0: none")
      ->capture_default_str();
  command
      .add_option("--target-itl-ms", flags.target_itl_ms,
                  "for goodput: of a request's mean time per token; 0: none")
      ->capture_default_str();
  command.add_option("--compare", flags.compare,
                     "send the same requests to this server, whose settings these flags are, and "
                     "print predicted beside measured");
  command.add_option("--api-key", flags.api_key, "for --compare: sent as a bearer token")
      ->envname("OPENAI_API_KEY");
  command.add_option("--ca-file", flags.ca_file, "for --compare: certificates to trust");
  command.add_flag("--insecure", flags.is_insecure, "for --compare: take any certificate");
  command.add_flag("--json", flags.as_json, "print one JSON object for each run");
  command.add_option("--csv", flags.csv, "write a row for each run to this file");
  command.add_option("--html", flags.html, "write a page with tables and plots to this file");
  command.add_option("--svg", flags.svg, "write the plot of a sweep over capacities to this file");
}

}  // namespace ashlar::apps
