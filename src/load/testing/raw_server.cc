#include "load/testing/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/check.h"

namespace ashlar::load::testing {
namespace {

constexpr int kReadTimeoutSeconds = 20;  // only a test that fails waits for it

int Listen(std::uint16_t& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool is_fine = bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                       listen(listener, 1024) == 0 &&
                       getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ASHLAR_CHECK(is_fine, "no port to listen on");
  port = ntohs(address.sin_port);
  return listener;
}

}  // namespace

RawConnection::~RawConnection() { close(socket_); }

std::string RawConnection::ReadRequest() {
  for (;;) {
    const std::size_t head = buffer_.find("\r\n\r\n");
    if (head != std::string::npos) {
      std::size_t body = 0;
      const std::size_t at = buffer_.find("Content-Length: ");
      if (at < head) body = std::strtoul(buffer_.c_str() + at + 16, nullptr, 10);
      if (buffer_.size() >= head + 4 + body) {
        std::string request = buffer_.substr(0, head + 4 + body);
        buffer_.erase(0, head + 4 + body);
        return request;
      }
    }
    std::array<char, 4096> piece;
    const ssize_t got = recv(socket_, piece.data(), piece.size(), 0);
    if (got <= 0) return "";
    buffer_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

void RawConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void RawConnection::WaitForEnd() {
  std::array<char, 4096> piece;
  while (recv(socket_, piece.data(), piece.size(), 0) > 0) {
  }
}

RawServer::RawServer(std::function<void(RawConnection&)> serve)
    : serve_(std::move(serve)), listener_(Listen(port_)), acceptor_([this] { Accept(); }) {}

RawServer::~RawServer() {
  shutdown(listener_, SHUT_RDWR);  // ends accept
  acceptor_.join();
  connections_.clear();  // joins
  close(listener_);
}

std::size_t RawServer::accepted() {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void RawServer::Accept() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const timeval timeout{.tv_sec = kReadTimeoutSeconds, .tv_usec = 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    const std::lock_guard lock(mutex_);
    connections_.emplace_back([this, socket] {
      RawConnection connection(socket);
      serve_(connection);
    });
  }
}

std::uint16_t ClosedPort() {
  std::uint16_t port = 0;
  close(Listen(port));
  return port;
}

}  // namespace ashlar::load::testing
