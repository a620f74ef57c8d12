#include "net/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "net/testing/held_server.h"
#include "net/testing/http_client.h"

namespace ashlar::net {
namespace {

using testing::ClientResponse;
using testing::HttpClient;
using testing::HttpServerTest;
using testing::Text;

TEST_F(HttpServerTest, KeepsAConnectionForManyRequests) {
  StartServer();
  HttpClient client(server_->port());
  for (int i = 0; i < 20; ++i) {
    const ClientResponse response = client.Request("POST", "/echo", fmt::format("body {}", i));
    ASSERT_EQ(response.status, 200);
    EXPECT_EQ(response.body, fmt::format("POST /echo body {}", i));
    EXPECT_EQ(response.headers.at("connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  StartServer();
  HttpClient client(server_->port());
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", i);
  }
  client.SendBytes(all);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ReadResponse().body, fmt::format("GET /{} ", i));
  }
}

TEST_F(HttpServerTest, ReadsNoFurtherThanABoundWhileAnAnswerIsOwed) {
  StartServer({.max_header_bytes = 1024, .idle_timeout_ms = 60'000});
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    all += fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", i);
  }
  std::thread sender([&] { client.SendBytes(all); });
  responder.Send(Text("first"));
  EXPECT_EQ(client.ReadResponse().body, "first");
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(client.ReadResponse().body, fmt::format("GET /{} ", i));
  }
  sender.join();
}

TEST_F(HttpServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("HEAD", "/x");
  const ClientResponse head = client.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "8");
  EXPECT_EQ(client.Request("GET", "/y").body, "GET /y ");  // framing is intact
}

TEST_F(HttpServerTest, SendsContinueWhenTheClientWaitsForIt) {
  StartServer();
  HttpClient client(server_->port());
  client.SendBytes(
      "POST /c HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.ReadHead().status, 100);
  client.SendBytes("body");
  EXPECT_EQ(client.ReadResponse().body, "POST /c body");
}

TEST_F(HttpServerTest, RefusesATooLargeBodyBeforeItIsSent) {
  StartServer({.max_body_bytes = 10});
  HttpClient client(server_->port());
  client.SendBytes(
      "POST /c HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  const ClientResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpServerTest, RefusesByTheHeadBeforeTheBodyIsRead) {
  StartServer({.max_total_body_bytes = 1000,
               .refuse_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
                 if (head.method == "POST" && head.path == "/c" && head.query == "q" &&
                     head.Header("x-key") != "right") {
                   return HttpResponse{.status = 401, .body = "who are you?"};
                 }
                 return std::nullopt;
               }});
  HttpClient wrong(server_->port());
  wrong.SendBytes("POST /c?q HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n");
  const ClientResponse refused = wrong.ReadResponse();  // before any of the body was sent
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.body, "who are you?");
  EXPECT_TRUE(wrong.ReadsEnd());
  HttpClient right(server_->port());
  right.SendBytes("POST /c?q HTTP/1.1\r\nHost: h\r\nX-Key: right\r\nContent-Length: 4\r\n\r\n");
  right.SendBytes("body");
  EXPECT_EQ(right.ReadResponse().body, "POST /c body");
}

TEST_F(HttpServerTest, TheRefusalReachesAClientThatSendsOn) {
  StartServer({.max_body_bytes = 10});
  HttpClient client(server_->port());
  client.SendRequest("POST", "/c", std::string(8u << 20, 'x'));
  EXPECT_EQ(client.ReadResponse().status, 413);
}

TEST_F(HttpServerTest, AnswersMalformedBytesAndCloses) {
  StartServer({.format_error = [](int status, std::string_view) {
    return Text(fmt::format("shaped {}", status));
  }});
  HttpClient client(server_->port());
  client.SendBytes("\x16\x03\x01\x02 hello\r\n\r\n");
  const ClientResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, "shaped 400");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpServerTest, BoundsTheBodiesOfAllRequestsTogether) {
  StartServer({.max_total_body_bytes = 1000});
  HttpClient first(server_->port());
  first.SendRequest("POST", "/hold", std::string(900, 'a'));
  const Responder responder = Held();
  HttpClient second(server_->port());
  const ClientResponse refused = second.Request("POST", "/x", std::string(200, 'b'));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  responder.Send(Text("done"));
  EXPECT_EQ(first.ReadResponse().body, "done");
  EXPECT_EQ(first.Request("GET", "/free").status, 200);  // and with it the first body was released
  HttpClient third(server_->port());
  EXPECT_EQ(third.Request("POST", "/x", std::string(200, 'b')).status, 200);
}

TEST_F(HttpServerTest, AnswersFiveHundredForAHandlerThatThrowsOrForgets) {
  StartServer();
  HttpClient client(server_->port());
  EXPECT_EQ(client.Request("GET", "/throw").status, 500);
  EXPECT_EQ(client.Request("GET", "/drop").status, 500);
  EXPECT_EQ(client.Request("GET", "/fine").status, 200);
}

TEST_F(HttpServerTest, TimesOutAHalfSentRequestWithAnAnswerAndAnIdleConnectionWithout) {
  StartServer({.idle_timeout_ms = 30});
  HttpClient half(server_->port());
  half.SendBytes("GET / HTTP/1.1\r\nHost");
  EXPECT_EQ(half.ReadResponse().status, 408);
  HttpClient idle(server_->port());
  EXPECT_TRUE(idle.ReadsEnd());
}

TEST_F(HttpServerTest, AnAnswerMayTakeLongerThanTheIdleTimeout) {
  StartServer({.idle_timeout_ms = 20});
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  HttpClient idle(server_->port());  // its end shows that the timeout has passed
  EXPECT_TRUE(idle.ReadsEnd());
  responder.Send(Text("late"));
  EXPECT_EQ(client.ReadResponse().body, "late");
}

TEST_F(HttpServerTest, StreamsChunksAsTheyAreWritten) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({.content_type = "text/event-stream"});
  const ClientResponse head = client.ReadHead();
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(responder.Write(fmt::format("event {}", i)));
    EXPECT_EQ(client.ReadChunk(), fmt::format("event {}", i));
  }
  responder.End();
  EXPECT_EQ(client.ReadChunk(), "");
  EXPECT_EQ(client.Request("GET", "/next").body, "GET /next ");
}

TEST_F(HttpServerTest, NoticesADisconnectWhileStreaming) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  responder.Write("one");
  client.ReadHead();
  client.ReadChunk();
  client.Close();
  EXPECT_TRUE(gone_.Wait());
  EXPECT_FALSE(responder.Write("two"));
}

TEST_F(HttpServerTest, NoticesADisconnectWhileTheAnswerIsComputed) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("POST", "/hold", "x");
  const Responder responder = Held();
  client.Close();
  EXPECT_TRUE(gone_.Wait());
  responder.Send(Text("to nobody"));
}

TEST_F(HttpServerTest, NoticesAResetBehindPipelinedBytes) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.SendBytes("\r\n");
  client.Reset();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, CutsAReaderThatFallsBehind) {
  StartServer({.max_pending_bytes = 64 * 1024});
  HttpClient client(server_->port(), 4096);
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  const std::string piece(16 * 1024, 'x');
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

TEST_F(HttpServerTest, BoundsTheUnsentBytesOfAllStreamsTogether) {
  StartServer({.max_pending_bytes = 64u << 20, .max_total_pending_bytes = 1u << 20});
  HttpClient slow(server_->port(), 4096);
  slow.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  const std::string piece(256 * 1024, 'x');
  int writes = 0;
  while (responder.Write(piece) && writes < 1000) {
    ++writes;
  }
  EXPECT_LT(writes, 200);  // what sockets take, and a little above the limit
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, CutsAReaderAmidAWriteThatItDoesNotTake) {
  StartServer({.max_pending_bytes = 1u << 20});
  HttpClient slow(server_->port(), 4096);
  slow.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  EXPECT_TRUE(responder.Write(std::string(32u << 20, 'x')));
  slow.ReadHead();  // the write is under way
  EXPECT_FALSE(responder.Write("x"));
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, CutsAReaderThatTakesNothingAtAll) {
  StartServer({.max_pending_bytes = 256u << 20, .idle_timeout_ms = 30});
  HttpClient client(server_->port(), 4096);
  client.SendRequest("GET", "/hold");
  Held().StartStream({});
  Held().Write(std::string(32u << 20, 'x'));
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HttpServerTest, AnUnfinishedStreamIsNotTakenForAWholeOne) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  Held().StartStream({});
  Held().Write("part");
  ClientResponse response = client.ReadHead();
  EXPECT_EQ(client.ReadChunk(), "part");
  DropHeld();
  client.ReadBody(response);
  EXPECT_FALSE(response.is_complete);
}

TEST_F(HttpServerTest, RefusesConnectionsOverTheLimitAndRecovers) {
  StartServer({.max_connections = 2});
  auto first = std::make_unique<HttpClient>(server_->port());
  HttpClient second(server_->port());
  EXPECT_EQ(first->Request("GET", "/1").status, 200);
  EXPECT_EQ(second.Request("GET", "/2").status, 200);
  HttpClient third(server_->port());
  const ClientResponse refused = third.Request("GET", "/3");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_TRUE(third.ReadsEnd());
  third.Close();
  first.reset();
  // The place is free as soon as the server has seen the first client leave.
  int status = 503;
  for (int tries = 0; tries < 10'000 && status != 200; ++tries) {
    HttpClient next(server_->port());
    status = next.Request("GET", "/4").status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, StopLetsAnswersFinishAndTakesNoNewConnections) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  HttpClient idle(server_->port());
  EXPECT_EQ(idle.Request("GET", "/").status, 200);
  std::thread stopper([&] { server_->Stop(20'000); });
  EXPECT_TRUE(idle.ReadsEnd());
  responder.Send(Text("finished"));
  const ClientResponse response = client.ReadResponse();
  EXPECT_EQ(response.body, "finished");
  EXPECT_TRUE(client.ReadsEnd());
  client.Close();
  stopper.join();
  EXPECT_FALSE(HttpClient(server_->port()).is_connected());
  server_->Stop(0);
}

TEST_F(HttpServerTest, StopCancelsStreamsThatOutliveTheDrain) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({});
  responder.Write("x");
  client.ReadHead();
  server_->Stop(10);
  EXPECT_TRUE(gone_.Wait());
  EXPECT_FALSE(responder.Write("after"));
  server_.reset();
  EXPECT_FALSE(responder.Write("after the server"));
  responder.End();
}

TEST_F(HttpServerTest, SaysThatThePortIsTakenAndWhatToDo) {
  StartServer();
  const auto second = HttpServer::Start({.port = server_->port()}, [](HttpRequest, Responder) {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find(std::to_string(server_->port())), std::string::npos);
  EXPECT_NE(second.error().message.find("--port"), std::string::npos);
}

TEST(IsOnLoopback, AsksWhereTheHostLeads) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST", "::1",
                           "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsOnLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1", "", "no host"}) {
    EXPECT_FALSE(IsOnLoopback(host)) << host;
  }
}

TEST_F(HttpServerTest, RefusesAHostThatIsNone) {
  for (const std::string host : {"", "256.1.1.1", "203.0.113.7"}) {
    const auto server = HttpServer::Start({.host = host, .port = 0}, [](HttpRequest, Responder) {});
    ASSERT_FALSE(server.ok()) << host;
    EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument) << server.error().message;
  }
}

TEST_F(HttpServerTest, RefusesOptionsOutOfRange) {
  const auto no_handler = [](HttpRequest, Responder) {};
  EXPECT_FALSE(HttpServer::Start({.port = 0, .io_threads = 0}, no_handler).ok());
  EXPECT_FALSE(HttpServer::Start({.port = 0, .max_connections = 0}, no_handler).ok());
  EXPECT_FALSE(HttpServer::Start({.port = 0, .idle_timeout_ms = 0}, no_handler).ok());
  EXPECT_FALSE(HttpServer::Start({.port = 0, .heartbeat_ms = 0}, no_handler).ok());
  EXPECT_FALSE(HttpServer::Start({.port = 0, .tls_handshake_timeout_ms = 0}, no_handler).ok());
}

}  // namespace
}  // namespace ashlar::net
