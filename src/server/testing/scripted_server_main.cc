// The whole server over the scripted engine: for the client tests, and to measure what the server
// costs.
//
//   ashlar_scripted_server [--port N] [--pause-us N] [--io-threads N] [--heartbeat-ms N]
//
// Prints "listening on 127.0.0.1:PORT" and serves until SIGINT or SIGTERM. With temperature 0 an
// answer depends on the prompt alone, else on the seed too.
#include <fmt/format.h>
#include <signal.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/rng.h"
#include "net/http_server.h"
#include "server/openai_server.h"
#include "server/router.h"
#include "server/testing/byte_tokenizer.h"
#include "server/testing/scripted_service.h"

namespace ashlar::server::testing {
namespace {

struct Flags {
  std::uint16_t port = 0;
  std::int64_t pause_us = 200;
  std::size_t io_threads = 1;
  std::int64_t heartbeat_ms = net::HttpServerOptions().heartbeat_ms;
};

template <typename T>
bool ParseNumber(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseFlags(int argc, char** argv, Flags& flags) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const bool ok = (name == "--port" && ParseNumber(argv[i + 1], flags.port)) ||
                    (name == "--pause-us" && ParseNumber(argv[i + 1], flags.pause_us)) ||
                    (name == "--io-threads" && ParseNumber(argv[i + 1], flags.io_threads)) ||
                    (name == "--heartbeat-ms" && ParseNumber(argv[i + 1], flags.heartbeat_ms));
    if (!ok) {
      return false;
    }
  }
  return argc % 2 == 1;
}

// Printable text with now and then a longer token, an emoji, and in the end an end token.
TokenId Babble(std::span<const TokenId> prompt, std::uint64_t seed, std::uint64_t index) {
  std::uint64_t hash = seed;
  for (const TokenId token : prompt) {
    hash = MixBits(hash ^ static_cast<std::uint64_t>(token));
  }
  const std::uint64_t bits = RandomBits(hash, 0, index);
  if (index > 40 && bits % 50 == 0) {
    return ByteTokenizer::kImEnd;
  }
  if (index > 0 && RandomBits(hash, 0, index - 1) % 17 == 5 && (index < 2 || index % 2 == 1)) {
    return ByteTokenizer::kOtherHalf;
  }
  if (bits % 17 == 5 && index % 2 == 0) {
    return ByteTokenizer::kHalfEmoji;
  }
  return bits % 11 == 0 ? ByteTokenizer::kThe : static_cast<TokenId>('a' + bits % 26);
}

Result<std::string> RenderChat(const Json& context) {
  std::string text;
  for (const Json& message : context["messages"]) {
    text += fmt::format("<|im_start|>{}\n{}<|im_end|>\n", message["role"].get<std::string>(),
                        message["content"].get<std::string>());
  }
  return text + "<|im_start|>assistant\n";
}

// Greedy requests have no use for the seed.
class GreedyAware final : public engine::Service {
 public:
  explicit GreedyAware(ScriptedService& service) : service_(service) {}
  const engine::ServiceInfo& info() const override { return service_.info(); }
  engine::ServiceStats stats() const override { return service_.stats(); }
  Result<std::vector<RequestId>> SubmitAll(std::vector<engine::Submission> submissions) override {
    for (engine::Submission& one : submissions) {
      if (one.request.sampling.temperature == 0) {
        one.request.sampling.seed = 0;
      }
    }
    return service_.SubmitAll(std::move(submissions));
  }
  void Cancel(RequestId id) override { service_.Cancel(id); }

 private:
  ScriptedService& service_;
};

int Main(int argc, char** argv) {
  Flags flags;
  if (!ParseFlags(argc, argv, flags)) {
    fmt::print(stderr, "usage: {} [--port N] [--pause-us N] [--io-threads N] [--heartbeat-ms N]\n",
               argv[0]);
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const ByteTokenizer tokenizer;
  ScriptedService service(Babble, ScriptedInfo(8192));
  GreedyAware greedy_aware(service);
  const EngineThread engine_thread(service, flags.pause_us);
  OpenAiServer api(greedy_aware, tokenizer, RenderChat,
                   {.model_names = {"scripted"}, .version = "0.0.0", .seed = {}});
  const SteadyClock clock;
  Router router(clock);
  api.AddRoutes(router);
  net::HttpServerOptions options;
  options.port = flags.port;
  options.io_threads = flags.io_threads;
  options.heartbeat_ms = flags.heartbeat_ms;
  options.format_error = &OpenAiServer::FormatError;
  auto server = net::HttpServer::Start(
      options, [&](net::HttpRequest request, const net::Responder& responder) {
        router.Handle(std::move(request), responder);
      });
  if (!server.ok()) {
    fmt::print(stderr, "{}\n", server.error().message);
    return 1;
  }
  fmt::print("listening on 127.0.0.1:{}\n", (*server)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Stop(1000);
  return 0;
}

}  // namespace
}  // namespace ashlar::server::testing

int main(int argc, char** argv) { return ashlar::server::testing::Main(argc, argv); }
