// Result<T>: a value, or an Error that says what was wrong and what would be right. For failures
// that come from outside (files, sockets, flags, requests, models); bugs use ASHLAR_CHECK, and
// routine outcomes (a miss, no free block) use std::optional or a small enum.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ashlar {

enum class ErrorCode {
  kInvalidArgument,    // a flag, field or call was wrong
  kNotFound,           // a file, model or id does not exist
  kCorrupt,            // bytes that do not mean what their format says
  kUnsupported,        // well-formed, but not something we do
  kResourceExhausted,  // a named limit was reached; the same request may pass later or never
  kUnavailable,        // shutting down, or not ready yet
  kCancelled,          // asked to stop
  kIo,                 // the operating system refused
};

// "invalid argument", "not found", ...
std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;  // names the offending value and what would be right
};

template <typename... Args>
[[nodiscard]] Error MakeError(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition of value(), *, ->: ok(). Precondition of error(): !ok().
  T& value() & {
    CheckOk();
    return std::get<0>(state_);
  }
  const T& value() const& {
    CheckOk();
    return std::get<0>(state_);
  }
  T&& value() && {
    CheckOk();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    ASHLAR_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    ASHLAR_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

 private:
  void CheckOk() const {
    if (!ok()) [[unlikely]] {
      ASHLAR_CHECK(false, "value() of a failed Result: {}", std::get<1>(state_).message);
    }
  }

  std::variant<T, Error> state_;
};

// A Result without a value: ok, or why not.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    ASHLAR_CHECK(!ok(), "error() of a Result that is ok");
    return std::get<1>(state_);
  }
  Error&& error() && {
    ASHLAR_CHECK(!ok(), "error() of a Result that is ok");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<std::monostate, Error> state_;
};

using Status = Result<void>;

}  // namespace ashlar

#define ASHLAR_CONCAT_INNER(a, b) a##b
#define ASHLAR_CONCAT(a, b) ASHLAR_CONCAT_INNER(a, b)

// Returns the error of `expression` (a Result) from the enclosing function; goes on when it is ok.
#define ASHLAR_TRY(expression)                     \
  do {                                             \
    auto&& ashlar_try_result = (expression);       \
    if (!ashlar_try_result.ok()) [[unlikely]] {    \
      return std::move(ashlar_try_result).error(); \
    }                                              \
  } while (false)

// ASHLAR_ASSIGN(auto x, MakeX()): declares or assigns x, or returns the error.
#define ASHLAR_ASSIGN(target, expression) \
  ASHLAR_ASSIGN_INNER(target, expression, ASHLAR_CONCAT(ashlar_result_, __LINE__))
#define ASHLAR_ASSIGN_INNER(target, expression, name) \
  auto name = (expression);                           \
  if (!name.ok()) [[unlikely]] {                      \
    return std::move(name).error();                   \
  }                                                   \
  target = std::move(name).value()
