// The flags of `ashlar bench attention`.

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/bench_attention.h"
#include "apps/bench_command.h"
#include "apps/flags.h"
#include "base/byte_size.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kUsualMemoryBytes = 8 * kGiB;
constexpr std::uint64_t kQuickMemoryBytes = 256 * kMiB;
constexpr std::uint64_t kQuickBufferBytes = 16 * kMiB;
constexpr std::size_t kMaxListed = 16;
constexpr std::uint32_t kMaxMinTimeMs = 60'000;

struct AttentionFlags {
  std::vector<std::string> geometries;  // empty: all
  std::vector<std::string> contexts;
  std::vector<std::string> codecs = {"f16"};
  std::vector<std::string> cases;  // empty: all
  std::uint32_t block_tokens = 16;
  std::uint32_t threads = 0;
  std::string isa = "auto";
  std::string memory;
  std::optional<std::uint32_t> min_time_ms;
  bool is_quick = false;
  bool as_json = false;
};

std::vector<std::string_view> GeometryNames() {
  std::vector<std::string_view> names;
  for (const AttentionGeometry& geometry : AttentionGeometries()) names.push_back(geometry.name);
  return names;
}

Status ResolveGeometries(const AttentionFlags& flags, AttentionBenchOptions& options) {
  const auto known = AttentionGeometries();
  if (flags.geometries.empty()) options.geometries.assign(known.begin(), known.end());
  for (const std::string& name : flags.geometries) {
    const auto found = std::ranges::find(known, name, &AttentionGeometry::name);
    if (found == known.end()) {
      return MakeError(ErrorCode::kInvalidArgument, "--geometry is '{}'; there are {}", name,
                       fmt::join(GeometryNames(), ", "));
    }
    options.geometries.push_back(*found);
  }
  return {};
}

Status ResolveCases(const AttentionFlags& flags, AttentionBenchOptions& options) {
  for (std::size_t i = 0; i < std::size(kAttentionCaseNames); ++i) {
    const bool is_wanted =
        std::ranges::find(flags.cases, kAttentionCaseNames[i]) != flags.cases.end();
    if (flags.cases.empty() || is_wanted) options.cases.push_back(static_cast<AttentionCase>(i));
  }
  for (const std::string& name : flags.cases) {
    if (std::ranges::find(kAttentionCaseNames, name) == std::end(kAttentionCaseNames)) {
      return MakeError(ErrorCode::kInvalidArgument, "--case is '{}'; there are {}", name,
                       fmt::join(kAttentionCaseNames, ", "));
    }
  }
  return {};
}

Status ResolveContexts(const AttentionFlags& flags, AttentionBenchOptions& options) {
  std::vector<std::string> contexts = flags.contexts;
  if (contexts.empty() && flags.is_quick) contexts = {"1k"};
  if (contexts.empty()) contexts = {"2k", "8k", "32k", "128k"};
  for (const std::string& text : contexts) {
    const Result<std::uint64_t> parsed = ParseTokenCount(text);
    const std::uint64_t tokens = parsed.ok() ? *parsed : 0;
    if (tokens < kMinBenchContext || tokens > kMaxBenchContext || tokens % kMinBenchContext != 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--context is {}; it must be a multiple of {} up to {}", text,
                       kMinBenchContext, kMaxBenchContext);
    }
    options.contexts.push_back(tokens);
  }
  return {};
}

Status ResolveMemory(const AttentionFlags& flags, AttentionBenchOptions& options) {
  if (!flags.memory.empty()) {
    const Result<std::uint64_t> parsed = ParseByteSize(flags.memory);
    if (!parsed.ok()) {
      return MakeError(ErrorCode::kInvalidArgument, "--memory: {}", parsed.error().message);
    }
    options.memory_bytes = *parsed;
    return {};
  }
  if (flags.is_quick) {
    options.memory_bytes = kQuickMemoryBytes;
    return {};
  }
  const std::uint64_t physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.memory_bytes = std::min(kUsualMemoryBytes, physical / 2);
  return {};
}

Result<AttentionBenchOptions> Resolve(const AttentionFlags& flags) {
  AttentionBenchOptions options;
  const std::pair<const char*, std::size_t> lists[] = {{"--geometry", flags.geometries.size()},
                                                       {"--context", flags.contexts.size()},
                                                       {"--codec", flags.codecs.size()},
                                                       {"--case", flags.cases.size()}};
  for (const auto& [flag, size] : lists) {
    if (size > kMaxListed) {
      return MakeError(ErrorCode::kInvalidArgument, "{} has {} values; at most {} are measured",
                       flag, size, kMaxListed);
    }
  }
  ASHLAR_TRY(ResolveGeometries(flags, options));
  ASHLAR_TRY(ResolveContexts(flags, options));
  ASHLAR_TRY(ResolveCases(flags, options));
  for (const std::string& name : flags.codecs) {
    ASHLAR_ASSIGN(const CodecPair codecs, ParseCodecPair(name));
    options.codecs.push_back(codecs);
  }
  ASHLAR_TRY(ResolveMemory(flags, options));
  ASHLAR_ASSIGN(options.threads, ResolveThreads(flags.threads));
  ASHLAR_ASSIGN(options.isa, kernels::ParseIsa(flags.isa));
  options.block_tokens = flags.block_tokens;
  if (flags.is_quick) {
    options.limit_buffer_bytes = kQuickBufferBytes;
    options.min_time_ms = 1;
  }
  if (flags.min_time_ms) {
    if (*flags.min_time_ms == 0 || *flags.min_time_ms > kMaxMinTimeMs) {
      return MakeError(ErrorCode::kInvalidArgument, "--min-time-ms is {}; it must be 1 to {}",
                       *flags.min_time_ms, kMaxMinTimeMs);
    }
    options.min_time_ms = *flags.min_time_ms;
  }
  return options;
}

Status BenchAttention(const AttentionFlags& flags) {
  ASHLAR_ASSIGN(const AttentionBenchOptions options, Resolve(flags));
  BenchReport report(flags.as_json ? BenchReport::Style::kJson : BenchReport::Style::kTable);
  return RunAttentionBench(options, report);
}

}  // namespace

BenchPart AddAttentionBench(CLI::App& bench) {
  auto flags = std::make_shared<AttentionFlags>();
  CLI::App* const command = bench.add_subcommand(
      "attention", "attention over the cache's blocks, as a share of what the machine can do");
  const auto add_list = [&](const char* name, std::vector<std::string>& list, std::string help) {
    return command->add_option(name, list, std::move(help));
  };
  add_list("--geometry", flags->geometries,
           fmt::format("shapes of models, of: {} (default: all)", fmt::join(GeometryNames(), ", ")))
      ->delimiter(',');
  add_list("--context", flags->contexts, "tokens in the cache (default: 2k,8k,32k,128k)")
      ->delimiter(',');
  add_list("--codec", flags->codecs, "how K and V are stored: f16, or each: k=q8,v=q4; repeat it")
      ->capture_default_str();
  add_list("--case", flags->cases,
           fmt::format("of: {} (default: all)", fmt::join(kAttentionCaseNames, ", ")))
      ->delimiter(',');
  command->add_option("--block-tokens", flags->block_tokens, "tokens in a block")
      ->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads; 0 = one per processor")
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "instruction set: auto, or one that runs here by name")
      ->envname("ASHLAR_ISA")
      ->capture_default_str();
  command->add_option("--memory", flags->memory,
                      "most bytes of blocks; layers that do not fit are not run, and what they "
                      "would take is added (default: 8GiB, or half of the machine's)");
  command->add_option("--min-time-ms", flags->min_time_ms,
                      "time spent on each figure (default: 1000)");
  command->add_flag("--quick", flags->is_quick,
                    "little memory, few turns: shows that it works, not how fast");
  command->add_flag("--json", flags->as_json, "print one JSON object per figure");
  return {.command = command, .body = [flags] { return BenchAttention(*flags); }};
}

}  // namespace ashlar::apps
