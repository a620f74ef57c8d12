#include "server/api_error.h"

#include <algorithm>

#include "server/json.h"

namespace ashlar::server {

// When nothing better is known: a queue that is full now has usually moved by then.
constexpr std::int64_t kRetryAfterS = 1;

ApiError ApiErrorFrom(const Error& error, std::string_view param) {
  ApiError api{.status = 500, .message = error.message, .param = std::string(param)};
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      api.status = 400;
      break;
    case ErrorCode::kNotFound:
      api.status = 404;
      break;
    case ErrorCode::kResourceExhausted:
      api.status = 429;
      api.code = "rate_limit_exceeded";
      break;
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      api.status = 503;
      api.code = "service_unavailable";
      break;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
      api.status = 500;
      break;
  }
  return api;
}

std::string_view ErrorTypeOf(int status) {
  if (status == 429) {
    return "rate_limit_error";
  }
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string ErrorBody(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  return DumpJson(Json{{"error",
                        {{"message", error.message},
                         {"type", ErrorTypeOf(error.status)},
                         {"param", text_or_null(error.param)},
                         {"code", text_or_null(error.code)}}}});
}

net::HttpResponse ErrorResponse(const ApiError& error) {
  net::HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error);
  if (error.status == 429 || error.status == 503) {
    response.headers.emplace_back("Retry-After",
                                  std::to_string(std::max(error.retry_after_s, kRetryAfterS)));
  } else if (error.status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"ashlar\"");
  }
  return response;
}

}  // namespace ashlar::server
