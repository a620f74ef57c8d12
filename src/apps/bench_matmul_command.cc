// The flags of `ashlar bench matmul`.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench_command.h"
#include "apps/bench_matmul.h"
#include "apps/flags.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kQuickBytes = std::uint64_t{4} << 20;
constexpr std::uint32_t kMaxMinTimeMs = 60'000;

struct MatmulFlags {
  std::vector<std::string> types;  // empty: all
  std::vector<std::size_t> rows = {1, 2, 4, 8, kPrefillRows};
  std::string activations = "int8";
  std::uint32_t threads = 0;
  std::string isa = "auto";
  std::uint32_t min_time_ms = 300;
  bool is_quick = false;
  bool as_json = false;
};

Status ResolveTypes(const MatmulFlags& flags, MatmulBenchOptions& options) {
  std::vector<std::string_view> names;
  for (const DTypeInfo& info : AllDTypes()) {
    names.push_back(info.name);
    const bool is_wanted = std::ranges::find(flags.types, info.name) != flags.types.end();
    if (flags.types.empty() || is_wanted) options.dtypes.push_back(info.dtype);
  }
  for (const std::string& type : flags.types) {
    if (std::ranges::find(names, type) == names.end()) {
      return MakeError(ErrorCode::kInvalidArgument, "--type is '{}'; there are {}", type,
                       fmt::join(names, ", "));
    }
  }
  return {};
}

Status BenchMatmul(const MatmulFlags& flags) {
  MatmulBenchOptions options;
  ASHLAR_TRY(ResolveTypes(flags, options));
  for (const std::size_t rows : flags.rows) {
    if (rows < 1 || rows > kPrefillRows) {
      return MakeError(ErrorCode::kInvalidArgument, "--rows is {}; it must be 1 to {}", rows,
                       kPrefillRows);
    }
  }
  options.rows = flags.rows;
  ASHLAR_ASSIGN(options.activations, model::ParseActivations(flags.activations));
  ASHLAR_ASSIGN(options.threads, ResolveThreads(flags.threads));
  ASHLAR_ASSIGN(options.isa, kernels::ParseIsa(flags.isa));
  if (flags.min_time_ms == 0 || flags.min_time_ms > kMaxMinTimeMs) {
    return MakeError(ErrorCode::kInvalidArgument, "--min-time-ms is {}; it must be 1 to {}",
                     flags.min_time_ms, kMaxMinTimeMs);
  }
  options.min_time_ms = flags.min_time_ms;
  if (flags.is_quick) {
    options.weight_bytes = options.limit_buffer_bytes = kQuickBytes;
    options.min_time_ms = 1;
  }
  BenchReport report(flags.as_json ? BenchReport::Style::kJson : BenchReport::Style::kTable);
  return RunMatmulBench(options, report);
}

}  // namespace

BenchPart AddMatmulBench(CLI::App& bench) {
  auto flags = std::make_shared<MatmulFlags>();
  CLI::App* const command = bench.add_subcommand(
      "matmul", "products with packed weights, as a share of what the machine can do; no model");
  command->add_option("--type", flags->types, "formats of weights, e.g. Q4_K (default: all)")
      ->delimiter(',');
  command
      ->add_option("--rows", flags->rows,
                   fmt::format("rows of activations; {} is prefill", kPrefillRows))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--activations", flags->activations, "int8 or f32")->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads; 0 = one per processor")
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "instruction set: auto, or one that runs here by name")
      ->envname("ASHLAR_ISA")
      ->capture_default_str();
  command->add_option("--min-time-ms", flags->min_time_ms, "time spent on each figure")
      ->capture_default_str();
  command->add_flag("--quick", flags->is_quick,
                    "little memory, once: shows that it works, not what the machine can do");
  command->add_flag("--json", flags->as_json, "print one JSON object per figure");
  return {.command = command, .body = [flags] { return BenchMatmul(*flags); }};
}

}  // namespace ashlar::apps
