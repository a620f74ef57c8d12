// A small blocking HTTP client for tests, in plain or over TLS. It can also misbehave: send any
// bytes, stop reading, leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::net::testing {

struct ClientResponse {
  int status = 0;                              // 0: the connection ended before a whole head
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // of a chunked answer: all chunks
  bool is_complete = false;                    // the body ended as its head said it would
};

class HttpClient {
 public:
  // Connects to 127.0.0.1:port. `receive_buffer_bytes`: of the socket; 0 leaves the default.
  explicit HttpClient(std::uint16_t port, int receive_buffer_bytes = 0);
  // Over TLS; not connected unless the server shows this certificate for "localhost".
  HttpClient(std::uint16_t port, const std::string& trusted_certificate_path);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool is_connected() const { return socket_ >= 0; }

  // False when the other side has closed.
  bool SendBytes(std::string_view bytes);
  void SendRequest(std::string_view method, std::string_view target, std::string_view body = {},
                   std::string_view more_headers = {});

  // Reads one head (1xx included). Then ReadBody, or ReadChunk by ReadChunk.
  ClientResponse ReadHead();
  // Completes a response from ReadHead. `has_body` false: an answer to HEAD.
  void ReadBody(ClientResponse& response, bool has_body = true);
  // One chunk of a chunked body; "" is the last one, nullopt a connection that ended before it.
  std::optional<std::string> ReadChunk();

  ClientResponse ReadResponse();
  ClientResponse Request(std::string_view method, std::string_view target,
                         std::string_view body = {}, std::string_view more_headers = {});

  // True when the other side has closed (or does within the read timeout) and sent nothing more.
  bool ReadsEnd();

  void CloseSendingHalf();
  void Close();
  void Reset();  // closes with a TCP reset

 private:
  struct Tls;

  bool Fill();  // reads more into buffer_; false at the end
  std::ptrdiff_t Receive(char* to, std::size_t bytes);
  std::optional<std::string> ReadLine();

  int socket_ = -1;
  std::unique_ptr<Tls> tls_;  // null: plain
  std::string buffer_;
};

}  // namespace ashlar::net::testing
