// The flags of `ashlar serve` beside the engine's, and how they become typed options.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags.h"
#include "base/result.h"
#include "net/http_server.h"
#include "server/doorkeeper.h"
#include "server/openai_server.h"

namespace ashlar::apps {

// As given on the command line; checked by ResolveServeFlags.
struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string served_model_name;  // empty: the file's name without its ending
  std::optional<std::uint64_t> seed;
  std::uint32_t io_threads = 1;
  // Who may ask.
  std::string api_key_file;
  bool isolate_tenants = false;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
  std::string tls_cert;
  std::string tls_key;
  // How much.
  std::size_t max_connections = 4096;
  std::size_t max_requests = 2048;
  std::size_t max_waiting = 1024;
  std::string max_body = "16MiB";
  std::string max_header = "16KiB";
  std::string max_answer = "64MiB";
  std::string max_prompt_tokens;  // empty: what the context holds
  std::string record_trace;       // a file; empty: none
  // What becomes of texts that outgrow the context.
  std::string context_overflow = "refuse";
  std::uint64_t context_sinks = 4;
  std::uint64_t context_window = 0;
  // How long.
  double request_timeout_s = 0;  // 0: any time
  double idle_timeout_s = 60;
  double drain_timeout_s = 30;
};

void AddServeFlags(CLI::App& command, ServeFlags& flags);

// The same, parsed, with what files hold.
struct ServeSetup {
  net::HttpServerOptions http;
  server::OpenAiServerOptions api;  // without model names, version and clock
  server::ApiKeys keys;
  server::DoorkeeperOptions door;
};

// Errors: kInvalidArgument and kIo, naming the flag or file and what is right. Warns of what is
// allowed but unwise.
Result<ServeSetup> ResolveServeFlags(const ServeFlags& flags);

}  // namespace ashlar::apps
