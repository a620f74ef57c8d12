#include "load/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "net/http_server.h"

namespace ashlar::load {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// A server over real sockets whose tokenizer the test brings.
class ProbeTest : public testing::Test {
 protected:
  using Tokens = std::function<std::size_t(const std::string& text)>;

  void Serve(Tokens tokens, bool has_tokenize) {
    tokens_ = std::move(tokens);
    auto server = net::HttpServer::Start(
        {.port = 0},
        [this, has_tokenize](const net::HttpRequest& request, const net::Responder& responder) {
          ++requests_;
          net::HttpResponse response;
          if (request.path == "/v1/models") {
            response.body = models_;
          } else if (request.path == "/tokenize" && has_tokenize) {
            const Json asked = Json::parse(request.body);
            EXPECT_EQ(asked["prompt"], asked["content"]);  // both dialects
            response.body = Json{{"tokens", std::vector<int>(tokens_(asked["prompt"]), 1)}}.dump();
          } else if (request.path == "/v1/completions") {
            const Json asked = Json::parse(request.body);
            EXPECT_EQ(asked["max_tokens"], 1);
            EXPECT_EQ(asked["stream"], false);
            response.body = Json{{"usage", {{"prompt_tokens", tokens_(asked["prompt"])}}}}.dump();
          } else {
            response.status = 404;
          }
          responder.Send(std::move(response));
        });
    ASSERT_TRUE(server.ok());
    server_ = *std::move(server);
    auto client = HttpClient::Open({.target = {.host = "127.0.0.1", .port = server_->port()}});
    ASSERT_TRUE(client.ok());
    client_ = *std::move(client);
  }

  std::size_t Measured(std::uint64_t tokens) {
    const auto calibration = Calibrate(*client_, {.model = "m"});
    EXPECT_TRUE(calibration.ok()) << calibration.error().message;
    how_ = calibration->how;
    return tokens_(calibration->text.Text(3, tokens));
  }

  static std::size_t Words(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, ' '));
  }
  // Every fourth word by its first letter is two tokens.
  static std::size_t UnevenWords(const std::string& text) {
    std::size_t tokens = 0;
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
      if (text[i] == ' ') tokens += text[i + 1] < 'c' ? 2 : 1;
    }
    return tokens;
  }

  std::string models_ = R"({"data":[{"id":"the-model"}]})";
  std::string how_;
  std::atomic<int> requests_ = 0;
  Tokens tokens_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(ProbeTest, FindsTheModel) {
  Serve(Words, true);
  EXPECT_EQ(*DiscoverModel(*client_), "the-model");
  for (const char* answer :
       {"{}", "[]", "x", R"({"data":[]})", R"({"data":[{"id":5}]})", R"({"data":{"id":"x"}})"}) {
    models_ = answer;
    const auto model = DiscoverModel(*client_);
    ASSERT_FALSE(model.ok()) << answer;
    EXPECT_THAT(model.error().message, HasSubstr("--model"));
  }
}

TEST_F(ProbeTest, WordsOfOneTokenMakeExactLengths) {
  Serve(Words, true);
  EXPECT_EQ(Measured(1000), 1000U);
  EXPECT_EQ(how_, "256 words of one token each (by /tokenize)");
  EXPECT_LE(requests_, 4);
}

TEST_F(ProbeTest, WordsOfSeveralTokensAreLeftOut) {
  Serve(UnevenWords, true);
  EXPECT_EQ(Measured(1000), 1000U);
  EXPECT_THAT(how_, HasSubstr("words of one token each"));
}

TEST_F(ProbeTest, BytesAsTokensAreExactToo) {
  Serve([](const std::string& text) { return text.size(); }, true);
  EXPECT_EQ(Measured(1000), 1000U);
  EXPECT_LE(requests_, 3);
}

TEST_F(ProbeTest, WithoutTokenizeTheUsageCountsAndWhatIsInEveryPromptIsLeftOut) {
  Serve([](const std::string& text) { return 7 + Words(text); }, false);
  EXPECT_EQ(Measured(1000), 1007U);
  EXPECT_EQ(how_, "256 words of one token each (by the usage of completions)");
}

TEST_F(ProbeTest, AServerThatDoesNotCountIsNotBelieved) {
  Serve([](const std::string&) { return 5; }, true);
  const auto calibration = Calibrate(*client_, {.model = "m"});
  ASSERT_FALSE(calibration.ok());
  EXPECT_THAT(calibration.error().message, HasSubstr("5 tokens in a text and 5 in twice that"));
  server_->Stop(0);
  EXPECT_EQ(Calibrate(*client_, {.model = "m"}).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace ashlar::load
