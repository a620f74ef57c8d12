#include "apps/simulate_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "apps/file_limit.h"
#include "base/clock.h"
#include "base/latency_histogram.h"
#include "base/text_table.h"
#include "load/load_run.h"
#include "load/probe.h"
#include "load/workload.h"
#include "simulate/serve_run.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kMaxCompared = 100'000;   // requests: all are kept in memory
constexpr std::uint32_t kFirstMadeUp = 1U << 30;  // tokens of outputs: no vocabulary has them
constexpr std::size_t kMaxBiases = 300;           // that servers take in a request

using Requests = std::vector<trace::Request>;

Result<Requests> ReadRequests(const simulate::OpenSource& open) {
  ASHLAR_ASSIGN(const auto source, open());
  Requests requests;
  for (trace::Request request;;) {
    ASHLAR_ASSIGN(const bool is_one, source->Next(request));
    if (!is_one) return requests;
    if (requests.size() == kMaxCompared) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "a comparison of more than {} requests; give --requests", kMaxCompared);
    }
    // An answer has at least one token, and all that is asked for: the end of a text is not its
    // own.
    request.output_tokens = std::max<std::uint64_t>(request.output_tokens, 1);
    request.max_tokens = request.output_tokens;
    requests.push_back(request);
  }
}

class ListSource final : public trace::Source {
 public:
  explicit ListSource(const Requests& requests) : requests_(requests) {}
  Result<bool> Next(trace::Request& request) override {
    if (next_ == requests_.size()) return false;
    request = requests_[next_++];
    return true;
  }

 private:
  const Requests& requests_;
  std::size_t next_ = 0;
};

// The requests as the server's tokenizer has them: a token's name is the token. What is generated
// is known only to be nobody else's.
Result<Requests> Tokenized(load::HttpClient& client, const std::string& model,
                           const load::Workload& workload, Requests requests) {
  std::uint32_t made_up = kFirstMadeUp;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    trace::Request& request = requests[i];
    ASHLAR_ASSIGN(const std::vector<std::uint32_t> tokens,
                  load::Tokenize(client, model, workload.Turns(i)[0].text));
    request.hash_ids.clear();
    request.prefixes = tokens;
    request.input_tokens = tokens.size();
    for (std::uint64_t j = 0; j < request.output_tokens; ++j) {
      request.prefixes.push_back(made_up);
      made_up = std::max(kFirstMadeUp, (made_up + 1) & 0x7FFFFFFF);
    }
    // A salt or a tenant was not sent.
    request.scope.clear();
    request.tenant.clear();
    request.priority = 0;
  }
  return requests;
}

// Answers must not use the prompts' tokens: one that goes on as another request's prompt does would
// be hit by chance. Nothing when these are too many to say.
nlohmann::json BiasAgainstPrompts(const Requests& requests) {
  std::set<std::uint32_t> tokens;
  for (const trace::Request& request : requests) {
    for (std::uint64_t i = 0; i < request.input_tokens; ++i) tokens.insert(request.prefixes[i]);
    if (tokens.size() > kMaxBiases) return nlohmann::json::object();
  }
  nlohmann::json biases = nlohmann::json::object();
  for (const std::uint32_t token : tokens) biases[std::to_string(token)] = -100;
  return {{"logit_bias", std::move(biases)}};
}

load::DriverOptions DriverFor(const simulate::ServeRunOptions& serve, const Requests& requests,
                              const std::string& model) {
  load::DriverOptions driver = {.body = {.model = model, .extra = BiasAgainstPrompts(requests)}};
  driver.pacer.conversations = requests.size();
  if (serve.concurrency > 0) {
    driver.max_requests = driver.pacer.concurrency = serve.concurrency;
  } else {
    driver.max_requests = driver.pacer.concurrency = requests.size();
    driver.pacer.arrivals_ns = load::TraceArrivals(requests, serve.time_scale);
  }
  return driver;
}

void AddLatency(std::string_view name, const LatencyHistogram& predicted,
                const LatencyHistogram& measured, std::vector<ComparedFigure>& figures) {
  figures.push_back(
      {fmt::format("{}_mean_ms", name), predicted.mean_ns() / 1e6, measured.mean_ns() / 1e6});
  for (const auto& [column, share] :
       {std::pair{"p50", 0.5}, std::pair{"p95", 0.95}, std::pair{"p99", 0.99}}) {
    figures.push_back({fmt::format("{}_{}_ms", name, column),
                       static_cast<double>(predicted.PercentileNs(share)) / 1e6,
                       static_cast<double>(measured.PercentileNs(share)) / 1e6});
  }
}

std::vector<ComparedFigure> FiguresOf(const simulate::Results& predicted,
                                      const load::Results& measured, double duration_s) {
  const auto count = [](std::uint64_t value) { return static_cast<double>(value); };
  const load::Results::Totals& totals = measured.totals();
  std::vector<ComparedFigure> figures = {
      {"requests", count(predicted.requests), count(totals.completed)},
      {"prompt_tokens", count(predicted.prompt_tokens), count(totals.prompt_tokens)},
      {"hit_tokens", count(predicted.hit_tokens), count(totals.cached_tokens)},
      {"output_tokens", count(predicted.output_tokens), count(totals.completion_tokens)},
      {"duration_s", static_cast<double>(predicted.duration_ns) / 1e9, duration_s}};
  AddLatency("ttft", predicted.ttft, measured.ttft(), figures);
  AddLatency("itl", predicted.itl, measured.itl(), figures);
  AddLatency("e2e", predicted.e2e, measured.e2e(), figures);
  return figures;
}

std::optional<double> DifferenceOf(const ComparedFigure& figure) {
  if (figure.predicted == figure.measured) return 0;
  if (figure.measured == 0) return std::nullopt;
  return figure.predicted / figure.measured - 1;
}

}  // namespace

Result<Comparison> CompareWithServer(const CompareOptions& options, const SimulateSetup& setup,
                                     SimulateSetting& setting, const simulate::OpenSource& open) {
  RaiseFileLimit();
  ASHLAR_ASSIGN(Requests requests, ReadRequests(open));
  ASHLAR_ASSIGN(const auto client, load::HttpClient::Open(options.client));
  ASHLAR_ASSIGN(const std::string model, load::DiscoverModel(*client));
  ASHLAR_ASSIGN(load::Calibration calibration, load::Calibrate(*client, {.model = model}));
  const auto workload = load::MakeTraceWorkload(
      requests, {.block_tokens = setting.serve.hash_block_tokens, .seed = options.seed},
      std::move(calibration.text));
  ASHLAR_ASSIGN(requests, Tokenized(*client, model, *workload, std::move(requests)));
  Comparison comparison = {.how = calibration.how};
  const auto reset = load::Fetch(*client, {.path = "/reset_prefix_cache", .body = "{}"});
  if (!reset.ok()) {
    comparison.how +=
        fmt::format("; the server's cache could not be emptied before: {}", reset.error().message);
  }
  simulate::Results& predicted = setting.run.results;
  ASHLAR_TRY(simulate::RunServe(
      [&]() { return std::unique_ptr<trace::Source>(std::make_unique<ListSource>(requests)); },
      *setting.layout, setting.serve, setup.cost, [](std::uint64_t) {}, predicted));

  fmt::print(stderr, "{} requests to '{}', which should take {:.0f} s\n", requests.size(), model,
             static_cast<double>(predicted.duration_ns) / 1e9);
  const SteadyClock clock;
  const auto measured = std::make_unique<load::Results>(load::LatencyTargets{});
  const load::LoadOutcome outcome = load::RunLoad(
      *workload, {.driver = DriverFor(setting.serve, requests, model)}, *client, clock, *measured);
  comparison.failed = measured->totals().failed;
  comparison.figures = FiguresOf(predicted, *measured, outcome.duration_s);
  if (measured->totals().completed > 0) return comparison;
  std::string why;
  for (const auto& [kind, failure] : measured->failures()) why = failure.example;
  return MakeError(ErrorCode::kUnavailable, "no request was answered: {}", why);
}

std::string TextOf(const Comparison& comparison) {
  TextTable table;
  table.Add({"", "predicted", "measured", "difference"});
  for (const ComparedFigure& figure : comparison.figures) {
    const bool is_whole = std::floor(figure.predicted) == figure.predicted &&
                          std::floor(figure.measured) == figure.measured;
    const auto shown = [&](double value) {
      return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
    };
    const auto difference = DifferenceOf(figure);
    table.Add({figure.name, shown(figure.predicted), shown(figure.measured),
               !difference        ? "?"
               : *difference == 0 ? "none"
                                  : fmt::format("{:+.1f}%", 100 * *difference)});
  }
  std::string text = fmt::format("prompts: {}\n", comparison.how);
  if (comparison.failed > 0) text += fmt::format("{} requests failed\n", comparison.failed);
  return text + "\n" + table.Text();
}

simulate::ReportJson JsonOf(const Comparison& comparison) {
  simulate::ReportJson predicted = simulate::ReportJson::object();
  simulate::ReportJson measured = simulate::ReportJson::object();
  for (const ComparedFigure& figure : comparison.figures) {
    predicted[figure.name] = figure.predicted;
    measured[figure.name] = figure.measured;
  }
  return {{"name", "compare"},
          {"how", comparison.how},
          {"failed", comparison.failed},
          {"predicted", std::move(predicted)},
          {"measured", std::move(measured)}};
}

}  // namespace ashlar::apps
