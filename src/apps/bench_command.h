// The parts of `ashlar bench`: each adds its subcommand, and what it does when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/commands.h"

namespace ashlar::apps {

struct BenchPart {
  const CLI::App* command = nullptr;
  CommandBody body;
};

BenchPart AddLimitsBench(CLI::App& bench);
BenchPart AddAttentionBench(CLI::App& bench);
BenchPart AddMatmulBench(CLI::App& bench);
BenchPart AddServeBench(CLI::App& bench);
BenchPart AddCostBench(CLI::App& bench);

}  // namespace ashlar::apps
