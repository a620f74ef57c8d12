// GET over HTTP(S), by libcurl: whole small answers, and large ones from a byte on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::pull {

struct HttpRequest {
  std::string url;
  std::string bearer;  // empty: none. Never sent on to another host
  std::vector<std::string> headers = {};
};

// What became of a transfer that the server answered.
struct HttpAnswer {
  long status = 0;        // 200, 206, 404, ...
  std::string validator;  // its ETag or Last-Modified, for If-Range; empty: it has none
  std::optional<std::uint64_t> whole_bytes;  // of the file, where the answer says so
  bool is_complete = false;                  // all of the answer's body came
  std::string failure;                       // why not
};

class HttpClient {
 public:
  // Bytes of the body as they come; false ends the transfer.
  using Sink = std::function<bool(const HttpAnswer& head, std::span<const std::byte> bytes)>;

  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The body of a 200. Errors: kUnavailable when the server cannot be reached, kNotFound for 401,
  // 403 and 404, kIo for other answers, kResourceExhausted above `max_bytes`; all name the URL.
  Result<std::string> GetText(const HttpRequest& request, std::size_t max_bytes);

  // Everything from byte `from` on. An answer of any status is no error here; bytes of a status
  // other than 200 and 206 do not reach the sink. Errors: kUnavailable, without any answer.
  Result<HttpAnswer> Stream(const HttpRequest& request, std::uint64_t from, const Sink& sink);

 private:
  struct Transfer;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// "the server of HOST says 404", by status.
Error AnswerError(const HttpRequest& request, const HttpAnswer& answer);

// `target` as a link on the page at `base`: absolute, relative to its folder or to its host. Empty
// when either is no URL.
std::string ResolveUrl(std::string_view base, std::string_view target);

}  // namespace ashlar::pull
