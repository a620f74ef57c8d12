#include "net/testing/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <utility>

namespace ashlar::net::testing {

// Generous: only a test that fails waits for it.
constexpr int kReadTimeoutSeconds = 20;

HttpClient::HttpClient(std::uint16_t port, int receive_buffer_bytes) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) {
    return;
  }
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  const timeval timeout{.tv_sec = kReadTimeoutSeconds, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Close();
  }
}

struct HttpClient::Tls {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = nullptr;

  Tls() = default;
  ~Tls() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
};

HttpClient::HttpClient(std::uint16_t port, const std::string& trusted_certificate_path)
    : HttpClient(port) {
  if (!is_connected()) {
    return;
  }
  auto tls = std::make_unique<Tls>();
  SSL_CTX_load_verify_file(tls->context, trusted_certificate_path.c_str());
  SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, nullptr);
  tls->ssl = SSL_new(tls->context);
  SSL_set1_host(tls->ssl, "localhost");
  SSL_set_fd(tls->ssl, socket_);
  if (SSL_connect(tls->ssl) == 1) {
    tls_ = std::move(tls);
  } else {
    Close();
  }
}

HttpClient::~HttpClient() { Close(); }

bool HttpClient::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = tls_ ? SSL_write(tls_->ssl, bytes.data(), static_cast<int>(bytes.size()))
                              : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void HttpClient::SendRequest(std::string_view method, std::string_view target,
                             std::string_view body, std::string_view more_headers) {
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, target, more_headers);
  if (!body.empty() || method == "POST") {
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  text += "\r\n";
  text += body;
  SendBytes(text);
}

std::ptrdiff_t HttpClient::Receive(char* to, std::size_t bytes) {
  return tls_ ? SSL_read(tls_->ssl, to, static_cast<int>(bytes)) : recv(socket_, to, bytes, 0);
}

bool HttpClient::Fill() {
  std::array<char, 16 * 1024> chunk;
  for (;;) {
    const std::ptrdiff_t got = Receive(chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    buffer_.append(chunk.data(), static_cast<std::size_t>(got));
    return true;
  }
}

std::optional<std::string> HttpClient::ReadLine() {
  for (std::size_t from = 0;;) {
    const std::size_t end = buffer_.find("\r\n", from);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 2);
      return line;
    }
    from = buffer_.empty() ? 0 : buffer_.size() - 1;
    if (!Fill()) {
      return std::nullopt;
    }
  }
}

ClientResponse HttpClient::ReadHead() {
  ClientResponse response;
  const std::optional<std::string> status_line = ReadLine();
  if (!status_line || status_line->size() < 12 || !status_line->starts_with("HTTP/1.1 ")) {
    return response;
  }
  for (;;) {
    const std::optional<std::string> line = ReadLine();
    if (!line) {
      return response;
    }
    if (line->empty()) {
      break;
    }
    const std::size_t colon = line->find(": ");
    std::string name = line->substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = colon == std::string::npos ? "" : line->substr(colon + 2);
  }
  response.status = std::stoi(status_line->substr(9, 3));
  return response;
}

std::optional<std::string> HttpClient::ReadChunk() {
  const std::optional<std::string> size_line = ReadLine();
  if (!size_line || size_line->empty()) {
    return std::nullopt;
  }
  const std::size_t size = std::stoul(*size_line, nullptr, 16);
  while (buffer_.size() < size + 2) {
    if (!Fill()) {
      return std::nullopt;
    }
  }
  std::string chunk = buffer_.substr(0, size);
  buffer_.erase(0, size + 2);
  return chunk;
}

void HttpClient::ReadBody(ClientResponse& response, bool has_body) {
  if (response.status == 0) {
    return;
  }
  if (!has_body || response.status == 204 || response.status / 100 == 1) {
    response.is_complete = true;
    return;
  }
  if (response.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::optional<std::string> chunk = ReadChunk();
      if (!chunk) {
        return;
      }
      if (chunk->empty()) {
        response.is_complete = true;
        return;
      }
      response.body += *chunk;
    }
  }
  const auto length = response.headers.find("content-length");
  if (length == response.headers.end()) {
    while (Fill()) {
    }
    response.body = std::exchange(buffer_, {});
    response.is_complete = true;
    return;
  }
  const std::size_t size = std::stoul(length->second);
  while (buffer_.size() < size && Fill()) {
  }
  response.is_complete = buffer_.size() >= size;
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
}

ClientResponse HttpClient::ReadResponse() {
  ClientResponse response = ReadHead();
  if (response.status != 0) {
    ReadBody(response);
  }
  return response;
}

ClientResponse HttpClient::Request(std::string_view method, std::string_view target,
                                   std::string_view body, std::string_view more_headers) {
  SendRequest(method, target, body, more_headers);
  return ReadResponse();
}

bool HttpClient::ReadsEnd() {
  if (!buffer_.empty()) {
    return false;
  }
  char byte = 0;
  const std::ptrdiff_t got = Receive(&byte, 1);
  if (tls_) {
    return got <= 0 && SSL_get_error(tls_->ssl, static_cast<int>(got)) == SSL_ERROR_ZERO_RETURN;
  }
  return got == 0 || (got < 0 && (errno == ECONNRESET || errno == EPIPE));
}

void HttpClient::CloseSendingHalf() {
  if (tls_) {
    SSL_shutdown(tls_->ssl);
  }
  shutdown(socket_, SHUT_WR);
}

void HttpClient::Close() {
  tls_.reset();
  if (socket_ >= 0) {
    close(std::exchange(socket_, -1));
  }
}

void HttpClient::Reset() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  Close();
}

}  // namespace ashlar::net::testing
