// `ashlar bench serve`: puts load on an OpenAI-compatible server, ours or a peer's, and measures
// it.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/bench_command.h"
#include "apps/bench_serve_flags.h"
#include "apps/file_limit.h"
#include "apps/output_file.h"
#include "base/clock.h"
#include "load/load_run.h"
#include "load/probe.h"

namespace ashlar::apps {
namespace {

constexpr std::int64_t kProgressNs = 1'000'000'000;
// Where progress cannot take the place of the one before.
constexpr int kProgressEvery = 10;

std::atomic<bool> is_interrupted = false;

// Shows where a run is, on stderr.
class ProgressLine {
 public:
  void Show(const load::Results& results, std::size_t requests, std::size_t running,
            std::int64_t now_ns) {
    if (!is_terminal_ && ++calls_ % kProgressEvery != 0) return;
    const load::Results::Totals& totals = results.totals();
    const double seconds = static_cast<double>(now_ns) / 1e9;
    fmt::print(stderr,
               "{}{:.0f} s: {}/{} answered, {} running, {} failed, {:.1f} pieces/s, "
               "TTFT p50 {:.0f} ms{}",
               is_terminal_ ? "\r" : "", seconds, totals.completed + totals.failed, requests,
               running, totals.failed, static_cast<double>(totals.pieces) / seconds,
               static_cast<double>(results.ttft().PercentileNs(0.5)) / 1e6,
               is_terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
    has_shown_ = true;
  }
  void End() const {
    if (is_terminal_ && has_shown_) fmt::print(stderr, "\n");
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  int calls_ = 0;
  bool has_shown_ = false;
};

// Ctrl-C ends the run and shows what it measured so far; a second one ends the program.
void ReportAtInterrupt() {
  std::signal(SIGINT, [](int) {
    is_interrupted = true;
    std::signal(SIGINT, SIG_DFL);
  });
}

Status BenchServe(const ServeBenchFlags& flags) {
  RaiseFileLimit();
  ASHLAR_ASSIGN(ServeBenchSetup setup, ResolveServeBench(flags));
  // Now rather than at the end, when the figures would be lost.
  ASHLAR_TRY(CheckWritable(flags.html));
  ASHLAR_ASSIGN(const auto client, load::HttpClient::Open(setup.client));
  if (setup.driver.body.model.empty()) {
    ASHLAR_ASSIGN(setup.driver.body.model, load::DiscoverModel(*client));
  }
  ASHLAR_ASSIGN(load::Calibration calibration, load::Calibrate(*client, setup.driver.body));
  const auto workload = setup.MakeWorkload(std::move(calibration.text));
  ReportAtInterrupt();
  fmt::print(stderr, "{} requests to '{}' at {}; lengths: {}\n", workload->requests(),
             setup.driver.body.model, flags.url, calibration.how);

  const SteadyClock clock;
  const auto results = std::make_unique<load::Results>(setup.targets);
  ProgressLine progress;
  load::RunInfo info = {.params = {{"model", setup.driver.body.model}}};
  info.params.update(setup.params);
  const load::LoadOutcome outcome =
      load::RunLoad(*workload,
                    {.driver = std::move(setup.driver),
                     .on_progress =
                         [&](const load::Driver& driver, std::int64_t now_ns) {
                           progress.Show(*results, workload->requests(), driver.running(), now_ns);
                         },
                     .progress_ns = kProgressNs,
                     .stop = &is_interrupted},
                    *client, clock, *results);
  progress.End();
  info.duration_s = outcome.duration_s;
  info.is_interrupted = outcome.is_interrupted;

  if (flags.as_json) {
    for (const load::ReportJson& row : load::JsonRows(info, *results)) {
      fmt::print("{}\n", row.dump(-1, ' ', false, load::ReportJson::error_handler_t::replace));
    }
  } else {
    fmt::print("{}", load::TextReport(info, *results));
  }
  ASHLAR_TRY(WriteFile(flags.html, load::HtmlReport(info, *results)));
  if (results->totals().completed > 0) return {};
  return MakeError(ErrorCode::kUnavailable, "no request was answered{}",
                   outcome.is_interrupted ? " before the interruption" : "; see the failures");
}

}  // namespace

BenchPart AddServeBench(CLI::App& bench) {
  auto flags = std::make_shared<ServeBenchFlags>();
  CLI::App* const command = bench.add_subcommand(
      "serve", "load on an OpenAI-compatible server, ours or a peer's: TTFT, ITL, goodput");
  AddServeBenchFlags(*command, *flags);
  return {.command = command, .body = [flags] { return BenchServe(*flags); }};
}

}  // namespace ashlar::apps
