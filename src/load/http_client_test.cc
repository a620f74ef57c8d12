#include "load/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/testing/raw_server.h"
#include "net/http_server.h"
#include "net/testing/certificate.h"
#include "net/tls.h"

namespace ashlar::load {
namespace {

using ::testing::HasSubstr;
using testing::RawConnection;
using testing::RawServer;

constexpr std::int64_t kMs = 1'000'000;

struct Reply {
  int status = 0;
  std::string body;
  bool is_done = false;
  std::optional<Failure> failure;
  std::size_t body_limit = 1 << 20;

  std::string kind() const { return failure ? failure->kind : ""; }
};

class Recorder final : public ReplySink {
 public:
  explicit Recorder(Reply& reply) : reply_(reply) {}
  void OnHead(int status) override { reply_.status = status; }
  std::optional<Failure> OnBody(std::string_view bytes) override {
    reply_.body += bytes;
    if (reply_.body.size() > reply_.body_limit) return Failure{"too long", "enough"};
    return std::nullopt;
  }
  void OnEnd(std::optional<Failure> failure) override {
    EXPECT_FALSE(reply_.is_done);
    reply_.is_done = true;
    reply_.failure = std::move(failure);
  }

 private:
  Reply& reply_;
};

std::unique_ptr<HttpClient> Open(std::uint16_t port, HttpClientOptions options = {}) {
  if (options.target.host.empty()) options.target.host = "127.0.0.1";
  options.target.port = port;
  auto client = HttpClient::Open(options);
  EXPECT_TRUE(client.ok());
  return *std::move(client);
}

void Send(HttpClient& client, Reply& reply, std::string body = "{}") {
  client.Send({.path = "/v1/x", .body = std::move(body)}, std::make_unique<Recorder>(reply));
}

void Await(HttpClient& client, const Reply& reply) {
  while (!reply.is_done) client.RunFor(100 * kMs);
}

Reply Post(HttpClient& client, std::string body = "{}") {
  Reply reply;
  Send(client, reply, std::move(body));
  Await(client, reply);
  return reply;
}

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view kStream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpClient, SendsARequestAndReadsItsAnswer) {
  std::string request;
  RawServer server([&](RawConnection& connection) {
    request = connection.ReadRequest();
    connection.Write(kOk);
  });
  const auto client = Open(server.port(), {.target = {.root = "/api"}, .api_key = "secret"});
  const Reply reply = Post(*client, "{\"a\":1}");
  EXPECT_EQ(reply.kind(), "");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "ok");
  EXPECT_THAT(request, ::testing::StartsWith("POST /api/v1/x HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr(fmt::format("\r\nHost: 127.0.0.1:{}\r\n", server.port())));
  EXPECT_THAT(request, HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(request, ::testing::EndsWith("\r\n\r\n{\"a\":1}"));
}

TEST(HttpClient, PiecesOfAStreamComeAsTheyAreSent) {
  std::promise<void> has_first;
  RawServer server([&](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(std::string(kStream) + "3\r\none\r\n");
    has_first.get_future().wait();
    connection.Write("3\r\ntwo\r\n0\r\n\r\n");
  });
  const auto client = Open(server.port());
  Reply reply;
  Send(*client, reply);
  while (reply.body != "one") client->RunFor(100 * kMs);
  EXPECT_FALSE(reply.is_done);
  has_first.set_value();
  Await(*client, reply);
  EXPECT_EQ(reply.body, "onetwo");
  EXPECT_EQ(reply.kind(), "");
}

TEST(HttpClient, AConnectionIsKeptForTheNextRequest) {
  RawServer server([](RawConnection& connection) {
    while (!connection.ReadRequest().empty()) connection.Write(kOk);
  });
  const auto client = Open(server.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Post(*client).body, "ok");
  EXPECT_EQ(client->connections_opened(), 1U);
}

TEST(HttpClient, AKeptConnectionThatTheServerHasClosedIsReplaced) {
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(kOk);  // and it is closed, without a word
  });
  const auto client = Open(server.port());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Post(*client).kind(), "") << i;
  EXPECT_EQ(client->connections_opened(), 5U);
}

TEST(HttpClient, AnAnswerWithoutALengthEndsWithItsConnection) {
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\n\r\nall of it");
  });
  const auto client = Open(server.port());
  EXPECT_EQ(Post(*client).body, "all of it");
  EXPECT_EQ(Post(*client).kind(), "");
}

// What a hostile or broken server says, and what that is called.
struct Hostile {
  std::string says;
  std::string kind;
};

TEST(HttpClient, WhateverAServerSaysEndsWithAFailureOfItsKind) {
  const std::vector<Hostile> all = {
      {"", "cut"},
      {"HTTP/1.1 200", "cut"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "cut"},
      {std::string(kStream) + "5\r\nhel", "cut"},
      {std::string(kStream) + "5\r\nhello\r\n", "cut"},
      {std::string(kStream) + "zz\r\nhello\r\n", "protocol"},
      {std::string(kStream) + "5\r\nhelloXYZ\r\n", "protocol"},
      {std::string(kStream) + "FFFFFFFFFFFFFFFFF\r\n", "protocol"},
      {"SSH-2.0-OpenSSH_9.2\r\n", "protocol"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "protocol"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello", "protocol"},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", "protocol"},
      {"HTTP/1.1 999999 OK\r\n\r\n", "protocol"},
      {std::string(1000, '\0'), "protocol"},
  };
  for (const Hostile& one : all) {
    RawServer server([&](RawConnection& connection) {
      connection.ReadRequest();
      connection.Write(one.says);
    });
    const auto client = Open(server.port());
    EXPECT_EQ(Post(*client).kind(), one.kind) << one.says.substr(0, 80);
  }
}

TEST(HttpClient, ASinkThatHasEnoughEndsTheExchange) {
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(kStream);
    for (int i = 0; i < 100; ++i) connection.Write("400\r\n" + std::string(1024, 'x') + "\r\n");
    connection.WaitForEnd();  // the client's, who does not read on
  });
  const auto client = Open(server.port());
  Reply reply{.body_limit = 4096};
  Send(*client, reply);
  Await(*client, reply);
  EXPECT_EQ(reply.kind(), "too long");
  EXPECT_LT(reply.body.size(), 4096U + 16 * 1024);
}

TEST(HttpClient, NobodyListensIsAFailureToConnect) {
  const auto client = Open(testing::ClosedPort());
  const Reply reply = Post(*client);
  EXPECT_EQ(reply.kind(), "connect");
  EXPECT_THAT(reply.failure->message, HasSubstr("refused"));
}

TEST(HttpClient, SilenceEndsAtTheDeadline) {
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(kStream);
    connection.WaitForEnd();
  });
  const auto client = Open(server.port(), {.timeout_ns = 30 * kMs});
  EXPECT_EQ(Post(*client).kind(), "timeout");
}

TEST(HttpClient, ManyStreamsAtOnceOnOneThread) {
  constexpr std::size_t kStreams = 300;
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(kStream);
    for (int i = 0; i < 20; ++i) connection.Write("1\r\nx\r\n");
    connection.Write("0\r\n\r\n");
  });
  const auto client = Open(server.port());
  std::vector<Reply> replies(kStreams);
  for (Reply& reply : replies) Send(*client, reply);
  for (const Reply& reply : replies) {
    Await(*client, reply);
    EXPECT_EQ(reply.body, std::string(20, 'x'));
  }
}

TEST(HttpClient, WhatIsUnderWayMayBeGivenUp) {
  RawServer server([](RawConnection& connection) {
    connection.ReadRequest();
    connection.WaitForEnd();
  });
  Reply reply;
  {
    const auto client = Open(server.port());
    Send(*client, reply);
    while (server.accepted() == 0) client->RunFor(kMs);
  }
  EXPECT_FALSE(reply.is_done);
}

TEST(HttpClient, AKeyThatIsNoHeaderIsRefused) {
  const auto client =
      HttpClient::Open({.target = {.host = "127.0.0.1", .port = 1}, .api_key = "a\r\nX: y"});
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message, HasSubstr("API key"));
}

TEST(HttpClient, FetchTellsWhatWentWrong) {
  std::string says(kOk);
  RawServer server([&](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(says);
  });
  const auto client = Open(server.port());
  EXPECT_EQ(*Fetch(*client, {.method = "GET", .path = "/a"}), "ok");
  says = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
  EXPECT_EQ(Fetch(*client, {.method = "GET", .path = "/a"}).error().message,
            "GET /a: http 404: no");
  EXPECT_EQ(Fetch(*client, {.path = "/a"}).error().code, ErrorCode::kNotFound);
  says = "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(Fetch(*client, {.path = "/a"}).error().code, ErrorCode::kInvalidArgument);
  says = "";
  EXPECT_EQ(Fetch(*client, {.path = "/a"}).error().code, ErrorCode::kUnavailable);
}

class HttpClientTls : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tls = net::TlsContext::Load(files_.certificate_path, files_.key_path);
    ASSERT_TRUE(tls.ok()) << tls.error().message;
    auto server = net::HttpServer::Start(
        {.port = 0, .tls = *std::move(tls)},
        [](const net::HttpRequest& request, const net::Responder& responder) {
          responder.StartStream({});
          responder.Write(request.path);
          responder.Write(request.body);
          responder.End();
        });
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
  }

  Reply Ask(HttpClientOptions options) {
    options.target.is_tls = true;
    const auto client = Open(server_->port(), options);
    Post(*client, "first");
    return Post(*client, "second");  // on the same connection
  }

  const net::testing::CertificateFiles files_ =
      net::testing::WriteSelfSigned(::testing::TempDir(), "load_http_client_test");
  std::unique_ptr<net::HttpServer> server_;
};

TEST_F(HttpClientTls, ACertificateThatIsTrustedServes) {
  const Reply reply = Ask({.ca_file = files_.certificate_path});
  EXPECT_EQ(reply.kind(), "") << reply.failure->message;
  EXPECT_EQ(reply.body, "/v1/xsecond");
}

TEST_F(HttpClientTls, ACertificateThatIsNotIsRefusedUnlessVerifyingIsOff) {
  const Reply reply = Ask({});
  EXPECT_EQ(reply.kind(), "connect");
  EXPECT_THAT(reply.failure->message, HasSubstr("certificate verify failed"));
  EXPECT_EQ(Ask({.verifies = false}).body, "/v1/xsecond");
}

TEST_F(HttpClientTls, ACertificateOfAnotherNameIsRefused) {
  // Another way to write 127.0.0.1, which is a name that the certificate does not have.
  EXPECT_EQ(Ask({.target = {.host = "127.1"}, .ca_file = files_.certificate_path}).kind(),
            "connect");
}

TEST_F(HttpClientTls, AFileOfCertificatesThatIsNoneIsNamed) {
  const auto client = HttpClient::Open(
      {.target = {.is_tls = true, .host = "localhost", .port = 1}, .ca_file = "/no/such/file"});
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message, HasSubstr("'/no/such/file'"));
}

}  // namespace
}  // namespace ashlar::load
