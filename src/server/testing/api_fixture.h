// The API over a scripted engine that moves when the test says so, without sockets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"
#include "server/openai_server.h"
#include "server/router.h"
#include "server/testing/byte_tokenizer.h"
#include "server/testing/captured_answer.h"
#include "server/testing/recording_observer.h"
#include "server/testing/scripted_service.h"

namespace ashlar::server::testing {

// "hello world", and then the end.
inline const Script kHello = [](std::span<const TokenId>, std::uint64_t,
                                std::uint64_t index) -> TokenId {
  constexpr std::string_view kText = "hello world";
  return index < kText.size() ? kText[index] : ByteTokenizer::kEos;
};

// Letters that depend on the seed.
inline const Script kSeeded = [](std::span<const TokenId>, std::uint64_t seed,
                                 std::uint64_t) -> TokenId {
  return static_cast<TokenId>('a' + seed % 26);
};

inline Result<std::string> RenderRoles(const Json& context) {
  std::string text;
  for (const Json& message : context["messages"]) {
    text += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + "\n";
  }
  if (context.contains("style")) {
    text += context["style"].get<std::string>();
  }
  if (text.find("boom") != std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "roles must alternate");
  }
  return text + (context["add_generation_prompt"].get<bool>() ? ">" : "");
}

class OpenAiServerTest : public ::testing::Test {
 protected:
  void Use(Script script, ChatRenderer chat = RenderRoles, OpenAiServerOptions options = {}) {
    if (options.model_names.empty()) {
      options.model_names = {"tiny", "org/alias"};
    }
    options.version = "1.2.3";
    service_ = std::make_unique<ScriptedService>(std::move(script), ScriptedInfo(200));
    server_ = std::make_unique<OpenAiServer>(*service_, tokenizer_, std::move(chat), options);
    UseKeys({});
  }

  // From now on requests need one of these keys.
  void UseKeys(std::string_view key_file) {
    ApiKeys keys;
    if (!key_file.empty()) {
      auto parsed = ApiKeys::Parse(key_file);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      keys = *std::move(parsed);
    }
    router_ = std::make_unique<Router>(clock_, observer_, Doorkeeper(std::move(keys)));
    server_->AddRoutes(*router_);
  }

  std::shared_ptr<CapturedAnswer> Start(std::string method, std::string path,
                                        std::string body = {}) {
    auto answer = CapturedAnswer::Create();
    net::HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = headers_;
    router_->Handle(std::move(request), answer->TakeResponder());
    return answer;
  }

  // For requests the engine does not see.
  std::shared_ptr<CapturedAnswer> Ask(std::string method, std::string path, std::string body = {}) {
    auto answer = Start(std::move(method), std::move(path), std::move(body));
    EXPECT_TRUE(answer->Wait());
    return answer;
  }

  // Starts, and steps the engine until everything is generated.
  std::shared_ptr<CapturedAnswer> Generate(std::string path, std::string body,
                                           std::size_t sequences = 1) {
    auto answer = Start("POST", std::move(path), std::move(body));
    EXPECT_TRUE(WaitUntil([&] { return service_->live() == sequences; }));
    service_->StepAll();
    EXPECT_TRUE(answer->Wait());
    return answer;
  }

  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > patience) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  const SteadyClock clock_;
  const ByteTokenizer tokenizer_;
  const std::shared_ptr<RecordingObserver> observer_ = std::make_shared<RecordingObserver>();
  std::vector<std::pair<std::string, std::string>> headers_;  // of every request
  std::unique_ptr<ScriptedService> service_;
  std::unique_ptr<OpenAiServer> server_;
  std::unique_ptr<Router> router_;
};

}  // namespace ashlar::server::testing
