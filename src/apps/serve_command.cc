// `ashlar serve`: the OpenAI-compatible server.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/commands.h"
#include "apps/session.h"
#include "base/log.h"
#include "base/version.h"
#include "engine/runner.h"
#include "net/http_server.h"
#include "server/openai_server.h"
#include "server/request_log.h"
#include "server/router.h"

namespace ashlar::apps {
namespace {

struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string served_model_name;  // empty: the file's name without its ending
  std::optional<std::uint64_t> seed;
  std::size_t max_waiting = 1024;
  std::size_t max_connections = 4096;
  std::uint32_t io_threads = 1;
  std::int64_t drain_ms = 5000;
};

// As many sockets as the system lets us have: each connection is one.
void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// SIGINT and SIGTERM are blocked in every thread from here on, and waited for by the main one.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Status Serve(const ServeFlags& flags) {
  RaiseFileLimit();
  const sigset_t end_signals = BlockEndSignals();
  ASHLAR_ASSIGN(const auto session, Session::Open(flags.engine));
  const std::string name =
      flags.served_model_name.empty()
          ? std::filesystem::path(session->file().paths().front()).stem().string()
          : flags.served_model_name;
  engine::EngineRunner runner(session->TakeEngine(), session->clock(), flags.max_waiting);
  server::ChatRenderer renderer;
  if (const text::ChatTemplate* const chat_template = session->chat_template()) {
    renderer = [chat_template](const server::Json& context) {
      return chat_template->Render(context);
    };
  }
  server::OpenAiServer api(runner, session->tokenizer(), std::move(renderer),
                           {.model_names = {name}, .version = kVersion, .seed = flags.seed});
  server::Router router(session->clock(), std::make_shared<server::RequestLog>());
  api.AddRoutes(router);
  ASHLAR_ASSIGN(
      const auto http,
      net::HttpServer::Start({.host = flags.host,
                              .port = flags.port,
                              .io_threads = flags.io_threads,
                              .max_connections = flags.max_connections,
                              .format_error = &server::OpenAiServer::FormatError},
                             [&](net::HttpRequest request, const net::Responder& responder) {
                               router.Handle(std::move(request), responder);
                             }));
  if (!IsLoopback(flags.host)) {
    ASHLAR_LOG_WARNING("serving on {}, beyond this machine, without authentication", flags.host);
  }
  ASHLAR_LOG_INFO("serving {} on http://{}:{}/v1 (Ctrl-C ends)", name, flags.host, http->port());
  int signal = 0;
  sigwait(&end_signals, &signal);
  pthread_sigmask(SIG_UNBLOCK, &end_signals, nullptr);  // a second signal ends the process at once
  ASHLAR_LOG_INFO("{}: finishing what runs, at most {} ms",
                  signal == SIGINT ? "interrupted" : "terminated", flags.drain_ms);
  http->Stop(flags.drain_ms);
  runner.Stop();
  return {};
}

}  // namespace

CommandBody AddServeCommand(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* const command = app.add_subcommand("serve", "serve the OpenAI-compatible API");
  AddEngineFlags(*command, flags->engine);
  command->add_option("--host", flags->host, "address to listen on")->capture_default_str();
  command->add_option("--port", flags->port, "port to listen on; 0 = any free one")
      ->capture_default_str();
  command->add_option("--served-model-name", flags->served_model_name,
                      "the model's name in the API (default: the file's)");
  command->add_option("--seed", flags->seed, "seed of requests that give none (default: random)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--max-waiting", flags->max_waiting, "requests queued; more get 429")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--max-connections", flags->max_connections, "open connections; more get 503")
      ->capture_default_str();
  command->add_option("--io-threads", flags->io_threads, "threads for the network, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--drain-ms", flags->drain_ms, "time for running answers at shutdown")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
  return [flags] { return Serve(*flags); };
}

}  // namespace ashlar::apps
