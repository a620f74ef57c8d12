// One function per command: adds it to the command line and returns its exit status when it was
// chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace ashlar::apps {

// What a chosen command does; run after the command line was parsed.
using CommandBody = std::function<Status()>;

CommandBody AddRunCommand(CLI::App& app);
CommandBody AddServeCommand(CLI::App& app);
CommandBody AddInspectCommand(CLI::App& app);
CommandBody AddBenchCommand(CLI::App& app);
CommandBody AddEvalCommand(CLI::App& app);
CommandBody AddPlanCommand(CLI::App& app);
CommandBody AddPullCommand(CLI::App& app);
CommandBody AddSimulateCommand(CLI::App& app);

}  // namespace ashlar::apps
