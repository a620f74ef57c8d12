// `ashlar serve`: the OpenAI-compatible server.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <ctime>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/serve_flags.h"
#include "apps/session.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "engine/runner.h"
#include "net/http_server.h"
#include "server/control_routes.h"
#include "server/openai_server.h"
#include "server/recent_requests.h"
#include "server/request_log.h"
#include "server/request_metrics.h"
#include "server/router.h"
#include "simulate/trace_recorder.h"

namespace ashlar::apps {
namespace {

// What is left to be sent when the last answer is complete.
constexpr std::int64_t kFlushMs = 1000;
constexpr std::int64_t kLookNs = 20'000'000;  // between looks at what is under way

// SIGINT and SIGTERM are blocked in every thread from here on, and waited for by the main one.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Whether another of the signals came within the time.
bool WaitForSignal(const sigset_t& signals, std::int64_t ns) {
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return sigtimedwait(&signals, nullptr, &time) > 0;
}

// Takes no more requests and lets those under way finish, for so long or until told again.
void Drain(server::OpenAiServer& api, net::HttpServer& http, const sigset_t& signals,
           double timeout_s) {
  const SteadyClock clock;
  const std::int64_t end_ns = clock.NowNs() + std::llround(timeout_s * 1e9);
  api.BeginDrain(std::llround(timeout_s));
  bool is_told_again = false;
  while (api.requests() > 0 && clock.NowNs() < end_ns && !is_told_again) {
    is_told_again = WaitForSignal(signals, kLookNs);
  }
  if (const std::size_t left = api.requests(); left > 0) {
    ASHLAR_LOG_WARNING("{}: {} requests are cut", is_told_again ? "told again" : "time is up",
                       left);
  }
  // What is complete may still be on its way to slow readers.
  http.Stop(is_told_again ? 0 : std::max(kFlushMs, (end_ns - clock.NowNs()) / 1'000'000));
}

// What is refused before a route is asked: counted, and in the API's error shape.
void AnswerUnrouted(net::HttpServerOptions& http, const server::Router& router,
                    server::RequestMetrics& metrics) {
  http.refuse_head = [&router, &metrics](const net::HttpRequest& head) {
    auto refusal = router.RefuseHead(head);
    if (refusal) metrics.OnRefused(refusal->status);
    return refusal;
  };
  http.format_error = [&metrics](int status, std::string_view message) {
    metrics.OnRefused(status);
    return server::OpenAiServer::FormatError(status, message);
  };
}

// Of a recorded trace: known to nobody.
trace::NamingKey RandomKey() {
  std::random_device random;
  const auto word = [&] { return (std::uint64_t{random()} << 32) | random(); };
  return {word(), word()};
}

// Else every request would be refused.
Status CheckContextStream(const engine::ContextStream& stream, std::uint64_t context) {
  const std::uint64_t window = stream.window > 0 ? stream.window : context / 2;
  if (stream.sinks < context && window < context - stream.sinks) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--context-sinks is {} and --context-window {}; together they must be less than "
                   "the context of {} tokens",
                   stream.sinks, window, context);
}

Status Serve(const ServeFlags& flags) {
  const sigset_t end_signals = BlockEndSignals();
  ASHLAR_ASSIGN(ServeSetup setup, ResolveServeFlags(flags));
  ASHLAR_ASSIGN(const auto session, Session::Open(flags.engine));
  const std::string name =
      flags.served_model_name.empty() ? session->file().name() : flags.served_model_name;
  engine::EngineRunner runner(session->TakeEngine(), session->clock(), flags.max_waiting);
  if (setup.api.context_stream) {
    ASHLAR_TRY(CheckContextStream(*setup.api.context_stream, runner.info().max_context));
  }
  server::ChatRenderer renderer;
  if (const text::ChatTemplate* const chat_template = session->chat_template()) {
    renderer = [chat_template](const server::Json& context) {
      return chat_template->Render(context);
    };
  }
  // Stopping the runner ends the recorder's last sink.
  std::optional<simulate::TraceRecorder> recorder;
  if (!flags.record_trace.empty()) {
    ASHLAR_ASSIGN(auto file, simulate::TraceRecorder::CreateFile(flags.record_trace));
    recorder.emplace(runner, std::move(file), RandomKey(), session->clock());
  }
  engine::Service& service = recorder ? static_cast<engine::Service&>(*recorder) : runner;
  setup.api.model_names = {name};
  setup.api.version = kVersion;
  setup.api.clock = &session->clock();
  server::OpenAiServer api(service, session->tokenizer(), std::move(renderer), setup.api);
  const auto metrics = std::make_shared<server::RequestMetrics>(runner.info().max_context);
  const auto recent = std::make_shared<server::RecentRequests>();
  server::ControlRoutes control(runner, runner.info(), metrics, recent,
                                {.model_name = name, .version = kVersion});
  server::Router router(session->clock(),
                        std::make_shared<server::RequestObservers>(
                            std::vector<std::shared_ptr<server::RequestObserver>>{
                                std::make_shared<server::RequestLog>(), metrics, recent}),
                        server::Doorkeeper(std::move(setup.keys), std::move(setup.door)));
  api.AddRoutes(router);
  control.AddRoutes(router);
  AnswerUnrouted(setup.http, router, *metrics);
  ASHLAR_ASSIGN(const auto http,
                net::HttpServer::Start(
                    setup.http, [&](net::HttpRequest request, const net::Responder& responder) {
                      router.Handle(std::move(request), responder);
                    }));
  const bool is_v6 = flags.host.find(':') != std::string::npos;
  ASHLAR_LOG_INFO("serving {} on {}://{}{}{}:{}/v1 (Ctrl-C ends)", name,
                  setup.http.tls != nullptr ? "https" : "http", is_v6 ? "[" : "", flags.host,
                  is_v6 ? "]" : "", http->port());
  int signal = 0;
  sigwait(&end_signals, &signal);
  ASHLAR_LOG_INFO("{}: finishing what runs, at most {} s; again cuts it",
                  signal == SIGINT ? "interrupted" : "terminated", flags.drain_timeout_s);
  control.Stop();  // streams of events never end by themselves
  Drain(api, *http, end_signals, flags.drain_timeout_s);
  pthread_sigmask(SIG_UNBLOCK, &end_signals, nullptr);  // the next one ends the process at once
  runner.Stop();
  ASHLAR_LOG_INFO("{}", DescribeMemory(session->memory()));
  return {};
}

}  // namespace

CommandBody AddServeCommand(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* const command = app.add_subcommand("serve", "serve the OpenAI-compatible API");
  AddServeFlags(*command, *flags);
  return [flags] { return Serve(*flags); };
}

}  // namespace ashlar::apps
