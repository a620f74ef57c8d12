// `ashlar eval`: what KV codecs cost in quality, on a real model and a held text.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/loaded_model.h"
#include "apps/output_file.h"
#include "base/byte_size.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "eval/codec_quality.h"
#include "eval/report.h"
#include "eval/windows.h"

namespace ashlar::apps {
namespace {

using Json = nlohmann::ordered_json;

// As given on the command line.
struct EvalFlags {
  EngineFlags engine;  // the model's flags only
  std::string text;
  std::string svg;
  std::string markdown;
  bool as_json = false;
  std::string window = "2048";
  eval::WindowOptions windows;  // but window_tokens
  eval::QualityOptions quality = {.codecs = {"f16", "q8", "balanced", "small-model", "q4"}};
};

// On a terminal a line that overwrites itself, otherwise a line for every tenth.
class ProgressLine {
 public:
  void Show(std::uint64_t done, std::uint64_t all) {
    const int percent = static_cast<int>(100 * done / all);
    if (percent < shown_ + (is_terminal_ ? 1 : 10)) return;
    shown_ = percent;
    const double left_s =
        static_cast<double>(clock_.NowNs() - start_ns_) * 1e-9 * (100.0 / percent - 1.0);
    const std::string line = fmt::format("measuring: {:3} %, {:.0f} s left", percent, left_s);
    if (is_terminal_) {
      fmt::print(stderr, "\r{:<40}{}", line, done == all ? "\n" : "");
    } else {
      fmt::print(stderr, "{}\n", line);
    }
    std::fflush(stderr);
  }

 private:
  SteadyClock clock_;
  std::int64_t start_ns_ = clock_.NowNs();
  bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  int shown_ = 0;
};

Result<std::uint32_t> ParseWindow(const std::string& text, const model::ModelConfig& config) {
  ASHLAR_ASSIGN(const std::uint64_t tokens, ParseTokenCount(text));
  if (tokens < 2 || tokens > config.context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--window is {}; it must be 2 to the {} tokens of the model's context", text,
                     config.context);
  }
  return static_cast<std::uint32_t>(tokens);
}

Result<eval::Windows> ReadWindows(const EvalFlags& flags, const text::Tokenizer& tokenizer) {
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(flags.text));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  auto windows = eval::CutWindows(tokenizer, text, flags.windows);
  if (!windows.ok()) {
    return MakeError(windows.error().code, "'{}': {}", flags.text, windows.error().message);
  }
  return windows;
}

class EvalCommand {
 public:
  EvalCommand(const EvalFlags& flags, const LoadedModel& loaded, const EngineSetup& setup)
      : flags_(flags), loaded_(loaded), isa_(setup.isa), activations_(setup.engine.activations) {}

  Status Run() {
    ASHLAR_TRY(CheckWritable(flags_.svg));
    ASHLAR_TRY(CheckWritable(flags_.markdown));
    ASHLAR_ASSIGN(const eval::Windows windows, ReadWindows(flags_, loaded_.tokenizer()));
    windows_ = windows.size();
    const SteadyClock clock;
    const std::int64_t start_ns = clock.NowNs();
    ProgressLine progress;
    ASHLAR_ASSIGN(const eval::QualityReport report,
                  eval::MeasureCodecs(
                      {loaded_.model(), kernels::KernelsFor(isa_), loaded_.pool(), activations_},
                      windows, flags_.quality,
                      [&](std::uint64_t done, std::uint64_t all) { progress.Show(done, all); }));
    ASHLAR_LOG_INFO("{}; {} beside the weights, {:.0f} s", Setting(report),
                    FormatByteSize(report.memory_bytes),
                    static_cast<double>(clock.NowNs() - start_ns) * 1e-9);
    ASHLAR_TRY(WriteFile(flags_.svg, eval::QualityPlot(report.codecs, Title())));
    ASHLAR_TRY(WriteFile(flags_.markdown, fmt::format("{}.\n\n{}", Setting(report),
                                                      eval::MarkdownTable(report.codecs))));
    if (!flags_.as_json) fmt::print("{}", eval::TerminalTable(report.codecs));
    if (flags_.as_json) PrintJson(report);
    return {};
  }

 private:
  // The file's: what a file says of its name is often that of some training run.
  const std::string& ModelName() const { return loaded_.file().name(); }
  std::string Title() const {
    return fmt::format("KV codecs: quality against memory, {}", ModelName());
  }
  std::string Setting(const eval::QualityReport& report) const {
    return fmt::format(
        "{}: {} window{} of {} tokens, {} scored positions, blocks of {} tokens{}", ModelName(),
        windows_, windows_ == 1 ? "" : "s", flags_.windows.window_tokens,
        FormatWithCommas(report.codecs.front().positions), flags_.quality.block_tokens,
        activations_ == model::Activations::kInt8 ? ", activations of 8 bits" : "");
  }
  void PrintJson(const eval::QualityReport& report) const;

  const EvalFlags& flags_;
  const LoadedModel& loaded_;
  kernels::Isa isa_;
  model::Activations activations_;
  std::size_t windows_ = 0;
};

void EvalCommand::PrintJson(const eval::QualityReport& report) const {
  for (const eval::CodecQuality& codec : report.codecs) {
    const Json json = {{"codec", codec.codec},
                       {"kv_bytes_per_token", codec.kv_bytes_per_token},
                       {"activations", model::NameOf(activations_)},
                       {"mean_kl_nats", codec.mean_kl_nats},
                       {"mean_kl_stderr_nats", codec.mean_kl_stderr_nats},
                       {"p99_kl_nats", codec.p99_kl_nats},
                       {"max_kl_nats", codec.max_kl_nats},
                       {"same_top1_share", codec.same_top1_share},
                       {"perplexity_f32", codec.perplexity_f32},
                       {"perplexity", codec.perplexity},
                       {"perplexity_change_percent", codec.perplexity_change_percent},
                       {"perplexity_change_stderr_percent", codec.perplexity_change_stderr_percent},
                       {"positions", codec.positions},
                       {"windows", windows_},
                       {"window_tokens", flags_.windows.window_tokens},
                       {"skip_tokens", flags_.quality.skip_tokens},
                       {"block_tokens", flags_.quality.block_tokens},
                       {"model", ModelName()}};
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

CommandBody AddEvalCommand(CLI::App& app) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* const command =
      app.add_subcommand("eval", "what KV codecs cost in quality, on a held text");
  AddModelFlags(*command, flags->engine);
  flags->engine.activations = "f32";
  command
      ->add_option("--activations", flags->engine.activations,
                   "int8 or f32, of the codecs; the cache in f32 they are compared with has f32")
      ->capture_default_str();
  command->add_option("--text", flags->text, "UTF-8 file the model is judged on")->required();
  command
      ->add_option("--codecs", flags->quality.codecs,
                   "codec specs to compare with a cache in f32, separated by spaces")
      ->capture_default_str();
  command->add_option("--window", flags->window, "tokens of a window of the text, e.g. 2k")
      ->capture_default_str();
  command->add_option("--windows", flags->windows.max_windows, "windows to measure at the most")
      ->capture_default_str();
  command
      ->add_option("--skip", flags->quality.skip_tokens,
                   "positions at the front of a window that are not scored")
      ->capture_default_str();
  command->add_option("--chunk", flags->quality.chunk_tokens, "tokens computed at a time")
      ->capture_default_str();
  command->add_option("--block-tokens", flags->quality.block_tokens, "tokens in a block")
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "print one JSON object per codec");
  command->add_option("--svg", flags->svg, "write a plot of KL against bytes to this file");
  command->add_option("--markdown", flags->markdown, "write the table to this file");
  return [flags]() -> Status {
    ASHLAR_ASSIGN(const EngineSetup setup, ResolveEngineFlags(flags->engine));
    ASHLAR_ASSIGN(const LoadedModel loaded,
                  LoadedModel::Open(setup.model_path, setup.threads, setup.weights));
    ASHLAR_ASSIGN(flags->windows.window_tokens,
                  ParseWindow(flags->window, loaded.model().config()));
    return EvalCommand(*flags, loaded, setup).Run();
  };
}

}  // namespace ashlar::apps
