// An HTTP/1.1 client for many streams at once on the thread that calls it. Connections are kept for
// the next request to the same server, the only one it knows. The only user of Beast and TLS here.
//
// A request has one deadline, from Send to the last byte. Whatever the server does, its sink gets
// OnEnd, with one of these failures: "connect", "timeout", "cut" (the connection ended too early),
// "protocol" (what came is no HTTP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "load/target.h"
#include "load/transport.h"

namespace ashlar::load {

struct HttpClientOptions {
  Target target;
  std::string api_key;   // sent as a bearer token unless empty
  std::string ca_file;   // certificates to trust in place of the system's
  bool verifies = true;  // the server's certificate and name
  std::int64_t timeout_ns = 600'000'000'000;
  std::int64_t connect_timeout_ns = 10'000'000'000;
};

class HttpClient final : public Transport {
 public:
  // Resolves the host. Errors: kNotFound; kInvalidArgument for an API key or a file of certificates
  // that cannot be used.
  static Result<std::unique_ptr<HttpClient>> Open(const HttpClientOptions& options);
  ~HttpClient() override;

  void Send(HttpCall call, std::unique_ptr<ReplySink> sink) override;

  // Handles what has happened; waits for it, but not longer than this.
  void RunFor(std::int64_t max_wait_ns);

  std::uint64_t connections_opened() const;

 private:
  class Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sends one request and waits for its answer. Errors: kUnavailable for a failure (a body above
// kMaxFetchedBytes is one) or a status from 500, kNotFound for 404 and 405, kInvalidArgument for
// any other but 200; each with the server's own message.
inline constexpr std::size_t kMaxFetchedBytes = std::size_t{64} << 20;
Result<std::string> Fetch(HttpClient& client, HttpCall call);

}  // namespace ashlar::load
