#include "apps/bench_serve_flags.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/byte_size.h"
#include "trace/reader.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kMaxRequests = 1'000'000;
constexpr std::uint64_t kMaxConcurrency = 20'000;
constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 24;  // of one text
constexpr std::uint64_t kMaxTurns = 1000;
constexpr std::uint64_t kDefaultRequests = 100;
constexpr std::uint64_t kDefaultConcurrency = 8;  // of a closed loop
constexpr double kMaxSeconds = 1e6;
constexpr double kMaxRate = 1e6;
constexpr double kNsPerS = 1e9;
constexpr double kNsPerMs = 1e6;

Status CheckCount(std::string_view flag, std::uint64_t value, std::uint64_t least,
                  std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{} is {}; it must be {} to {}", flag, value, least,
                   most);
}

Status CheckNumber(std::string_view flag, double value, double most) {
  if (value >= 0 && value <= most) return {};  // and no NaN
  return MakeError(ErrorCode::kInvalidArgument, "{} is {:g}; it must be 0 to {:g}", flag, value,
                   most);
}

// "128" or "100:2k".
Result<load::LengthRange> ParseRange(std::string_view flag, std::string_view text,
                                     std::uint64_t least) {
  const std::size_t colon = text.find(':');
  const auto first = ParseTokenCount(text.substr(0, colon));
  const auto last = colon == text.npos ? first : ParseTokenCount(text.substr(colon + 1));
  if (first.ok() && last.ok() && *first >= least && *first <= *last && *last <= kMaxTokens) {
    return load::LengthRange{.least = *first, .most = *last};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} is '{}'; it must be a number of tokens from {} to {}, or a range like "
                   "100:2k",
                   flag, text, least, kMaxTokens);
}

Result<load::BodyOptions> ResolveBody(const ServeBenchFlags& flags) {
  load::BodyOptions body = {
      .model = flags.model, .temperature = flags.temperature, .ignores_eos = !flags.respects_eos};
  ASHLAR_TRY(CheckNumber("--temperature", flags.temperature, 100));
  if (flags.endpoint == "chat") {
    body.endpoint = load::Endpoint::kChat;
  } else if (flags.endpoint != "completions") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--endpoint is '{}'; it must be completions or chat", flags.endpoint);
  }
  body.extra = nlohmann::json::parse(flags.extra_body, nullptr, false);
  if (!body.extra.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--extra-body is '{}'; it must be a JSON object like '{{\"top_k\": 1}}'",
                     flags.extra_body);
  }
  return body;
}

Result<load::HttpClientOptions> ResolveClient(const ServeBenchFlags& flags) {
  load::HttpClientOptions client;
  ASHLAR_ASSIGN(client.target, load::ParseTarget(flags.url));
  client.api_key = flags.api_key;
  client.ca_file = flags.ca_file;
  client.verifies = !flags.is_insecure;
  ASHLAR_TRY(CheckNumber("--timeout-s", flags.timeout_s, kMaxSeconds));
  client.timeout_ns = static_cast<std::int64_t>(flags.timeout_s * kNsPerS);
  return client;
}

Status ResolveSynthetic(const ServeBenchFlags& flags, ServeBenchSetup& setup) {
  load::SyntheticOptions& synthetic = setup.synthetic;
  synthetic.conversations = flags.requests == 0 ? kDefaultRequests : flags.requests;
  ASHLAR_TRY(CheckCount("--skip", flags.skip, 0, kMaxRequests));
  synthetic.first = flags.skip;
  ASHLAR_ASSIGN(const load::LengthRange prefix,
                ParseRange("--prefix-tokens", flags.prefix_tokens, 0));
  if (prefix.least != prefix.most) {
    return MakeError(ErrorCode::kInvalidArgument, "--prefix-tokens is '{}'; it must be one number",
                     flags.prefix_tokens);
  }
  synthetic.prefix_tokens = prefix.least;
  ASHLAR_TRY(CheckCount("--prefixes", flags.prefixes, 1, kMaxRequests));
  synthetic.prefixes = flags.prefixes;
  ASHLAR_ASSIGN(synthetic.prompt_tokens, ParseRange("--prompt-tokens", flags.prompt_tokens,
                                                    synthetic.prefix_tokens > 0 ? 0 : 1));
  ASHLAR_ASSIGN(synthetic.output_tokens, ParseRange("--output-tokens", flags.output_tokens, 1));
  ASHLAR_TRY(CheckCount("--turns", flags.turns, 1, kMaxTurns));
  synthetic.turns = flags.turns;
  ASHLAR_ASSIGN(synthetic.turn_tokens, ParseRange("--turn-tokens", flags.turn_tokens, 1));
  synthetic.seed = flags.seed;
  setup.params.update({{"requests", synthetic.conversations},
                       {"skipped", flags.skip},
                       {"prefix_tokens", synthetic.prefix_tokens},
                       {"prefixes", synthetic.prefixes},
                       {"prompt_tokens", flags.prompt_tokens},
                       {"output_tokens", flags.output_tokens}});
  if (flags.turns > 1) {
    setup.params["turns"] = flags.turns;
    setup.params["turn_tokens"] = flags.turn_tokens;
  }
  return {};
}

Status ResolveTrace(const ServeBenchFlags& flags, ServeBenchSetup& setup) {
  ASHLAR_TRY(CheckCount("--trace-block-tokens", flags.trace_block_tokens, 1, kMaxTokens));
  ASHLAR_TRY(CheckNumber("--length-scale", flags.length_scale, 1000));
  if (flags.rate > 0 || flags.turns > 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--trace has its own arrivals and lengths; leave out {}",
                     flags.rate > 0 ? "--rate" : "--turns");
  }
  const std::uint64_t read = flags.requests == 0 ? 0 : flags.requests + flags.skip;
  ASHLAR_ASSIGN(const auto reader,
                trace::Reader::Open(flags.trace, {.block_tokens = flags.trace_block_tokens,
                                                  .max_requests = read,
                                                  .order = trace::LineOrder::kAny}));
  ASHLAR_ASSIGN(setup.trace, trace::ReadAll(*reader));
  if (flags.skip >= setup.trace.size()) {
    return MakeError(ErrorCode::kInvalidArgument, "--skip is {}; the trace has {} requests",
                     flags.skip, setup.trace.size());
  }
  setup.trace.erase(setup.trace.begin(),
                    setup.trace.begin() + static_cast<std::ptrdiff_t>(flags.skip));
  setup.trace_options = {.block_tokens = flags.trace_block_tokens,
                         .length_scale = flags.length_scale,
                         .seed = flags.seed};
  setup.params.update({{"trace", flags.trace},
                       {"requests", setup.trace.size()},
                       {"length_scale", flags.length_scale},
                       {"time_scale", flags.time_scale}});
  return {};
}

Status ResolvePace(const ServeBenchFlags& flags, ServeBenchSetup& setup) {
  load::PacerOptions& pacer = setup.driver.pacer;
  pacer.conversations = setup.trace.empty() ? setup.synthetic.conversations : setup.trace.size();
  ASHLAR_TRY(CheckNumber("--rate", flags.rate, kMaxRate));
  ASHLAR_TRY(CheckNumber("--time-scale", flags.time_scale, kMaxSeconds));
  if (!setup.trace.empty() && flags.time_scale > 0) {
    pacer.arrivals_ns = load::TraceArrivals(setup.trace, flags.time_scale);
  } else if (flags.rate > 0 && flags.arrivals == "even") {
    pacer.arrivals_ns = load::EvenArrivals(flags.rate, pacer.conversations);
  } else if (flags.rate > 0) {
    pacer.arrivals_ns = load::PoissonArrivals(flags.rate, pacer.conversations, flags.seed);
  }
  if (flags.arrivals != "poisson" && flags.arrivals != "even") {
    return MakeError(ErrorCode::kInvalidArgument, "--arrivals is '{}'; it must be poisson or even",
                     flags.arrivals);
  }
  const bool is_open = !pacer.arrivals_ns.empty();
  const std::uint64_t concurrency =
      flags.concurrency.value_or(is_open ? kMaxConcurrency : kDefaultConcurrency);
  ASHLAR_TRY(CheckCount("--concurrency", concurrency, 1, kMaxConcurrency));
  setup.driver.max_requests = concurrency;
  ASHLAR_TRY(CheckCount("--chats", flags.chats, 0, kMaxConcurrency));
  pacer.concurrency = is_open ? kMaxRequests : flags.chats > 0 ? flags.chats : concurrency;
  ASHLAR_TRY(CheckNumber("--duration-s", flags.duration_s, kMaxSeconds));
  if (flags.duration_s > 0) pacer.end_ns = static_cast<std::int64_t>(flags.duration_s * kNsPerS);
  setup.params["pace"] = is_open ? "open" : "closed";
  setup.params["concurrency"] = concurrency;
  if (flags.chats > 0) setup.params["chats"] = flags.chats;
  if (flags.rate > 0)
    setup.params.update({{"rate_per_s", flags.rate}, {"arrivals", flags.arrivals}});
  if (flags.duration_s > 0) setup.params["longest_s"] = flags.duration_s;
  return {};
}

void AddServerFlags(CLI::App& command, ServeBenchFlags& flags) {
  command.add_option("--url", flags.url, "the server, http or https, with or without /v1")
      ->capture_default_str();
  command.add_option("-m,--model", flags.model, "name of the model (default: the server's first)");
  command.add_option("--api-key", flags.api_key, "sent as a bearer token")
      ->envname("OPENAI_API_KEY");
  command.add_option("--ca-file", flags.ca_file, "certificates to trust (default: the system's)");
  command.add_flag("--insecure", flags.is_insecure, "take any certificate");
  command.add_option("--timeout-s", flags.timeout_s, "longest time for one answer")
      ->capture_default_str();
  command.add_option("--endpoint", flags.endpoint, "completions or chat")->capture_default_str();
  command.add_option("--temperature", flags.temperature)->capture_default_str();
  command.add_flag("--respect-eos", flags.respects_eos,
                   "do not send ignore_eos: answers may be shorter than --output-tokens");
  command.add_option("--extra-body", flags.extra_body, "JSON object, added to every request");
}

void AddWorkloadFlags(CLI::App& command, ServeBenchFlags& flags) {
  command.add_option("-n,--requests", flags.requests,
                     "requests (conversations with --turns); default: 100, or the whole trace");
  command.add_option("--skip", flags.skip,
                     "leave out the first ones: another part of the same workload");
  command.add_option("--prefix-tokens", flags.prefix_tokens, "tokens that all prompts begin with")
      ->capture_default_str();
  command.add_option("--prefixes", flags.prefixes, "different prefixes, taken in turn")
      ->capture_default_str();
  command
      .add_option("--prompt-tokens", flags.prompt_tokens,
                  "tokens of a prompt behind the prefix: a number, or a range like 100:2k")
      ->capture_default_str();
  command.add_option("--output-tokens", flags.output_tokens, "tokens of an answer, or a range")
      ->capture_default_str();
  command
      .add_option("--turns", flags.turns,
                  "requests of a conversation, each with all before it and the real answers")
      ->capture_default_str();
  command.add_option("--turn-tokens", flags.turn_tokens, "tokens that a later turn adds")
      ->capture_default_str();
  command.add_option("--trace", flags.trace, "replay this file in Mooncake's format");
  command.add_option("--trace-block-tokens", flags.trace_block_tokens, "tokens of a hash id")
      ->capture_default_str();
  command.add_option("--length-scale", flags.length_scale, "times the trace's lengths")
      ->capture_default_str();
  command
      .add_option("--time-scale", flags.time_scale,
                  "times the trace's gaps; 0: as --concurrency allows")
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "of texts, lengths and arrivals")->capture_default_str();
}

}  // namespace

void AddServeBenchFlags(CLI::App& command, ServeBenchFlags& flags) {
  AddServerFlags(command, flags);
  AddWorkloadFlags(command, flags);
  command.add_option("-c,--concurrency", flags.concurrency,
                     "requests at a time (default: 8, with --rate or --trace as they come)");
  command.add_option("--chats", flags.chats,
                     "conversations open at a time, whose turns go round for the --concurrency "
                     "places (default: one for each place)");
  command.add_option("-r,--rate", flags.rate, "open loop: requests per second")
      ->capture_default_str();
  command.add_option("--arrivals", flags.arrivals, "of the open loop: poisson or even")
      ->capture_default_str();
  command
      .add_option("--duration-s", flags.duration_s, "begin nothing after this time; 0: no limit")
      ->capture_default_str();
  command.add_option("--target-ttft-ms", flags.target_ttft_ms, "for goodput; 0: none")
      ->capture_default_str();
  command
      .add_option("--target-itl-ms", flags.target_itl_ms,
                  "for goodput: of a request's mean time per token; 0: none")
      ->capture_default_str();
  command.add_option("--html", flags.html, "write a report with plots to this file");
  command.add_flag("--json", flags.as_json, "print one JSON object per figure");
}

Result<ServeBenchSetup> ResolveServeBench(const ServeBenchFlags& flags) {
  ServeBenchSetup setup;
  ASHLAR_ASSIGN(setup.client, ResolveClient(flags));
  ASHLAR_ASSIGN(setup.driver.body, ResolveBody(flags));
  if (flags.requests > kMaxRequests) {
    ASHLAR_TRY(CheckCount("--requests", flags.requests, 1, kMaxRequests));
  }
  setup.params = {{"url", flags.url}, {"endpoint", flags.endpoint}, {"seed", flags.seed}};
  ASHLAR_TRY(flags.trace.empty() ? ResolveSynthetic(flags, setup) : ResolveTrace(flags, setup));
  ASHLAR_TRY(ResolvePace(flags, setup));
  ASHLAR_TRY(CheckNumber("--target-ttft-ms", flags.target_ttft_ms, kMaxSeconds * 1000));
  ASHLAR_TRY(CheckNumber("--target-itl-ms", flags.target_itl_ms, kMaxSeconds * 1000));
  setup.targets = {.ttft_ns = static_cast<std::int64_t>(flags.target_ttft_ms * kNsPerMs),
                   .itl_ns = static_cast<std::int64_t>(flags.target_itl_ms * kNsPerMs)};
  return setup;
}

std::unique_ptr<load::Workload> ServeBenchSetup::MakeWorkload(load::TextMaker text) const {
  if (trace.empty()) return load::MakeSyntheticWorkload(synthetic, std::move(text));
  return load::MakeTraceWorkload(trace, trace_options, std::move(text));
}

}  // namespace ashlar::apps
