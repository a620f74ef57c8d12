// Reads one HTTP/1.1 request from bytes as they arrive, within limits. The only place that uses
// Beast's parser; no sockets.
//
// The parser itself does not bound the sum of a head's fields that trickle in one by one, nor the
// line of a chunk's size: both are counted here.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace ashlar::net {

class RequestReader {
 public:
  enum class Progress { kNeedsMore, kDone, kFailed };

  RequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Takes what belongs to this request from the front of `bytes`: the count taken goes to
  // `consumed`. What it leaves must come again, in front of the bytes that follow. Precondition:
  // the last call returned kNeedsMore, or there was none.
  Progress Feed(std::string_view bytes, std::size_t& consumed);

  // After kFailed: the status to answer with, and why.
  int failure_status() const { return failure_status_; }
  const std::string& failure_message() const { return failure_message_; }

  // Whether the client waits for "100 Continue" before it sends the body. True once.
  bool TakeContinueWish();

  // The head, once it is complete while the body is not. Once.
  std::optional<HttpRequest> TakeHead();

  bool has_started() const;  // any byte was taken
  std::size_t body_bytes() const;

  // After kDone.
  bool keep_alive() const;
  bool is_http10() const;
  HttpRequest TakeRequest();

 private:
  struct Parser;

  Progress Fail(int status, std::string message);
  Progress CheckHead();
  HttpRequest Head() const;  // without target

  const std::size_t max_header_bytes_;
  const std::size_t max_body_bytes_;
  std::unique_ptr<Parser> parser_;
  std::size_t header_bytes_ = 0;  // taken before the head was complete
  bool is_head_checked_ = false;
  bool is_head_taken_ = false;
  bool wants_continue_ = false;
  std::string path_;
  std::string query_;
  int failure_status_ = 0;
  std::string failure_message_;
};

}  // namespace ashlar::net
