// The flags of `ashlar bench limits`.

#include <cstdint>
#include <memory>
#include <string>

#include "apps/bench_command.h"
#include "apps/bench_limits.h"
#include "apps/flags.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kQuickBufferBytes = std::uint64_t{16} << 20;
constexpr int kQuickTurns = 1;

struct LimitsFlags {
  std::uint32_t threads = 0;
  std::string isa = "auto";
  bool is_quick = false;
  bool as_json = false;
};

Status BenchLimits(const LimitsFlags& flags) {
  LimitsBenchOptions options;
  ASHLAR_ASSIGN(options.threads, ResolveThreads(flags.threads));
  ASHLAR_ASSIGN(options.isa, kernels::ParseIsa(flags.isa));
  if (flags.is_quick) {
    options.buffer_bytes = kQuickBufferBytes;
    options.turns = kQuickTurns;
  }
  BenchReport report(flags.as_json ? BenchReport::Style::kJson : BenchReport::Style::kTable);
  return RunLimitsBench(options, report);
}

}  // namespace

BenchPart AddLimitsBench(CLI::App& bench) {
  auto flags = std::make_shared<LimitsFlags>();
  CLI::App* const command = bench.add_subcommand(
      "limits", "what this machine can read and compute at best; needs no model");
  command->add_option("-t,--threads", flags->threads, "most threads; 0 = one per processor")
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "instruction set: auto, or one that runs here by name")
      ->envname("ASHLAR_ISA")
      ->capture_default_str();
  command->add_flag("--quick", flags->is_quick,
                    "a small buffer, once: shows that it works, not what the machine can do");
  command->add_flag("--json", flags->as_json, "print one JSON object per figure");
  return {.command = command, .body = [flags] { return BenchLimits(*flags); }};
}

}  // namespace ashlar::apps
