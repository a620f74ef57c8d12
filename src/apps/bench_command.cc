// `ashlar bench`: measures a part of the program on this machine, or a server.

#include "apps/bench_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench_cache.h"
#include "apps/commands.h"
#include "base/byte_size.h"

namespace ashlar::apps {
namespace {

constexpr std::uint32_t kMaxMinTimeMs = 60'000;
constexpr std::size_t kMaxSizes = 16;

// As given on the command line.
struct BenchCacheFlags {
  std::vector<std::string> blocks = {"1000", "10000", "100000", "1000000"};
  std::vector<std::string> policies;  // empty: all
  std::uint32_t min_time_ms = 100;
  std::string only;
  bool as_json = false;
};

Result<CacheBenchOptions> Resolve(const BenchCacheFlags& flags) {
  CacheBenchOptions options;
  if (flags.blocks.size() > kMaxSizes) {
    return MakeError(ErrorCode::kInvalidArgument, "--blocks has {} sizes; at most {} are measured",
                     flags.blocks.size(), kMaxSizes);
  }
  options.blocks.clear();
  for (const std::string& text : flags.blocks) {
    const Result<std::uint64_t> parsed = ParseTokenCount(text);
    const std::uint64_t blocks = parsed.ok() ? *parsed : 0;
    if (blocks < kMinBenchBlocks || blocks > kMaxBenchBlocks) {
      return MakeError(ErrorCode::kInvalidArgument, "--blocks is {}; it must be {} to {}", text,
                       kMinBenchBlocks, kMaxBenchBlocks);
    }
    options.blocks.push_back(blocks);
  }
  std::ranges::sort(options.blocks);
  const auto repeated = std::ranges::unique(options.blocks);
  options.blocks.erase(repeated.begin(), repeated.end());
  if (!flags.policies.empty()) options.policies.clear();
  for (const std::string& name : flags.policies) {
    ASHLAR_ASSIGN(const kv::ReplacementKind kind, kv::ParseReplacementKind(name));
    if (std::ranges::find(options.policies, kind) == options.policies.end()) {
      options.policies.push_back(kind);
    }
  }
  if (flags.min_time_ms == 0 || flags.min_time_ms > kMaxMinTimeMs) {
    return MakeError(ErrorCode::kInvalidArgument, "--min-time-ms is {}; it must be 1 to {}",
                     flags.min_time_ms, kMaxMinTimeMs);
  }
  options.min_time_ms = flags.min_time_ms;
  const auto names = CacheBenchNames();
  if (!flags.only.empty() && std::ranges::find(names, flags.only) == names.end()) {
    return MakeError(ErrorCode::kInvalidArgument, "--only is '{}'; there are {}", flags.only,
                     fmt::join(names, ", "));
  }
  options.only = flags.only;
  return options;
}

Status BenchCache(const BenchCacheFlags& flags) {
  ASHLAR_ASSIGN(const CacheBenchOptions options, Resolve(flags));
  BenchReport report(flags.as_json ? BenchReport::Style::kJson : BenchReport::Style::kTable);
  ASHLAR_TRY(RunCacheBench(options, report));
  if (options.only.empty() || options.only == "fragmentation") {
    ASHLAR_TRY(RunFragmentationBench(report));
  }
  return {};
}

BenchPart AddCacheBench(CLI::App& bench) {
  auto flags = std::make_shared<BenchCacheFlags>();
  CLI::App* const cache = bench.add_subcommand(
      "cache", "time of the cache's operations, by number of blocks; needs no model");
  cache->add_option("--blocks", flags->blocks, "sizes of the cache, in blocks")
      ->delimiter(',')
      ->capture_default_str();
  cache->add_option("--policies", flags->policies, "replacement policies to measure (default: all)")
      ->delimiter(',');
  cache->add_option("--min-time-ms", flags->min_time_ms, "time spent on each figure")
      ->capture_default_str();
  cache->add_option(
      "--only", flags->only,
      fmt::format("measure this only, one of: {}", fmt::join(CacheBenchNames(), ", ")));
  cache->add_flag("--json", flags->as_json, "print one JSON object per figure");
  return {.command = cache, .body = [flags] { return BenchCache(*flags); }};
}

}  // namespace

CommandBody AddBenchCommand(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("bench", "measure a part of the program");
  command->require_subcommand(1);
  const std::vector<BenchPart> parts = {AddCacheBench(*command),     AddLimitsBench(*command),
                                        AddAttentionBench(*command), AddMatmulBench(*command),
                                        AddServeBench(*command),     AddCostBench(*command)};
  return [parts]() -> Status {
    for (const BenchPart& part : parts) {
      if (part.command->parsed()) return part.body();
    }
    return MakeError(ErrorCode::kInvalidArgument, "bench needs the part to measure");
  };
}

}  // namespace ashlar::apps
