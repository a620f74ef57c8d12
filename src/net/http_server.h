// An HTTP/1.1 server with streamed responses (server-sent events). It knows nothing of tokens or
// JSON: a handler gets a request and a responder.
//
// Threads: `io_threads` threads run the connections; handlers are called on them and must not
// block. A Responder may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ashlar::net {

struct HttpRequest {
  std::string method;                                        // "GET"
  std::string path;                                          // "/v1/models", without the query
  std::string query;                                         // after '?', not decoded; maybe empty
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // The first header of that (lower-case) name; empty when absent.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

class TlsContext;

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port, see HttpServer::port()
  std::size_t io_threads = 1;
  std::size_t max_connections = 4096;        // above: 503 with Retry-After, then closed
  std::size_t max_header_bytes = 16 * 1024;  // above: 431
  std::size_t max_body_bytes = 16u << 20;    // above: 413
  // Bodies of all requests being read or answered; above: 503.
  std::size_t max_total_body_bytes = 256u << 20;
  std::size_t max_pending_bytes = 4u << 20;  // unsent bytes of one stream, see Responder::Write
  // Unsent bytes of all answers; above, streams that hold more than a fair part (64 KiB) are cut.
  std::size_t max_total_pending_bytes = 256u << 20;
  // Between requests, for reading one, for a client to take any byte of its answer, and for its
  // machine to confirm any byte sent to it.
  std::int64_t idle_timeout_ms = 60'000;
  // How long a stream with a heartbeat is silent, and how often a client that has closed its
  // sending half is asked whether it is still there.
  std::int64_t heartbeat_ms = 15'000;
  std::shared_ptr<const TlsContext> tls = {};  // null: plain HTTP
  std::int64_t tls_handshake_timeout_ms = 10'000;
  // Asked with the head of a request whose body is still to come (and without that body); an answer
  // is given instead of reading on, so that who may not ask occupies no memory. On io threads; must
  // not block.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> refuse_head = {};
  // The body of answers that the server gives by itself (400, 408, 413, 431, 500, 503, ...). Called
  // on io threads. Null: text/plain.
  std::function<HttpResponse(int status, std::string_view message)> format_error = {};
};

// Whether only programs of this machine can connect to a server that listens on `host`. False for a
// host that is none.
bool IsOnLoopback(const std::string& host);

// The one way to answer a request: Send once, or StartStream, Write..., End. Copyable handle; when
// the last copy goes without an answer the server answers 500, and without an End the stream is
// cut. After the client has left, calls do nothing. A HEAD request is answered like a GET; its body
// is not sent.
class Responder {
 public:
  class Impl;
  explicit Responder(std::shared_ptr<Impl> impl);

  // Of the answer, whoever gives it. Precondition: there is none yet.
  void AddHeader(std::string_view name, std::string_view value) const;

  void Send(HttpResponse response) const;

  // Sends the headers of a chunked response (content type e.g. "text/event-stream"). `heartbeat`:
  // bytes that mean nothing to its reader (a comment), sent when the stream has been silent for
  // heartbeat_ms, so that nobody on the way takes it for dead.
  void StartStream(const HttpResponse& headers, std::string_view heartbeat = {}) const;
  // Queues bytes as one chunk. False: the client has left or reads too slowly (more than
  // max_pending_bytes were unsent already), and the stream is over; the caller should cancel its
  // work.
  bool Write(std::string_view bytes) const;
  // Bytes of the answer that the client has not been sent yet. Who has much to write looks here to
  // write no faster than it is read.
  std::size_t unsent_bytes() const;
  void End() const;

  // `on_gone` is called once, on an io thread, when the client disconnects, or its stream is cut,
  // before the answer is complete (at once, on this thread, if it already has). It must not block.
  //
  // A client that closes its sending half alone may still read. It is sent something harmless (the
  // heartbeat of a stream, an interim answer before the first byte of another), to which a client
  // that has really left answers with a reset. Where nothing harmless can be sent (HTTP/1.0, a
  // stream without heartbeat) it counts as gone, though a Send still tries to reach it.
  void OnClientGone(std::function<void()> on_gone) const;

 private:
  std::shared_ptr<Impl> impl_;
};

using HttpHandler = std::function<void(HttpRequest request, Responder responder)>;

class HttpServer {
 public:
  // Binds, listens and starts serving. Errors: kInvalidArgument (host), kIo (port taken, ...), with
  // what to do.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                   HttpHandler handler);
  virtual ~HttpServer() = default;

  virtual std::uint16_t port() const = 0;

  // Stops accepting, waits up to drain_ms for running answers, then closes what is left.
  // Idempotent; also done (with 0) by the destructor.
  virtual void Stop(std::int64_t drain_ms) = 0;
};

}  // namespace ashlar::net
