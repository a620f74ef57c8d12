#include "net/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/testing/http_client.h"

namespace ashlar::net {
namespace {

using testing::ClientResponse;
using testing::HttpClient;

// A latch with a deadline, so that a broken server fails a test instead of hanging it.
class Signal {
 public:
  void Set() {
    if (!is_set_.exchange(true)) {
      promise_.set_value();
    }
  }
  bool Wait() { return future_.wait_for(std::chrono::seconds(20)) == std::future_status::ready; }

 private:
  std::atomic<bool> is_set_{false};
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

HttpResponse Text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Echoes, unless a test keeps the responders for itself ("/hold").
class HttpServerTest : public ::testing::Test {
 protected:
  void StartServer(HttpServerOptions options = {}) {
    options.port = 0;
    auto server = HttpServer::Start(options, [this](HttpRequest request, Responder responder) {
      Handle(std::move(request), std::move(responder));
    });
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
  }

  void Handle(HttpRequest request, Responder responder) {
    if (request.path == "/hold") {
      responder.OnClientGone([this] { gone_.Set(); });
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(responder));
      held_signal_.Set();
    } else if (request.path == "/throw") {
      throw std::runtime_error("handler bug");
    } else if (request.path == "/drop") {
      // The responder goes without an answer.
    } else {
      responder.Send(Text(fmt::format("{} {} {}", request.method, request.path, request.body)));
    }
  }

  Responder Held() {
    EXPECT_TRUE(held_signal_.Wait());
    const std::lock_guard lock(mutex_);
    return held_.front();
  }

  void DropHeld() {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  std::unique_ptr<HttpServer> server_;
  std::mutex mutex_;
  std::vector<Responder> held_;
  Signal held_signal_;
  Signal gone_;
};

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

TEST_F(HttpServerTest, AClientThatClosedItsHalfStillGetsAQuickAnswer) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.CloseSendingHalf();
  EXPECT_TRUE(gone_.Wait());
  responder.Send(Text("anyway"));
  EXPECT_EQ(client.ReadResponse().body, "anyway");
  EXPECT_TRUE(client.ReadsEnd());
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
}

// Many open streams on one io thread, written from two others at once.
TEST_F(HttpServerTest, ServesFiveHundredStreamsAtOnce) {
  constexpr std::size_t kStreams = 500;
  constexpr int kEvents = 5;
  StartServer({.max_connections = kStreams});
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * kStreams + 64) {
    GTEST_SKIP() << "only " << limit.rlim_cur << " file descriptors";
  }
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (std::size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->SendRequest("GET", "/hold");
  }
  std::vector<Responder> responders;
  while (responders.size() < kStreams) {
    {
      const std::lock_guard lock(mutex_);
      responders.insert(responders.end(), held_.begin(), held_.end());
      held_.clear();
    }
    std::this_thread::yield();
  }
  const auto write_half = [&](std::size_t half) {
    for (std::size_t i = half; i < kStreams; i += 2) {
      responders[i].StartStream({.content_type = "text/event-stream"});
    }
    for (int event = 0; event < kEvents; ++event) {
      for (std::size_t i = half; i < kStreams; i += 2) {
        EXPECT_TRUE(responders[i].Write(fmt::format("data: {}\n\n", event)));
      }
    }
    for (std::size_t i = half; i < kStreams; i += 2) {
      responders[i].End();
    }
  };
  std::thread even(write_half, 0);
  std::thread odd(write_half, 1);
  for (const auto& client : clients) {
    const ClientResponse response = client->ReadResponse();
    ASSERT_TRUE(response.is_complete);
    EXPECT_EQ(response.body, "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n");
  }
  even.join();
  odd.join();
}

// Clients that leave at any moment, in any way, on several io threads: nothing is lost or hangs.
TEST_F(HttpServerTest, SurvivesClientsThatLeaveAtAnyMoment) {
  StartServer({.io_threads = 2});
  std::atomic<int> gone = 0;
  std::thread writer;
  std::atomic<bool> stop = false;
  writer = std::thread([&] {
    while (!stop) {
      std::vector<Responder> mine;
      {
        const std::lock_guard lock(mutex_);
        mine.swap(held_);
      }
      for (const Responder& responder : mine) {
        responder.OnClientGone([&gone] { ++gone; });
        responder.StartStream({});
        for (int i = 0; i < 3; ++i) {
          responder.Write("some bytes");
        }
        responder.End();
      }
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 200; ++i) {
    HttpClient client(server_->port());
    client.SendRequest("GET", "/hold");
    switch (i % 4) {
      case 0:
        client.Reset();
        break;
      case 1:
        client.Close();
        break;
      case 2:
        client.ReadHead();
        client.Reset();
        break;
      case 3:
        EXPECT_TRUE(client.ReadResponse().is_complete);
        break;
    }
  }
  stop = true;
  writer.join();
  DropHeld();
  HttpClient client(server_->port());
  EXPECT_EQ(client.Request("GET", "/alive").status, 200);
}

}  // namespace
}  // namespace ashlar::net
