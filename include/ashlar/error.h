// How calls of the embeddable cache fail: with a value, never with an exception.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ashlar::cache {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // an argument, or a handle that is empty or another cache's
  kNotFound,         // what an id named is not there, or not any more
  kUnsupported,      // the cache was created without this
  kNoMemory,         // not now: others hold the memory. The same call may succeed later
  kLimit,            // not ever, with these options: a limit that the message names
};

// "invalid argument", "not found", ...
std::string_view NameOf(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;  // names the offending value and what would be right
};

namespace internal {
// Prints the reason and stops the process.
[[noreturn]] void StopForMissingValue(std::string_view message);
[[noreturn]] void StopForMissingError();
}  // namespace internal

// A T, or why there is none. Like std::expected of C++23, except that reading what is not there
// stops the process with the error's message instead of being undefined.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition: ok(). Of a temporary the value comes by value: a range-for over it is right.
  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Expected*>(this)->Checked(); }
  T value() && { return std::move(Checked()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(Checked()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !ok().
  const Error& error() const {
    if (ok()) internal::StopForMissingError();
    return *std::get_if<1>(&state_);
  }

 private:
  T& Checked() {
    if (!ok()) internal::StopForMissingValue(std::get_if<1>(&state_)->message);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

// Done, or why not.
template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition: !ok().
  const Error& error() const {
    if (ok()) internal::StopForMissingError();
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace ashlar::cache
