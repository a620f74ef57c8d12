#include "apps/serve_flags.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/byte_size.h"
#include "base/log.h"
#include "kv/event_log.h"
#include "net/tls.h"

namespace ashlar::apps {
namespace {

constexpr double kMaxTimeoutS = 86'400;
constexpr std::uint64_t kMaxKeyFileBytes = 1 * kMiB;

Result<std::string> ReadKeyFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  struct stat about = {};
  if (file == nullptr || fstat(fileno(file.get()), &about) != 0) {
    return MakeError(ErrorCode::kIo, "cannot read --api-key-file '{}'; is it there, and readable?",
                     path);
  }
  if ((about.st_mode & S_IROTH) != 0) {
    ASHLAR_LOG_WARNING("everybody on this machine can read the keys in '{}': chmod o-r '{}'", path,
                       path);
  }
  std::string text(kMaxKeyFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0 || text.size() > kMaxKeyFileBytes) {
    return MakeError(ErrorCode::kIo, "cannot read --api-key-file '{}', or it is longer than {}",
                     path, FormatByteSize(kMaxKeyFileBytes));
  }
  return text;
}

Result<server::ApiKeys> LoadKeys(const std::string& path) {
  if (path.empty()) {
    return server::ApiKeys();
  }
  ASHLAR_ASSIGN(const std::string text, ReadKeyFile(path));
  auto keys = server::ApiKeys::Parse(text);
  if (!keys.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "--api-key-file '{}': {}", path,
                     keys.error().message);
  }
  return keys;
}

Result<std::shared_ptr<const net::TlsContext>> LoadTls(const ServeFlags& flags) {
  if (flags.tls_cert.empty() != flags.tls_key.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--tls-cert and --tls-key belong together; {} is missing",
                     flags.tls_cert.empty() ? "--tls-cert" : "--tls-key");
  }
  if (flags.tls_cert.empty()) {
    return std::shared_ptr<const net::TlsContext>();
  }
  return net::TlsContext::Load(flags.tls_cert, flags.tls_key);
}

Status CheckOrigin(const std::string& origin) {
  const std::size_t slashes = origin.find("://");
  const bool is_origin = slashes != std::string::npos && slashes > 0 &&
                         origin.size() > slashes + 3 &&
                         origin.find_first_of("/?# ", slashes + 3) == std::string::npos;
  if (is_origin || origin == "*") {
    return {};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--cors-origin is '{}'; it must be scheme://host or scheme://host:port, such as "
                   "https://chat.example.org, or * for all",
                   origin);
}

Status CheckHostName(const std::string& name) {
  if (!name.empty() && name.find_first_of("/:[]?#@ ") == std::string::npos) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--allowed-host is '{}'; it must be a name without a scheme and a port, such as "
                   "chat.example.org, or * for any",
                   name);
}

// By which names requests may come. Where nothing else keeps strangers' web pages out (no keys, no
// certificate whose name browsers compare, but an address that every page's reader has): by
// allowed ones only.
std::optional<std::vector<std::string>> HostsOf(const ServeFlags& flags, const ServeSetup& setup) {
  const std::vector<std::string>& allowed = flags.allowed_hosts;
  const bool is_guarded = !setup.keys.empty() || setup.http.tls != nullptr;
  if (std::find(allowed.begin(), allowed.end(), "*") != allowed.end() ||
      (allowed.empty() && (is_guarded || !net::IsOnLoopback(flags.host)))) {
    return std::nullopt;
  }
  return allowed;
}

void WarnOfOpenDoors(const ServeFlags& flags, const ServeSetup& setup) {
  if (net::IsOnLoopback(flags.host)) {
    return;
  }
  if (setup.keys.empty()) {
    ASHLAR_LOG_WARNING(
        "serving on {}, beyond this machine, without API keys: whoever reaches the port may use "
        "it; --api-key-file FILE asks for keys",
        flags.host);
  } else if (setup.http.tls == nullptr) {
    ASHLAR_LOG_WARNING(
        "serving on {}, beyond this machine, without TLS: API keys and texts can be read on the "
        "way; --tls-cert and --tls-key encrypt, or a proxy in front",
        flags.host);
  }
}

std::int64_t Milliseconds(double seconds) { return std::llround(seconds * 1e3); }

void AddAccessFlags(CLI::App& command, ServeFlags& flags) {
  command.add_option("--api-key-file", flags.api_key_file,
                     "a line KEY or TENANT:KEY for each who may ask, or JSON with quotas; without "
                     "it nobody is asked for a key");
  command.add_flag("--isolate-tenants", flags.isolate_tenants,
                   "share cached prefixes between requests of the same tenant only");
  command
      .add_option("--cors-origin", flags.cors_origins,
                  "web pages of this origin may use the server, such as "
                  "https://chat.example.org; again for more, * for all")
      ->allow_extra_args(false);
  command
      .add_option("--allowed-host", flags.allowed_hosts,
                  "a name by which requests may come, beside addresses and localhost; again for "
                  "more, * for any. Any too when it is left out, but on the loopback address "
                  "without keys and TLS")
      ->allow_extra_args(false);
  command.add_option("--tls-cert", flags.tls_cert,
                     "serve HTTPS with this certificate chain, a PEM file");
  command.add_option("--tls-key", flags.tls_key, "and its private key, a PEM file");
}

void AddLimitFlags(CLI::App& command, ServeFlags& flags) {
  command.add_option("--max-connections", flags.max_connections, "open connections; more get 503")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--max-requests", flags.max_requests,
                  "requests taken in at once, queued ones too; more get 503")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--max-waiting", flags.max_waiting, "sequences queued; more get 429")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--max-body", flags.max_body, "size of a request's body; more gets 413")
      ->capture_default_str();
  command.add_option("--max-header", flags.max_header, "size of a request's head; more gets 431")
      ->capture_default_str();
  command
      .add_option("--max-answer", flags.max_answer,
                  "size of an answer that is not streamed; one that grows larger ends with 400")
      ->capture_default_str();
  command.add_option("--max-prompt-tokens", flags.max_prompt_tokens,
                     "tokens of a prompt; more gets 400 (default: what the context holds)");
}

void AddTimeoutFlags(CLI::App& command, ServeFlags& flags) {
  const auto add = [&command](const char* name, double& seconds, double least, const char* what) {
    // CLI::Range lets NaN through.
    const auto is_number = [](const std::string& text) {
      return std::isnan(std::strtod(text.c_str(), nullptr)) ? "must be a number of seconds" : "";
    };
    command.add_option(name, seconds, what)
        ->check(CLI::Range(least, kMaxTimeoutS))
        ->check(is_number)
        ->capture_default_str();
  };
  constexpr double kOneMs = 0.001;
  add("--request-timeout", flags.request_timeout_s, 0,
      "seconds a request may take, from its arrival; requests may ask for less (timeout). 0 = any");
  add("--idle-timeout", flags.idle_timeout_s, kOneMs,
      "seconds for a client to send its request, to take any of its answer, to ask again");
  add("--drain-timeout", flags.drain_timeout_s, 0,
      "seconds for answers under way when told to end; then, or when told again, they are cut");
}

void AddContextFlags(CLI::App& command, ServeFlags& flags) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  command
      .add_option("--context-overflow", flags.context_overflow,
                  "a text that outgrows the context is refused, or cut and goes on: refuse, stream")
      ->check(CLI::IsMember({"refuse", "stream"}))
      ->capture_default_str();
  command
      .add_option("--context-sinks", flags.context_sinks,
                  "stream: first tokens that stay when the text is cut")
      ->check(CLI::Range(std::uint64_t{0}, kMost))
      ->capture_default_str();
  command
      .add_option("--context-window", flags.context_window,
                  "stream: last tokens that stay; 0 = half of the context")
      ->check(CLI::Range(std::uint64_t{0}, kMost))
      ->capture_default_str();
}

}  // namespace

void AddServeFlags(CLI::App& command, ServeFlags& flags) {
  AddEngineFlags(command, flags.engine);
  command.add_option("--host", flags.host, "address to listen on")->capture_default_str();
  command.add_option("--port", flags.port, "port to listen on; 0 = any free one")
      ->capture_default_str();
  command.add_option("--served-model-name", flags.served_model_name,
                     "the model's name in the API (default: the file's)");
  command.add_option("--seed", flags.seed, "seed of requests that give none (default: random)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--io-threads", flags.io_threads, "threads for the network, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  flags.engine.kv_events = 16'384;
  command
      .add_option("--kv-events", flags.engine.kv_events,
                  "events kept for readers of /kv/events; 0: none")
      ->check(CLI::Range(std::uint64_t{0}, kv::kMaxEventLogCapacity))
      ->capture_default_str();
  command.add_option("--record-trace", flags.record_trace,
                     "write what is asked to this new file, for `ashlar simulate`: times, lengths "
                     "and keyed hashes of prefixes, no text and no token ids");
  AddAccessFlags(command, flags);
  AddLimitFlags(command, flags);
  AddContextFlags(command, flags);
  AddTimeoutFlags(command, flags);
}

Result<ServeSetup> ResolveServeFlags(const ServeFlags& flags) {
  ServeSetup setup;
  ASHLAR_ASSIGN(setup.keys, LoadKeys(flags.api_key_file));
  for (const std::string& origin : flags.cors_origins) {
    ASHLAR_TRY(CheckOrigin(origin));
  }
  setup.door.cors_origins = flags.cors_origins;
  for (const std::string& name : flags.allowed_hosts) {
    ASHLAR_TRY(CheckHostName(name));
  }
  setup.http.host = flags.host;
  setup.http.port = flags.port;
  setup.http.io_threads = flags.io_threads;
  setup.http.max_connections = flags.max_connections;
  setup.http.idle_timeout_ms = Milliseconds(flags.idle_timeout_s);
  ASHLAR_ASSIGN(setup.http.max_body_bytes, ParseByteSize(flags.max_body));
  ASHLAR_ASSIGN(setup.http.max_header_bytes, ParseByteSize(flags.max_header));
  setup.http.max_total_body_bytes =
      std::max(setup.http.max_total_body_bytes, setup.http.max_body_bytes);
  ASHLAR_ASSIGN(setup.http.tls, LoadTls(flags));
  setup.door.hosts = HostsOf(flags, setup);
  setup.api.seed = flags.seed;
  setup.api.request_timeout_s = flags.request_timeout_s;
  if (flags.context_overflow == "stream") {
    setup.api.context_stream = {.sinks = flags.context_sinks, .window = flags.context_window};
  }
  setup.api.max_requests = flags.max_requests;
  setup.api.max_waiting = flags.max_waiting;
  setup.api.isolates_tenants = flags.isolate_tenants;
  ASHLAR_ASSIGN(setup.api.answers.max_bytes, ParseByteSize(flags.max_answer));
  setup.api.answers.max_total_bytes =
      std::max(setup.api.answers.max_total_bytes, setup.api.answers.max_bytes);
  if (!flags.max_prompt_tokens.empty()) {
    ASHLAR_ASSIGN(setup.api.max_prompt_tokens, ParseTokenCount(flags.max_prompt_tokens));
    if (setup.api.max_prompt_tokens == 0) {
      return MakeError(ErrorCode::kInvalidArgument, "--max-prompt-tokens is 0; it must be above");
    }
  }
  WarnOfOpenDoors(flags, setup);
  return setup;
}

}  // namespace ashlar::apps
