// `ashlar simulate`: replays traffic through the production scheduler and cache without a model.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/output_file.h"
#include "apps/simulate_compare.h"
#include "apps/simulate_flags.h"
#include "base/clock.h"

namespace ashlar::apps {
namespace {

// Shows where a sweep is, on stderr.
class SimulateProgress {
 public:
  explicit SimulateProgress(std::size_t runs) : runs_(runs) {}

  void Begin(std::size_t run) { run_ = run; }
  void Show(std::uint64_t requests) {
    const std::int64_t now_ns = clock_.NowNs();
    if (now_ns - shown_ns_ < (is_terminal_ ? kTerminalNs : kLogNs)) return;
    shown_ns_ = now_ns;
    has_shown_ = true;
    fmt::print(stderr, "{}run {} of {}: {} requests, {:.0f} s{}", is_terminal_ ? "\r" : "",
               run_ + 1, runs_, requests, static_cast<double>(now_ns - start_ns_) / 1e9,
               is_terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
  }
  void End() const {
    if (is_terminal_ && has_shown_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  static constexpr std::int64_t kTerminalNs = 200'000'000;
  static constexpr std::int64_t kLogNs = 5'000'000'000;

  const SteadyClock clock_;
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  const std::size_t runs_;
  const std::int64_t start_ns_ = clock_.NowNs();
  std::int64_t shown_ns_ = start_ns_;
  std::size_t run_ = 0;
  bool has_shown_ = false;
};

// Opens the requests again for every run, and remembers what was wrong with the trace.
class Requests {
 public:
  explicit Requests(const SimulateSetup& setup) : setup_(setup) {}

  simulate::OpenSource Opener() {
    return [this]() -> Result<std::unique_ptr<trace::Source>> {
      if (setup_.trace.empty()) return simulate::MakeSynthetic(setup_.synthetic);
      ASHLAR_ASSIGN(auto reader, trace::Reader::Open(setup_.trace, setup_.reader));
      return std::unique_ptr<trace::Source>(std::make_unique<Counted>(std::move(reader), *this));
    };
  }
  std::uint64_t skipped() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }

 private:
  class Counted final : public trace::Source {
   public:
    Counted(std::unique_ptr<trace::Reader> reader, Requests& requests)
        : reader_(std::move(reader)), requests_(requests) {}
    Result<bool> Next(trace::Request& request) override {
      auto next = reader_->Next(request);
      requests_.skipped_ = reader_->skipped();
      if (requests_.first_skipped_.empty()) requests_.first_skipped_ = reader_->first_skipped();
      return next;
    }

   private:
    const std::unique_ptr<trace::Reader> reader_;
    Requests& requests_;
  };

  const SimulateSetup& setup_;
  std::uint64_t skipped_ = 0;
  std::string first_skipped_;
};

Status RunSetting(const SimulateSetup& setup, SimulateSetting& setting, Requests& requests,
                  const simulate::Progress& progress) {
  simulate::Results& results = setting.run.results;
  results.targets = setup.targets;
  if (setting.run.mode == simulate::Mode::kServe) {
    ASHLAR_TRY(simulate::RunServe(requests.Opener(), *setting.layout, setting.serve, setup.cost,
                                  progress, results));
  } else if (setting.is_optimum) {
    ASHLAR_TRY(simulate::RunOptimum(requests.Opener(), setting.cache, progress, results));
  } else {
    ASHLAR_TRY(simulate::RunCache(requests.Opener(), setting.cache, progress, results));
  }
  results.skipped = requests.skipped();
  return {};
}

void PrintJson(const simulate::ReportJson& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, simulate::ReportJson::error_handler_t::replace));
}

Status Compare(const SimulateFlags& flags, SimulateSetup& setup) {
  if (setup.settings.size() != 1 || flags.mode != "serve") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--compare needs one run in serve mode, with the server's own settings");
  }
  CompareOptions options = {.seed = flags.seed};
  ASHLAR_ASSIGN(options.client.target, load::ParseTarget(flags.compare));
  options.client.api_key = flags.api_key;
  options.client.ca_file = flags.ca_file;
  options.client.verifies = !flags.is_insecure;
  Requests requests(setup);
  ASHLAR_ASSIGN(const Comparison comparison,
                CompareWithServer(options, setup, setup.settings[0], requests.Opener()));
  if (flags.as_json) {
    PrintJson(JsonOf(comparison));
  } else {
    fmt::print("{}", TextOf(comparison));
  }
  return {};
}

Status Simulate(const SimulateFlags& flags) {
  ASHLAR_ASSIGN(SimulateSetup setup, ResolveSimulate(flags));
  if (!flags.compare.empty()) return Compare(flags, setup);
  // Now rather than at the end, when the figures would be lost.
  for (const std::string& path : {flags.csv, flags.html, flags.svg}) {
    ASHLAR_TRY(CheckWritable(path));
  }
  Requests requests(setup);
  SimulateProgress progress(setup.settings.size());
  std::vector<simulate::Run> runs;
  runs.reserve(setup.settings.size());
  for (SimulateSetting& setting : setup.settings) {
    progress.Begin(runs.size());
    ASHLAR_TRY(
        RunSetting(setup, setting, requests, [&](std::uint64_t count) { progress.Show(count); }));
    runs.push_back(std::move(setting.run));
  }
  progress.End();
  if (requests.skipped() > 0) {
    fmt::print(stderr, "{} lines were skipped, the first: {}\n", requests.skipped(),
               requests.first_skipped());
  }
  if (flags.as_json) {
    for (const simulate::Run& run : runs) {
      PrintJson(simulate::JsonOf(run));
    }
  } else {
    fmt::print("{}", simulate::TextReport(runs));
  }
  if (!flags.csv.empty()) ASHLAR_TRY(WriteFile(flags.csv, simulate::CsvReport(runs)));
  if (!flags.html.empty()) ASHLAR_TRY(WriteFile(flags.html, simulate::HtmlReport(runs)));
  if (flags.svg.empty()) return {};
  const std::string plot = simulate::SweepPlot(runs);
  if (!plot.empty()) return WriteFile(flags.svg, plot);
  return MakeError(ErrorCode::kInvalidArgument,
                   "--svg needs a sweep over two capacities or more: --blocks or --kv-memory with "
                   "a list");
}

}  // namespace

CommandBody AddSimulateCommand(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* const command = app.add_subcommand(
      "simulate",
      "replays traffic through the scheduler and the cache without a model: hit rate, "
      "latencies, preemptions, by policy and memory");
  AddSimulateFlags(*command, *flags);
  return [flags] { return Simulate(*flags); };
}

}  // namespace ashlar::apps
