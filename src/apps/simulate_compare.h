// `ashlar simulate --compare URL`: the same requests through a live server, beside what was
// predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/simulate_flags.h"
#include "base/result.h"
#include "load/http_client.h"
#include "simulate/cache_run.h"
#include "simulate/report.h"

namespace ashlar::apps {

struct ComparedFigure {
  std::string name;  // with its unit last
  double predicted = 0;
  double measured = 0;
};

struct Comparison {
  std::string how;  // prompts were made and compared
  std::uint64_t failed = 0;
  std::vector<ComparedFigure> figures;
};

struct CompareOptions {
  load::HttpClientOptions client;
  std::uint64_t seed = 0;
};

// Runs the setting's requests (serve mode) in both worlds. The prompts are texts that have in
// common what the trace says; the server's own /tokenize says what they are in tokens, so that the
// prediction is about the very same prompts; answers are kept from using the prompts' tokens
// (logit_bias), so that none goes on as another prompt does and is hit by chance. Forgets what the
// server has cached, where it can be asked to. Errors: the source's, the simulator's, the server's.
Result<Comparison> CompareWithServer(const CompareOptions& options, const SimulateSetup& setup,
                                     SimulateSetting& setting, const simulate::OpenSource& open);

std::string TextOf(const Comparison& comparison);
simulate::ReportJson JsonOf(const Comparison& comparison);

}  // namespace ashlar::apps
