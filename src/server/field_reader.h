// Reads the fields of a JSON object into typed variables. The first field that is wrong is kept as
// the error and the rest is skipped, so that a request's parser reads like a list of its fields.
//
// A field that is absent or null leaves its variable as it was.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/api_error.h"
#include "server/json.h"

namespace ashlar::server {

struct NumberRange {
  double lowest = 0;
  double highest = 0;
  bool excludes_lowest = false;
};

class FieldReader {
 public:
  // `object` must outlive the reader. `prefix`: of the names in errors ("messages[0]").
  explicit FieldReader(const Json& object, std::string prefix = {});

  void Boolean(std::string_view name, bool& out);
  void Number(std::string_view name, const NumberRange& range, double& out);
  void String(std::string_view name, std::string& out);
  void Object(std::string_view name, Json& out);
  void Array(std::string_view name, Json& out);
  // Token ids in [0, vocab_size).
  void TokenIds(std::string_view name, std::size_t vocab_size, std::vector<TokenId>& out);

  // A whole number (5.0 is one) in [lowest, highest].
  void Integer(std::string_view name, std::int64_t lowest, std::int64_t highest,
               std::optional<std::int64_t>& out);
  template <typename T>
  void Integer(std::string_view name, std::int64_t lowest, std::int64_t highest, T& out) {
    std::optional<std::int64_t> value;
    Integer(name, lowest, highest, value);
    if (value.has_value()) {
      out = static_cast<T>(*value);
    }
  }

  // Null when absent, null, or after an error.
  const Json* Find(std::string_view name) const;

  // Keeps the error unless there is one already. `message` follows the field's name.
  void Fail(std::string_view name, std::string_view message);
  void Fail(ApiError error);

  bool ok() const { return !error_.has_value(); }
  ApiError TakeError() { return *std::move(error_); }

 private:
  std::string NameOf(std::string_view field) const;
  void FailType(std::string_view name, std::string_view wanted, const Json& value);

  const Json& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// "a string", "an array", ...: what a value is, for messages.
std::string_view TypeNameOf(const Json& value);

// The value as it may stand in a message: printed, cut to a few dozen bytes.
std::string Quote(const Json& value);

// The whole number a JSON value holds, if it does.
std::optional<std::int64_t> WholeNumber(const Json& value);

}  // namespace ashlar::server
