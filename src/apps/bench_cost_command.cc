// `ashlar bench cost`: times the engine's steps and writes what `ashlar simulate --cost` reads.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/bench_command.h"
#include "apps/bench_cost.h"
#include "apps/bench_report.h"
#include "apps/flags.h"
#include "apps/output_file.h"
#include "apps/session.h"
#include "base/byte_size.h"

namespace ashlar::apps {
namespace {

constexpr int kMaxRounds = 100;

struct CostFlags {
  EngineFlags engine;
  std::string depth = "1024";
  int rounds = 3;
  std::string out;
  bool as_json = false;
};

Status BenchCost(CostFlags flags) {
  flags.engine.prefix_cache = "off";  // every round computes what the one before did
  CostBenchOptions options;
  ASHLAR_ASSIGN(options.depth, ParseTokenCount(flags.depth));
  options.rounds = flags.rounds;
  if (options.depth < 16 || options.rounds < 1 || options.rounds > kMaxRounds) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--depth is {} and --rounds is {}; they must be 16 or more, and 1 to {}",
                     flags.depth, flags.rounds, kMaxRounds);
  }
  ASHLAR_TRY(CheckWritable(flags.out));
  ASHLAR_ASSIGN(const EngineSetup setup, ResolveEngineFlags(flags.engine));
  ASHLAR_ASSIGN(const auto session, Session::Open(flags.engine));
  const sched::SchedulerLimits& limits = setup.engine.limits;
  ASHLAR_ASSIGN(const auto samples, MeasureSteps(session->engine(), limits, options));
  const simulate::CostFit fit = simulate::FitCost(samples, CostKnots(limits));
  BenchReport report(flags.as_json ? BenchReport::Style::kJson : BenchReport::Style::kTable);
  for (const simulate::CostModel::Row& row : fit.cost.rows_ns) {
    report.Add(
        {.name = "matrices", .params = {{"tokens", row.tokens}}, .figures = {{"ns", row.ns}}});
  }
  report.Add({.name = "attention",
              .figures = {{"prefill_pair_ns", fit.cost.prefill_pair_ns},
                          {"decode_pair_ns", fit.cost.decode_pair_ns}}});
  report.Add({.name = "sequence", .figures = {{"ns", fit.cost.sequence_ns}}});
  report.Add({.name = "fit",
              .params = {{"steps", fit.samples}},
              .figures = {{"mean_error_share", fit.mean_error},
                          {"p90_error_share", fit.p90_error},
                          {"worst_error_share", fit.worst_error}}});
  return WriteFile(flags.out, simulate::CostModel::ToJson(fit.cost, 0) + "\n");
}

}  // namespace

BenchPart AddCostBench(CLI::App& bench) {
  auto flags = std::make_shared<CostFlags>();
  CLI::App* const command = bench.add_subcommand(
      "cost", "what the engine's steps last on this machine, for `ashlar simulate --cost`");
  AddEngineFlags(*command, flags->engine);
  command->add_option("--depth", flags->depth, "tokens of the longest prompts")
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "of which the median counts")
      ->capture_default_str();
  command->add_option("--out", flags->out, "write the cost to this file");
  command->add_flag("--json", flags->as_json, "print one JSON object per figure");
  return {.command = command, .body = [flags] { return BenchCost(*flags); }};
}

}  // namespace ashlar::apps
