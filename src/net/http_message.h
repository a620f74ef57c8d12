// The text of HTTP/1.1 heads and chunks, and what is read from a request's head. No sockets.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/http_server.h"

namespace ashlar::net {

// "Not Found"; "Unknown" for a status we never send.
std::string_view ReasonPhrase(int status);

struct HeadOptions {
  bool keep_alive = true;
  bool is_chunked = false;
  std::optional<std::size_t> content_length = {};  // none for streams and for 204
  std::span<const std::pair<std::string, std::string>> more_headers = {};
};

// Status line and headers up to and with the empty line. Control characters in header names and
// values become spaces, so that a value taken from a request cannot add a header or an answer of
// its own.
std::string FormatHead(const HttpResponse& response, const HeadOptions& options);

// Appends one chunk of the chunked transfer coding; nothing when `bytes` is empty, for that would
// end it.
void AppendChunk(std::string_view bytes, std::string& out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Answers the server gives by itself, in the shape options.format_error asks for.
HttpResponse ErrorResponse(const HttpServerOptions& options, int status, std::string_view message);

// Splits a request target: origin form ("/a?b"), absolute form ("http://host/a?b"), or "*". False
// when it is none of these.
bool SplitTarget(std::string_view target, std::string& path, std::string& query);

}  // namespace ashlar::net
