// A server that says exactly what a test tells it to, on 127.0.0.1: each connection gets a thread
// and the test's function.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ashlar::load::testing {

// One connection, blocking, with a read timeout of 20 s. Closed when the function returns.
class RawConnection {
 public:
  explicit RawConnection(int socket) : socket_(socket) {}
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // A request with its body, by Content-Length; "" when the client has left.
  std::string ReadRequest();
  void Write(std::string_view bytes);
  // Returns when the client has closed.
  void WaitForEnd();
  int socket() const { return socket_; }

 private:
  const int socket_;
  std::string buffer_;
};

class RawServer {
 public:
  explicit RawServer(std::function<void(RawConnection&)> serve);
  ~RawServer();
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  std::uint16_t port() const { return port_; }
  // Connections accepted so far.
  std::size_t accepted();

 private:
  void Accept();

  const std::function<void(RawConnection&)> serve_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::mutex mutex_;  // protects the list
  std::vector<std::jthread> connections_;
  std::jthread acceptor_;
};

// A port that nobody listens on.
std::uint16_t ClosedPort();

}  // namespace ashlar::load::testing
