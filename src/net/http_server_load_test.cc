// Many clients at once, and clients that leave at any moment.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/http_server.h"
#include "net/testing/held_server.h"
#include "net/testing/http_client.h"

namespace ashlar::net {
namespace {

using testing::ClientResponse;
using testing::HttpClient;
using testing::HttpServerTest;

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
