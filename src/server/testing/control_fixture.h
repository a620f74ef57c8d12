// The whole server but its sockets over a real engine with a tiny model: API, control routes,
// observers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/runner.h"
#include "engine/testing/tiny_engine.h"
#include "server/control_routes.h"
#include "server/openai_server.h"
#include "server/recent_requests.h"
#include "server/request_metrics.h"
#include "server/request_record.h"
#include "server/router.h"
#include "server/testing/byte_tokenizer.h"
#include "server/testing/captured_answer.h"
#include "server/testing/recording_observer.h"

namespace ashlar::server::testing {

inline engine::EngineOptions ControlEngineOptions() {
  engine::EngineOptions options = engine::TinyEngine::DefaultOptions();
  options.max_events = 4096;
  return options;
}

class ControlFixture : public ::testing::Test {
 protected:
  explicit ControlFixture(const engine::EngineOptions& options = ControlEngineOptions(),
                          const EventStreamOptions& events = {})
      : tiny_(options),
        runner_(tiny_.Take(), tiny_.clock(), 100),
        requests_(std::make_shared<RequestMetrics>(runner_.info().max_context)),
        recent_(std::make_shared<RecentRequests>()),
        observers_(std::make_shared<RequestObservers>(
            std::vector<std::shared_ptr<RequestObserver>>{requests_, recent_, observer_})),
        api_(runner_, tokenizer_, nullptr,
             {.model_names = {"tiny"}, .version = "1.2.3", .seed = 1}),
        control_(runner_, runner_.info(), requests_, recent_,
                 {.model_name = "tiny", .version = "1.2.3", .events = events}),
        router_(tiny_.clock(), observers_) {
    api_.AddRoutes(router_);
    control_.AddRoutes(router_);
  }
  ~ControlFixture() override { control_.Stop(); }

  std::shared_ptr<CapturedAnswer> Start(
      std::string method, const std::string& target, std::string body = {},
      std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto answer = CapturedAnswer::Create();
    net::HttpRequest request{.method = std::move(method),
                             .path = target.substr(0, target.find('?')),
                             .headers = std::move(headers),
                             .body = std::move(body)};
    if (target.size() > request.path.size()) request.query = target.substr(request.path.size() + 1);
    router_.Handle(std::move(request), answer->TakeResponder());
    return answer;
  }
  std::shared_ptr<CapturedAnswer> Ask(std::string method, const std::string& target,
                                      std::string body = {}) {
    auto answer = Start(std::move(method), target, std::move(body));
    WaitForEnd(*answer);
    return answer;
  }
  // Until the request is over and all observers have heard of it.
  void WaitForEnd(CapturedAnswer& answer) {
    EXPECT_TRUE(answer.Wait());
    EXPECT_TRUE(observer_->WaitForEnd(answer.Header("X-Request-Id")));
  }

  // Tokens that depend on the seed, as JSON. Within the tiny model's bytes.
  static std::string Prompt(int seed, int tokens) {
    std::string text = "[";
    for (int i = 0; i < tokens; ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(1 + (seed * 37 + i * 11 + i * i * seed) % 250);
    }
    return text + "]";
  }
  // A completion of exactly so many tokens; its answer.
  Json Complete(int seed, int prompt_tokens, int max_tokens, const std::string& id = "") {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!id.empty()) headers.emplace_back("x-request-id", id);
    auto answer = Start("POST", "/v1/completions",
                        R"({"prompt":)" + Prompt(seed, prompt_tokens) +
                            R"(,"temperature":0,"ignore_eos":true,"max_tokens":)" +
                            std::to_string(max_tokens) + "}",
                        std::move(headers));
    WaitForEnd(*answer);
    EXPECT_EQ(answer->status(), 200) << answer->body();
    return answer->json();
  }
  // The report after the last step. Clients hear of an end within the step, so the engine is asked
  // something first: it answers between steps.
  std::shared_ptr<const engine::EngineReport> IdleReport() {
    EXPECT_TRUE(runner_.ReadTrace({}).ok());
    return runner_.Report();
  }

  engine::TinyEngine tiny_;
  engine::EngineRunner runner_;
  const ByteTokenizer tokenizer_;
  const std::shared_ptr<RequestMetrics> requests_;
  const std::shared_ptr<RecentRequests> recent_;
  // The last to be told.
  const std::shared_ptr<RecordingObserver> observer_ = std::make_shared<RecordingObserver>();
  const std::shared_ptr<RequestObservers> observers_;
  OpenAiServer api_;
  ControlRoutes control_;
  Router router_;
};

}  // namespace ashlar::server::testing
