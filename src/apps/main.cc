// ashlar <command>: see `ashlar --help`. Results go to stdout, diagnostics to stderr; exit status 0
// ok, 1 failed, 2 usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "apps/commands.h"
#include "base/log.h"
#include "base/version.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Run(int argc, char** argv) {
  using namespace ashlar;
  CLI::App app("Ashlar: language models served through a block KV cache", "ashlar");
  app.set_version_flag("--version", std::string("ashlar ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning or error")->capture_default_str();

  const std::map<std::string, apps::CommandBody> commands = {
      {"run", apps::AddRunCommand(app)},
      {"serve", apps::AddServeCommand(app)},
      {"inspect", apps::AddInspectCommand(app)},
  };
  if (argc > 1 && argv[1][0] != '-' && !commands.contains(argv[1])) {
    fmt::print(stderr, "ashlar: unknown command '{}'; there are inspect, run and serve\n", argv[1]);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  Status status = InitLog(log_level);
  if (status.ok()) {
    for (const auto& [name, body] : commands) {
      if (app.got_subcommand(name)) status = body();
    }
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "ashlar: {}\n", status.error().message);
  return status.error().code == ErrorCode::kInvalidArgument ? kUsage : kFailed;
}

}  // namespace

int main(int argc, char** argv) { return Run(argc, argv); }
