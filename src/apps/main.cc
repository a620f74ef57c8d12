// ashlar <command>: see `ashlar --help`. Results go to stdout, diagnostics to stderr; exit status 0
// ok, 1 failed, 2 usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "apps/commands.h"
#include "base/log.h"
#include "base/version.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// What was printed must have arrived: a full disk or a closed pipe is a failure.
int FlushOutput() {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  fmt::print(stderr, "ashlar: cannot write to stdout: {}\n", std::strerror(errno));
  return kFailed;
}

// Our code does not throw; the standard library does when memory or threads run out.
ashlar::Status RunBody(const ashlar::apps::CommandBody& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return ashlar::MakeError(
        ashlar::ErrorCode::kResourceExhausted,
        "the system refused memory or a thread: {}; smaller --max-step-tokens, "
        "--kv-memory or --threads need less",
        error.what());
  }
}

int Run(int argc, char** argv) {
  namespace apps = ashlar::apps;
  using ashlar::ErrorCode;
  using ashlar::InitLog;
  using ashlar::kVersion;
  using ashlar::Status;
  CLI::App app("Ashlar: language models served through a block KV cache", "ashlar");
  app.set_version_flag("--version", std::string("ashlar ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  ashlar::LogOptions log;
  app.add_option("--log-level", log.level, "debug, info, warning or error")->capture_default_str();
  app.add_option("--log-format", log.format, "text, or json: an object a line")
      ->capture_default_str();

  const std::map<std::string, apps::CommandBody> commands = {
      {"run", apps::AddRunCommand(app)},           {"serve", apps::AddServeCommand(app)},
      {"inspect", apps::AddInspectCommand(app)},   {"bench", apps::AddBenchCommand(app)},
      {"eval", apps::AddEvalCommand(app)},         {"plan", apps::AddPlanCommand(app)},
      {"simulate", apps::AddSimulateCommand(app)}, {"pull", apps::AddPullCommand(app)},
  };
  if (argc > 1 && argv[1][0] != '-' && !commands.contains(argv[1])) {
    fmt::print(
        stderr,
        "ashlar: unknown command '{}'; there are bench, eval, inspect, plan, pull, run, serve "
        "and simulate\n",
        argv[1]);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? FlushOutput() : kUsage;
  }
  Status status = InitLog(log);
  if (status.ok()) {
    for (const auto& [name, body] : commands) {
      if (app.got_subcommand(name)) status = RunBody(body);
    }
  }
  if (status.ok()) return FlushOutput();
  fmt::print(stderr, "ashlar: {}\n", status.error().message);
  return status.error().code == ErrorCode::kInvalidArgument ? kUsage : kFailed;
}

}  // namespace

int main(int argc, char** argv) { return Run(argc, argv); }
