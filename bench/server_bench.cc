// What the server adds to a token: from the engine's event to the bytes of a server-sent event,
// with 200 streams at once, with and without real connections. The engine is scripted and costs
// next to nothing.
//
// Counters: us_per_token, wall time of everything over all tokens; engine_thread_us_per_token, the
// part the engine's thread waits for (its own script included).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"
#include "net/testing/http_client.h"
#include "server/openai_server.h"
#include "server/router.h"
#include "server/testing/byte_tokenizer.h"
#include "server/testing/captured_answer.h"
#include "server/testing/scripted_service.h"

namespace ashlar::server {
namespace {

constexpr int kStreams = 200;
constexpr int kTokens = 128;

TokenId Letters(std::span<const TokenId>, std::uint64_t, std::uint64_t index) {
  return static_cast<TokenId>('a' + index % 26);
}

std::string Body(bool with_logprobs) {
  return fmt::format(
      R"({{"messages":[{{"role":"user","content":"x"}}],"stream":true,"max_tokens":{}{}}})",
      kTokens, with_logprobs ? R"(,"logprobs":true,"top_logprobs":5)" : "");
}

Result<std::string> Render(const Json&) { return std::string("prompt"); }

double ProcessCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Spent {
  double cpu_seconds = 0;
  double engine_seconds = 0;  // in the engine's thread
};

// Generates everything.
void Drive(testing::ScriptedService& service, Spent& spent) {
  using Clock = std::chrono::steady_clock;
  while (service.live() < kStreams) {
    std::this_thread::yield();
  }
  const auto begin = Clock::now();
  service.StepAll();
  spent.engine_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

void Report(benchmark::State& state, const Spent& spent) {
  const double tokens = static_cast<double>(state.iterations()) * kStreams * kTokens;
  state.counters["cpu_us_per_token"] = spent.cpu_seconds * 1e6 / tokens;
  state.counters["engine_thread_us_per_token"] = spent.engine_seconds * 1e6 / tokens;
}

void BM_StreamedTokens(benchmark::State& state) {
  const testing::ByteTokenizer tokenizer;
  testing::ScriptedService service(Letters, testing::ScriptedInfo(4096));
  OpenAiServer server(service, tokenizer, Render,
                      {.model_names = {"m"}, .version = "1", .seed = {}});
  const SteadyClock clock;
  Router router(clock);
  server.AddRoutes(router);
  Spent spent{.cpu_seconds = -ProcessCpuSeconds()};
  for (auto _ : state) {
    std::vector<std::shared_ptr<testing::CapturedAnswer>> answers;
    for (int i = 0; i < kStreams; ++i) {
      answers.push_back(testing::CapturedAnswer::Create());
      net::HttpRequest request;
      request.method = "POST";
      request.path = "/v1/chat/completions";
      request.body = Body(state.range(0) != 0);
      router.Handle(std::move(request), answers.back()->TakeResponder());
    }
    Drive(service, spent);
    for (const auto& answer : answers) {
      answer->Wait();
    }
  }
  spent.cpu_seconds += ProcessCpuSeconds();
  Report(state, spent);
}
BENCHMARK(BM_StreamedTokens)->ArgName("logprobs")->Arg(0)->Arg(1)->UseRealTime();

void BM_HttpStreams(benchmark::State& state) {
  const testing::ByteTokenizer tokenizer;
  testing::ScriptedService service(Letters, testing::ScriptedInfo(4096));
  OpenAiServer server(service, tokenizer, Render,
                      {.model_names = {"m"}, .version = "1", .seed = {}});
  const SteadyClock clock;
  Router router(clock);
  server.AddRoutes(router);
  net::HttpServerOptions options;
  options.port = 0;
  auto http = net::HttpServer::Start(
      options, [&](net::HttpRequest request, const net::Responder& responder) {
        router.Handle(std::move(request), responder);
      });
  Spent spent{.cpu_seconds = -ProcessCpuSeconds()};
  for (auto _ : state) {
    std::vector<std::unique_ptr<net::testing::HttpClient>> clients;
    for (int i = 0; i < kStreams; ++i) {
      clients.push_back(std::make_unique<net::testing::HttpClient>((*http)->port()));
      clients.back()->SendRequest("POST", "/v1/chat/completions", Body(state.range(0) != 0));
    }
    Drive(service, spent);
    for (const auto& client : clients) {
      if (!client->ReadResponse().is_complete) {
        state.SkipWithError("a stream was cut");
      }
    }
  }
  spent.cpu_seconds += ProcessCpuSeconds();
  Report(state, spent);
}
BENCHMARK(BM_HttpStreams)->ArgName("logprobs")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace ashlar::server
