// The API over real HTTP: net/ and server/ together, with the scripted engine on a thread of its
// own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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
#include "server/testing/scripted_service.h"

namespace ashlar::server {
namespace {

using net::testing::ClientResponse;
using net::testing::HttpClient;
using testing::ByteTokenizer;

// A letter that walks through the alphabet, from one the prompt decides.
TokenId Alphabet(std::span<const TokenId> prompt, std::uint64_t, std::uint64_t index) {
  return static_cast<TokenId>('a' + (static_cast<std::uint64_t>(prompt.back()) + index) % 26);
}

class HttpTest : public ::testing::Test {
 protected:
  explicit HttpTest(net::HttpServerOptions options = {}) {
    api_.AddRoutes(router_);
    options.port = 0;
    options.format_error = &OpenAiServer::FormatError;
    auto server = net::HttpServer::Start(
        options, [this](net::HttpRequest request, const net::Responder& responder) {
          router_.Handle(std::move(request), responder);
        });
    EXPECT_TRUE(server.ok());
    http_ = *std::move(server);
  }

  static std::string TextOf(const std::string& events) {
    std::string text;
    for (std::size_t at = 0; (at = events.find("\"text\":\"", at)) != std::string::npos;) {
      at += 8;
      text += events.substr(at, events.find('"', at) - at);
    }
    return text;
  }

  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < patience) {
      std::this_thread::yield();
    }
    return condition();
  }

  const SteadyClock clock_;
  const ByteTokenizer tokenizer_;
  testing::ScriptedService service_{Alphabet, testing::ScriptedInfo(100'000)};
  OpenAiServer api_{
      service_, tokenizer_, nullptr, {.model_names = {"m"}, .version = "1", .seed = {}}};
  Router router_{clock_};
  testing::EngineThread engine_{service_, 20};
  std::unique_ptr<net::HttpServer> http_;
};

TEST_F(HttpTest, AnswersOneConnectionAgainAndAgain) {
  HttpClient client(http_->port());
  for (int i = 0; i < 5; ++i) {
    const ClientResponse response =
        client.Request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3})");
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.body.find("\"text\":\"tuv\""), std::string::npos) << response.body;
  }
  const ClientResponse stream =
      client.Request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3,"stream":true})");
  EXPECT_TRUE(stream.is_complete);
  EXPECT_EQ(TextOf(stream.body), "tuv");
  EXPECT_EQ(client.Request("GET", "/health").status, 200);
}

TEST_F(HttpTest, ErrorsOfTheConnectionHaveTheErrorShapeToo) {
  HttpClient client(http_->port());
  client.SendBytes("nonsense\r\n\r\n");
  const ClientResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 400);
  EXPECT_TRUE(response.body.starts_with(R"({"error":{"message":)")) << response.body;
}

TEST_F(HttpTest, ADisconnectEndsTheGeneration) {
  for (const std::string stream : {"true", "false"}) {
    HttpClient client(http_->port());
    client.SendRequest("POST", "/v1/completions",
                       R"({"prompt":"a","max_tokens":99000,"stream":)" + stream + "}");
    ASSERT_TRUE(WaitUntil([this] { return service_.live() == 1; }));
    client.Close();
    EXPECT_TRUE(WaitUntil([this] { return service_.live() == 0; }));
  }
}

TEST_F(HttpTest, StoppingTheServerEndsItsStreams) {
  HttpClient client(http_->port());
  client.SendRequest("POST", "/v1/completions",
                     R"({"prompt":"a","max_tokens":99000,"stream":true})");
  ClientResponse response = client.ReadHead();
  ASSERT_EQ(response.status, 200);
  http_->Stop(1);
  EXPECT_TRUE(WaitUntil([this] { return service_.live() == 0; }));
  client.ReadBody(response);
  EXPECT_FALSE(response.is_complete);
}

// Many clients at once, some of which leave early.
TEST_F(HttpTest, ServesManyStreamsAtOnce) {
  constexpr int kClients = 100;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpClient>(http_->port()));
    clients.back()->SendRequest(
        "POST", "/v1/completions",
        fmt::format(R"({{"prompt":"{}","max_tokens":{},"stream":true}})",
                    static_cast<char>('a' + i % 26), i % 10 == 9 ? 90'000 : 26));
  }
  for (int i = 0; i < kClients; ++i) {
    HttpClient& client = *clients[static_cast<std::size_t>(i)];
    if (i % 10 == 9) {
      client.Close();
      continue;
    }
    const ClientResponse response = client.ReadResponse();
    ASSERT_TRUE(response.is_complete);
    std::string want;
    for (int letter = 0; letter < 26; ++letter) {
      want.push_back(static_cast<char>('a' + ('a' + i % 26 + letter) % 26));
    }
    EXPECT_EQ(TextOf(response.body), want);
  }
  EXPECT_TRUE(WaitUntil([this] { return service_.live() == 0; }));
}

}  // namespace
}  // namespace ashlar::server
