// The server over TLS, by a client that checks its certificate.
#include <gtest/gtest.h>

#include <string>

#include "net/testing/certificate.h"
#include "net/testing/held_server.h"
#include "net/testing/http_client.h"
#include "net/tls.h"

namespace ashlar::net {
namespace {

using testing::ClientResponse;
using testing::HttpClient;
using testing::Text;

class HttpsTest : public testing::HttpServerTest {
 protected:
  void StartHttps(HttpServerOptions options = {}) {
    files_ = testing::WriteSelfSigned(::testing::TempDir(), "https_test");
    auto loaded = TlsContext::Load(files_.certificate_path, files_.key_path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    options.tls = *std::move(loaded);
    StartServer(options);
  }

  testing::CertificateFiles files_;
};

TEST_F(HttpsTest, ServesManyRequestsOnOneConnection) {
  StartHttps();
  HttpClient client(server_->port(), files_.certificate_path);
  ASSERT_TRUE(client.is_connected());
  const std::string body(300'000, 'b');
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.Request("POST", "/echo", body).body, "POST /echo " + body);
  }
}

TEST_F(HttpsTest, StreamsAndEndsProperly) {
  StartHttps();
  HttpClient client(server_->port(), files_.certificate_path);
  client.SendRequest("GET", "/hold", {}, "Connection: close\r\n");
  const Responder responder = Held();
  responder.StartStream({});
  EXPECT_TRUE(responder.Write("one"));
  ClientResponse response = client.ReadHead();
  EXPECT_EQ(client.ReadChunk(), "one");
  responder.Write("two");
  responder.End();
  client.ReadBody(response);
  EXPECT_TRUE(response.is_complete);
  EXPECT_EQ(response.body, "two");
  EXPECT_TRUE(client.ReadsEnd());  // with TLS's own end
}

TEST_F(HttpsTest, NoticesADisconnect) {
  StartHttps();
  HttpClient client(server_->port(), files_.certificate_path);
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.Close();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpsTest, AnswersAClientThatClosedItsHalf) {
  StartHttps();
  HttpClient client(server_->port(), files_.certificate_path);
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.CloseSendingHalf();
  EXPECT_EQ(client.ReadHead().status, 100);
  responder.Send(Text("anyway"));
  EXPECT_EQ(client.ReadResponse().body, "anyway");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpsTest, TellsAPlainClientInItsOwnLanguage) {
  StartHttps();
  HttpClient client(server_->port());
  const ClientResponse response = client.Request("GET", "/x");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("https://"), std::string::npos);
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpsTest, DropsAClientThatDoesNotFinishItsHandshake) {
  StartHttps({.tls_handshake_timeout_ms = 30});
  HttpClient silent(server_->port());
  EXPECT_TRUE(silent.ReadsEnd());
  HttpClient half(server_->port());
  half.SendBytes("\x16\x03\x01\x02");
  EXPECT_TRUE(half.ReadsEnd());
}

TEST_F(HttpsTest, DropsNonsenseAndServesOn) {
  StartHttps();
  HttpClient nonsense(server_->port());
  nonsense.SendBytes("\x16\x03\x01\x02\x01" + std::string(600, 'x'));
  EXPECT_EQ(nonsense.ReadResponse().status, 0);  // an alert and the end
  HttpClient client(server_->port(), files_.certificate_path);
  EXPECT_EQ(client.Request("GET", "/fine").status, 200);
}

TEST_F(HttpsTest, CutsAReaderThatFallsBehind) {
  StartHttps({.max_pending_bytes = 64 * 1024});
  HttpClient client(server_->port(), files_.certificate_path);
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  const std::string piece(64 * 1024, 'x');
  int writes = 0;
  while (responder.Write(piece) && writes < 100'000) {
    ++writes;
  }
  EXPECT_LT(writes, 100'000);
  EXPECT_TRUE(gone_.Wait());
  ClientResponse response = client.ReadHead();
  client.ReadBody(response);
  EXPECT_FALSE(response.is_complete);
}

TEST_F(HttpsTest, RefusesInTlsWhenConnectionsAreTooMany) {
  StartHttps({.max_connections = 1});
  HttpClient first(server_->port(), files_.certificate_path);
  EXPECT_EQ(first.Request("GET", "/1").status, 200);
  HttpClient second(server_->port(), files_.certificate_path);
  EXPECT_EQ(second.Request("GET", "/2").status, 503);
}

TEST_F(HttpsTest, StopDrainsAndEnds) {
  StartHttps();
  HttpClient client(server_->port(), files_.certificate_path);
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  std::thread stopper([&] { server_->Stop(20'000); });
  responder.Send(Text("finished"));
  EXPECT_EQ(client.ReadResponse().body, "finished");
  client.Close();
  stopper.join();
}

}  // namespace
}  // namespace ashlar::net
