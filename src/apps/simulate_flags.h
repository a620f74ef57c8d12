// The flags of `ashlar simulate`, and what they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "simulate/cache_run.h"
#include "simulate/cost_model.h"
#include "simulate/report.h"
#include "simulate/serve_run.h"
#include "simulate/synthetic.h"
#include "trace/reader.h"

namespace ashlar::apps {

// As given on the command line; checked by ResolveSimulate. Lists are swept over.
struct SimulateFlags {
  std::string mode = "serve";

  std::string trace;     // a file
  std::string workload;  // or a made-up one, by name
  std::uint64_t trace_block_tokens = 512;
  std::uint64_t requests = 0;  // 0: all of the trace, or 1000
  bool skips_bad = false;
  double time_scale = 1;
  std::uint64_t concurrency = 0;
  std::uint64_t max_waiting = 1024;

  std::optional<double> rate;
  std::optional<double> pause_s;
  std::string prefix_tokens, prefixes, documents, document_tokens;  // empty: the preset's
  std::string prompt_tokens, turns, turn_tokens, output_tokens;
  std::uint64_t seed = 0;

  std::string model;
  std::string cost;
  std::vector<std::string> kv_memory;
  std::vector<std::string> blocks;
  std::vector<std::string> replacement = {"lru"};
  std::vector<std::string> kv_codec = {"f16"};
  std::vector<std::uint32_t> block_tokens = {16};
  std::string prefix_cache = "on";
  std::string prefill_chunk = "256";
  std::string max_step_tokens;
  std::uint32_t max_sequences = 0;  // 0: 64, or the step's tokens if those are fewer
  std::string max_context;
  std::string headroom_tokens = "64";
  double itl_target_ms = 0;

  double target_ttft_ms = 0;
  double target_itl_ms = 0;

  // A live server to be compared with; empty: none.
  std::string compare;
  std::string api_key;
  std::string ca_file;
  bool is_insecure = false;

  bool as_json = false;
  std::string csv, html, svg;  // files
};

void AddSimulateFlags(CLI::App& command, SimulateFlags& flags);

// One run of a sweep.
struct SimulateSetting {
  simulate::Run run;                   // without results
  std::optional<kv::KvLayout> layout;  // serve mode
  bool is_optimum = false;
  simulate::CacheRunOptions cache;
  simulate::ServeRunOptions serve;
};

// The same, parsed.
struct SimulateSetup {
  std::string trace;
  trace::ReaderOptions reader;
  simulate::SyntheticOptions synthetic;  // without a trace
  simulate::CostModel cost;              // serve mode
  simulate::LatencyTargets targets;
  std::vector<SimulateSetting> settings;
};

// Reads the model's geometry and the cost. Errors: kInvalidArgument naming the flag's value and
// what is right; those of the files.
Result<SimulateSetup> ResolveSimulate(const SimulateFlags& flags);

}  // namespace ashlar::apps
