#include "net/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "base/check.h"
#include "net/http_message.h"

namespace ashlar::net {
namespace http = boost::beast::http;
using boost::beast::iequals;

constexpr std::size_t kLastChunkBytes = 5;  // "0\r\n\r\n"
// The longest chunk-size line, extensions included, and the longest trailer.
constexpr std::size_t kMaxChunkHeadBytes = 8 * 1024;

struct RequestReader::Parser : http::request_parser<http::string_body> {};

RequestReader::RequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes)
    : max_header_bytes_(max_header_bytes),
      max_body_bytes_(max_body_bytes),
      parser_(std::make_unique<Parser>()) {
  parser_->header_limit(static_cast<std::uint32_t>(
      std::min<std::size_t>(max_header_bytes, std::numeric_limits<std::uint32_t>::max())));
  parser_->body_limit(max_body_bytes);
}

RequestReader::~RequestReader() = default;

bool RequestReader::has_started() const { return parser_->got_some(); }

std::size_t RequestReader::body_bytes() const { return parser_->get().body().size(); }

RequestReader::Progress RequestReader::Fail(int status, std::string message) {
  failure_status_ = status;
  failure_message_ = std::move(message);
  return Progress::kFailed;
}

RequestReader::Progress RequestReader::Feed(std::string_view bytes, std::size_t& consumed) {
  consumed = 0;
  while (!parser_->is_done()) {
    const std::string_view rest = bytes.substr(consumed);
    const bool was_in_head = !parser_->is_header_done();
    // Beast 1.81 asserts that the last chunk comes in pieces of five bytes or more. At least five
    // are to come wherever a chunked body is: "0\r\n\r\n" ends it.
    if (!was_in_head && parser_->chunked() && rest.size() < kLastChunkBytes) {
      return Progress::kNeedsMore;
    }
    const std::size_t body_before = body_bytes();
    boost::beast::error_code error;
    const std::size_t taken = parser_->put(boost::asio::buffer(rest.data(), rest.size()), error);
    consumed += taken;
    const std::size_t waiting = error == http::error::need_more ? rest.size() - taken : 0;
    if (error == http::error::body_limit) {
      return Fail(413, fmt::format("the request's body is longer than {} bytes", max_body_bytes_));
    }
    if (was_in_head) {
      header_bytes_ += taken;
      if (header_bytes_ + waiting > max_header_bytes_ || error == http::error::header_limit) {
        return Fail(431,
                    fmt::format("the request's head is longer than {} bytes", max_header_bytes_));
      }
    }
    if (error == http::error::bad_version) {
      return Fail(505, "this server speaks HTTP/1.1 and HTTP/1.0");
    }
    if (error && error != http::error::need_more) {
      return Fail(400, fmt::format("not a valid HTTP request: {}", error.message()));
    }
    if (parser_->is_header_done() && !is_head_checked_) {
      if (CheckHead() == Progress::kFailed) {
        return Progress::kFailed;
      }
    }
    if (!was_in_head && taken - (body_bytes() - body_before) + waiting > kMaxChunkHeadBytes) {
      return Fail(400, fmt::format("a chunk's size line or the trailer is longer than {} bytes",
                                   kMaxChunkHeadBytes));
    }
    if (error == http::error::need_more || (taken == 0 && !parser_->is_done())) {
      return Progress::kNeedsMore;
    }
  }
  return Progress::kDone;
}

// What HTTP asks of a head beyond its syntax.
RequestReader::Progress RequestReader::CheckHead() {
  is_head_checked_ = true;
  const auto& message = parser_->get();
  if (message.count(http::field::host) > 1 ||
      (message.version() >= 11 && message.count(http::field::host) == 0)) {
    return Fail(400, "an HTTP/1.1 request needs exactly one Host header");
  }
  if (message.count(http::field::transfer_encoding) > 0 && !parser_->chunked()) {
    return Fail(501, fmt::format("transfer encoding '{}' is not supported; send chunked or a "
                                 "Content-Length",
                                 std::string_view(message[http::field::transfer_encoding])));
  }
  const std::string_view target = message.target();
  if (!SplitTarget(target, path_, query_)) {
    return Fail(400, fmt::format("request target '{}' is neither a path nor an http URL", target));
  }
  if (const auto expect = message.find(http::field::expect); expect != message.end()) {
    if (!iequals(expect->value(), "100-continue")) {
      return Fail(417, fmt::format("expectation '{}' is not supported; 100-continue is",
                                   std::string_view(expect->value())));
    }
    wants_continue_ = message.version() >= 11 && !parser_->is_done();
  }
  return Progress::kNeedsMore;
}

bool RequestReader::TakeContinueWish() { return std::exchange(wants_continue_, false); }

bool RequestReader::keep_alive() const { return parser_->keep_alive(); }

bool RequestReader::is_http10() const { return parser_->get().version() < 11; }

std::optional<HttpRequest> RequestReader::TakeHead() {
  if (!is_head_checked_ || parser_->is_done() || std::exchange(is_head_taken_, true)) {
    return std::nullopt;
  }
  HttpRequest head = Head();
  head.path = path_;
  head.query = query_;
  return head;
}

HttpRequest RequestReader::TakeRequest() {
  ASHLAR_CHECK(parser_->is_done());
  HttpRequest request = Head();
  request.path = std::move(path_);
  request.query = std::move(query_);
  request.body = std::move(parser_->get().body());
  return request;
}

HttpRequest RequestReader::Head() const {
  const auto& message = parser_->get();
  HttpRequest head;
  head.method = std::string(message.method_string());
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    head.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  return head;
}

}  // namespace ashlar::net
