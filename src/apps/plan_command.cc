// `ashlar plan`: what the KV cache and the weights of a model take, and what fits.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/output_file.h"
#include "base/byte_size.h"
#include "base/mapped_file.h"
#include "plan/machine_memory.h"
#include "plan/plan.h"
#include "plan/report.h"

namespace ashlar::apps {
namespace {

// As given on the command line.
struct PlanFlags {
  std::string model;
  std::string context;
  std::string sequences = "1";
  std::string kv_codec = "f16";
  std::uint32_t block_tokens = 16;
  std::string prefill_chunk = "256";
  std::string max_step_tokens = "512";
  std::uint32_t threads = 0;
  std::string weights;
  std::string memory;
  std::string kv_memory;
  std::string margin = "5%";
  std::string registry;
  std::string html;
  bool lists = false;
  bool as_json = false;
};

// "5%" of `whole`, or a byte size.
Result<std::uint64_t> ParseMargin(const std::string& text, std::uint64_t whole) {
  if (!text.ends_with('%')) return ParseByteSize(text);
  const Result<std::uint64_t> percent = ParseTokenCount(text.substr(0, text.size() - 1));
  if (!percent.ok() || *percent >= 100) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--margin is '{}'; it must be a whole share from 0% to 99%, or a size like "
                     "2GiB",
                     text);
  }
  return whole / 100 * *percent + whole % 100 * *percent / 100;
}

Result<plan::Registry> OpenRegistry(const std::string& path) {
  if (path.empty()) return plan::Registry::BuiltIn();
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path));
  return plan::Registry::Parse(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
      fmt::format("'{}'", path));
}

Status ParseMemory(const PlanFlags& flags, plan::PlanOptions& options) {
  if (!flags.memory.empty() && !flags.kv_memory.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "give --memory (all of a machine's) or --kv-memory (the cache's alone), not "
                     "both");
  }
  if (!flags.kv_memory.empty()) {
    ASHLAR_ASSIGN(options.arena_bytes, ParseByteSize(flags.kv_memory));
  }
  if (flags.memory.empty()) return {};
  if (flags.memory == "machine") {
    ASHLAR_ASSIGN(plan::MachineMemory memory, plan::ReadMachineMemory());
    options.memory_bytes = memory.bytes;
    options.memory_source = std::move(memory.source);
  } else {
    ASHLAR_ASSIGN(options.memory_bytes, ParseByteSize(flags.memory));
  }
  ASHLAR_ASSIGN(options.margin_bytes, ParseMargin(flags.margin, *options.memory_bytes));
  return {};
}

Result<plan::PlanOptions> ParseOptions(const PlanFlags& flags) {
  plan::PlanOptions options;
  ASHLAR_ASSIGN(options.codec, model::ParseKvCodecSpec(flags.kv_codec));
  options.block_tokens = flags.block_tokens;
  if (!flags.context.empty()) {
    ASHLAR_ASSIGN(options.workload.context, ParseTokenCount(flags.context));
    if (options.workload.context == 0) {
      return MakeError(ErrorCode::kInvalidArgument, "--context is 0; it must be 1 token or more");
    }
  }
  ASHLAR_ASSIGN(options.workload.sequences, ParseTokenCount(flags.sequences));
  ASHLAR_ASSIGN(options.workload.chunk, ParseTokenCount(flags.prefill_chunk));
  ASHLAR_ASSIGN(options.max_step_tokens, ParseTokenCount(flags.max_step_tokens));
  ASHLAR_ASSIGN(options.threads, ResolveThreads(flags.threads));
  options.weight_format = flags.weights;
  ASHLAR_TRY(ParseMemory(flags, options));
  return options;
}

Status RunPlan(const PlanFlags& flags) {
  ASHLAR_ASSIGN(const plan::Registry registry, OpenRegistry(flags.registry));
  if (flags.lists) {
    for (const std::string& name : registry.names()) fmt::print("{}\n", name);
    return {};
  }
  ASHLAR_ASSIGN(plan::PlanOptions options, ParseOptions(flags));
  ASHLAR_TRY(CheckWritable(flags.html));
  ASHLAR_ASSIGN(
      plan::Subject subject,
      plan::FindSubject(flags.model.empty() ? DefaultModelPath() : flags.model, registry));
  ASHLAR_ASSIGN(const plan::Plan plan, plan::MakePlan(std::move(subject), std::move(options)));
  if (!flags.html.empty()) ASHLAR_TRY(WriteFile(flags.html, plan::HtmlReport(plan)));
  const std::string report = flags.as_json ? plan::JsonReport(plan) : plan::TextReport(plan);
  fmt::print("{}", report);
  return {};
}

void AddPlanFlags(CLI::App& command, PlanFlags& flags) {
  command
      .add_option(
          "model,-m,--model", flags.model,
          "GGUF file, folder of safetensors, config.json, or a name of the registry (default: "
          "the default model)")
      ->envname("ASHLAR_MODEL");
  command.add_option("--context", flags.context,
                     "tokens stored for a sequence, e.g. 32k (default: the model's context)");
  command.add_option("--sequences", flags.sequences, "sequences at once")->capture_default_str();
  command.add_option("--kv-codec", flags.kv_codec, "how keys and values are stored, as for run")
      ->capture_default_str();
  command.add_option("--block-tokens", flags.block_tokens, "tokens in a block")
      ->capture_default_str();
  command
      .add_option("--prefill-chunk", flags.prefill_chunk,
                  "prompt tokens of one sequence in a step: decides what windows hold")
      ->capture_default_str();
  command.add_option("--max-step-tokens", flags.max_step_tokens, "tokens of a step: workspace")
      ->capture_default_str();
  command.add_option("-t,--threads", flags.threads, "threads: workspace; 0 = one per processor")
      ->capture_default_str();
  command.add_option("--weights", flags.weights,
                     "format of the weights, e.g. Q4_K_M (default: as published, or the file's)");
  command.add_option("--memory", flags.memory,
                     "all the memory there is, e.g. 24GiB; machine: this machine's or container's");
  command.add_option("--margin", flags.margin, "of --memory left alone: a share or a size")
      ->capture_default_str();
  command.add_option("--kv-memory", flags.kv_memory,
                     "instead of --memory: the cap of the KV cache");
  command.add_option("--registry", flags.registry, "JSON file of models instead of the built-in");
  command.add_flag("--list", flags.lists, "print the registry's names");
  command.add_flag("--json", flags.as_json, "print one JSON object");
  command.add_option("--html", flags.html, "write a page with tables and plots to this file");
}

}  // namespace

CommandBody AddPlanCommand(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* const command = app.add_subcommand(
      "plan", "exact KV bytes for a model and a workload; what fits; which codec");
  AddPlanFlags(*command, *flags);
  return [flags] { return RunPlan(*flags); };
}

}  // namespace ashlar::apps
