// An error as an OpenAI client sees it: {"error": {"message", "type", "param", "code"}} and a
// status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/result.h"
#include "net/http_server.h"

namespace ashlar::server {

struct ApiError {
  int status = 400;
  std::string message;     // names the offending value and what would be right
  std::string param = {};  // the request's field; empty: null
  std::string code = {};   // for programs, such as "model_not_found"; empty: null
  // When to come again, of 429 and 503; 0: it is not known, and soon is worth a try.
  std::int64_t retry_after_s = 0;
};

// A value, or the error to answer with: Result with a field's name.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  // Implicit, so that a function returns either.
  // NOLINTNEXTLINE(google-explicit-constructor)
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor): implicit like Result's
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }

  // Precondition of *, ->: ok(). Precondition of error(): !ok().
  T& operator*() & {
    ASHLAR_CHECK(ok(), "{}", ok() ? "" : std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& operator*() const& {
    ASHLAR_CHECK(ok(), "{}", ok() ? "" : std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& operator*() && { return std::move(**this); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  T&& value() && { return std::move(**this); }

  const ApiError& error() const& { return std::get<1>(state_); }
  ApiError&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, ApiError> state_;
};

// What an Error of the engine, tokenizer or template means to a client: 400, 404, 429, 503 or 500.
ApiError ApiErrorFrom(const Error& error, std::string_view param = {});

// The "type" OpenAI gives errors of this status.
std::string_view ErrorTypeOf(int status);

// {"error": {...}}, one line.
std::string ErrorBody(const ApiError& error);

// The whole answer; 429 and 503 say when to come again, 401 what was missing.
net::HttpResponse ErrorResponse(const ApiError& error);

}  // namespace ashlar::server
