// The flags of `ashlar bench serve`, and what they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/driver.h"
#include "load/http_client.h"
#include "load/report.h"
#include "load/request_body.h"
#include "load/results.h"
#include "load/workload.h"
#include "trace/request.h"

namespace ashlar::apps {

// As given on the command line; checked by ResolveServeBench.
struct ServeBenchFlags {
  std::string url = "http://127.0.0.1:8080";
  std::string model;  // empty: the server's first
  std::string api_key;
  std::string ca_file;
  bool is_insecure = false;
  double timeout_s = 600;
  std::string endpoint = "completions";
  double temperature = 0;
  bool respects_eos = false;
  std::string extra_body = "{}";

  std::uint64_t requests = 0;  // 0: 100, or the whole trace
  std::uint64_t skip = 0;
  std::string prefix_tokens = "0";
  std::uint64_t prefixes = 1;
  std::string prompt_tokens = "128";
  std::string output_tokens = "64";
  std::uint64_t turns = 1;
  std::string turn_tokens = "64";
  std::string trace;  // a file; empty: made-up requests
  std::uint64_t trace_block_tokens = 512;
  double length_scale = 1;
  double time_scale = 1;
  std::uint64_t seed = 0;

  std::optional<std::uint64_t> concurrency;
  std::uint64_t chats = 0;  // 0: as many as concurrency
  double rate = 0;          // per second; 0: closed loop
  std::string arrivals = "poisson";
  double duration_s = 0;  // 0: no limit

  double target_ttft_ms = 0;
  double target_itl_ms = 0;
  bool as_json = false;
  std::string html;  // a file
};

void AddServeBenchFlags(CLI::App& command, ServeBenchFlags& flags);

// The same, parsed. Without texts, whose words the server must be asked for.
struct ServeBenchSetup {
  load::HttpClientOptions client;
  load::DriverOptions driver;
  load::SyntheticOptions synthetic;
  std::vector<trace::Request> trace;  // empty: synthetic
  load::TraceWorkloadOptions trace_options;
  load::LatencyTargets targets;
  load::ReportJson params;

  std::unique_ptr<load::Workload> MakeWorkload(load::TextMaker text) const;
};

// Reads the trace. Errors: kInvalidArgument naming the flag's value and what is right; those of
// trace::Reader.
Result<ServeBenchSetup> ResolveServeBench(const ServeBenchFlags& flags);

}  // namespace ashlar::apps
