// The server under test with a handler that tests steer: "/hold" keeps the responder for the test,
// "/throw" throws, "/drop" forgets to answer, all else is echoed.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "net/http_server.h"

namespace ashlar::net::testing {

// A latch with a deadline, so that a broken server fails a test instead of hanging it.
class Signal {
 public:
  void Set() {
    if (!is_set_.exchange(true)) {
      promise_.set_value();
    }
  }
  bool IsSet() const { return is_set_; }
  bool Wait() { return future_.wait_for(std::chrono::seconds(20)) == std::future_status::ready; }

 private:
  std::atomic<bool> is_set_{false};
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

inline HttpResponse Text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

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

}  // namespace ashlar::net::testing
