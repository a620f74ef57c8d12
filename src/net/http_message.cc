#include "net/http_message.h"

#include <fmt/format.h>
#include <algorithm>

#include <array>
#include <ctime>
#include <iterator>

namespace ashlar::net {
namespace {

// RFC 9110 5.6.7; an origin server with a clock must send it.
std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

void AppendHeader(std::string_view name, std::string_view value, std::string& out) {
  const auto append_clean = [&out](std::string_view text) {
    for (const char c : text) {
      const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      out.push_back(is_control && c != '\t' ? ' ' : c);
    }
  };
  append_clean(name);
  out += ": ";
  append_clean(value);
  out += "\r\n";
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [header, value] : headers) {
    if (header == name) {
      return value;
    }
  }
  return {};
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string FormatHead(const HttpResponse& response, const HeadOptions& options) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: ashlar\r\n", response.status,
                                ReasonPhrase(response.status));
  AppendHeader("Date", HttpDate(), out);
  if (response.status != 204) {
    AppendHeader("Content-Type", response.content_type, out);
  }
  for (const auto& [name, value] : response.headers) {
    AppendHeader(name, value, out);
  }
  for (const auto& [name, value] : options.more_headers) {
    AppendHeader(name, value, out);
  }
  if (options.is_chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (options.content_length.has_value()) {
    out += fmt::format("Content-Length: {}\r\n", *options.content_length);
  }
  out += options.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void AppendChunk(std::string_view bytes, std::string& out) {
  if (!bytes.empty()) {
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
    out += bytes;
    out += "\r\n";
  }
}

HttpResponse ErrorResponse(const HttpServerOptions& options, int status, std::string_view message) {
  HttpResponse response;
  if (options.format_error) {
    response = options.format_error(status, message);
  } else {
    response.content_type = "text/plain; charset=utf-8";
    response.body = fmt::format("{} {}: {}\n", status, ReasonPhrase(status), message);
  }
  response.status = status;
  const auto is_retry_after = [](const auto& header) { return header.first == "Retry-After"; };
  if (status == 503 &&
      std::none_of(response.headers.begin(), response.headers.end(), is_retry_after)) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

bool SplitTarget(std::string_view target, std::string& path, std::string& query) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.starts_with(scheme)) {
      target.remove_prefix(scheme.size());
      const std::size_t end_of_host = target.find_first_of("/?");
      target =
          end_of_host == std::string_view::npos ? std::string_view() : target.substr(end_of_host);
      if (target.empty() || target.front() == '?') {
        path = "/";
        query = target.empty() ? std::string() : std::string(target.substr(1));
        return true;
      }
      break;
    }
  }
  if (target != "*" && !target.starts_with('/')) {
    return false;
  }
  const std::size_t question = target.find('?');
  path = std::string(target.substr(0, question));
  query =
      question == std::string_view::npos ? std::string() : std::string(target.substr(question + 1));
  return true;
}

}  // namespace ashlar::net
