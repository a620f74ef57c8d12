#include "server/field_reader.h"

#include <fmt/format.h>

#include <cmath>

namespace ashlar::server {

// Fields are looked for one by one: a bound on the time that takes.
constexpr std::size_t kMaxFields = 1000;

FieldReader::FieldReader(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object_.is_object()) {
    error_ = ApiError{
        .message = fmt::format("{} must be an object, not {}",
                               prefix_.empty() ? "the request body" : prefix_, TypeNameOf(object_)),
        .param = prefix_};
  } else if (object_.size() > kMaxFields) {
    error_ = ApiError{.message = fmt::format("the request has {} fields; at most {} are allowed",
                                             object_.size(), kMaxFields),
                      .param = prefix_};
  }
}

std::string FieldReader::NameOf(std::string_view field) const {
  return prefix_.empty() ? std::string(field) : fmt::format("{}.{}", prefix_, field);
}

const Json* FieldReader::Find(std::string_view name) const {
  if (!ok()) {
    return nullptr;
  }
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Fail(std::string_view name, std::string_view message) {
  if (ok()) {
    error_ =
        ApiError{.message = fmt::format("'{}' {}", NameOf(name), message), .param = NameOf(name)};
  }
}

void FieldReader::Fail(ApiError error) {
  if (ok()) {
    error_ = std::move(error);
  }
}

void FieldReader::FailType(std::string_view name, std::string_view wanted, const Json& value) {
  Fail(name, fmt::format("must be {}, not {}", wanted, Quote(value)));
}

void FieldReader::Boolean(std::string_view name, bool& out) {
  if (const Json* value = Find(name)) {
    if (!value->is_boolean()) {
      return FailType(name, "true or false", *value);
    }
    out = value->get<bool>();
  }
}

void FieldReader::Number(std::string_view name, const NumberRange& range, double& out) {
  const Json* value = Find(name);
  if (value == nullptr) {
    return;
  }
  if (!value->is_number()) {
    return FailType(name, "a number", *value);
  }
  const double number = value->get<double>();
  const bool above = range.excludes_lowest ? number > range.lowest : number >= range.lowest;
  if (!above || !(number <= range.highest)) {
    return Fail(name, fmt::format("is {}; it must be {} {} and at most {}", Quote(*value),
                                  range.excludes_lowest ? "above" : "at least", range.lowest,
                                  range.highest));
  }
  out = number;
}

void FieldReader::Integer(std::string_view name, std::int64_t lowest, std::int64_t highest,
                          std::optional<std::int64_t>& out) {
  const Json* value = Find(name);
  if (value == nullptr) {
    return;
  }
  const std::optional<std::int64_t> number = WholeNumber(*value);
  if (!number.has_value() && !value->is_number()) {
    return FailType(name, "a whole number", *value);
  }
  if (!number.has_value() || *number < lowest || *number > highest) {
    // JSON's numbers with a point or an exponent are f64: whole ones beyond 2^53 are not exact.
    const bool is_inexact = value->is_number_float() && !number.has_value();
    return Fail(name, fmt::format("is {}; it must be a whole number from {} to {}{}", Quote(*value),
                                  lowest, highest, is_inexact ? ", in digits alone" : ""));
  }
  out = number;
}

void FieldReader::String(std::string_view name, std::string& out) {
  if (const Json* value = Find(name)) {
    if (!value->is_string()) {
      return FailType(name, "a string", *value);
    }
    out = value->get_ref<const std::string&>();
  }
}

void FieldReader::Object(std::string_view name, Json& out) {
  if (const Json* value = Find(name)) {
    if (!value->is_object()) {
      return FailType(name, "an object", *value);
    }
    out = *value;
  }
}

void FieldReader::Array(std::string_view name, Json& out) {
  if (const Json* value = Find(name)) {
    if (!value->is_array()) {
      return FailType(name, "an array", *value);
    }
    out = *value;
  }
}

void FieldReader::TokenIds(std::string_view name, std::size_t vocab_size,
                           std::vector<TokenId>& out) {
  const Json* value = Find(name);
  if (value == nullptr) {
    return;
  }
  if (!value->is_array()) {
    return FailType(name, "an array of token ids", *value);
  }
  std::vector<TokenId> tokens;
  tokens.reserve(value->size());
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::optional<std::int64_t> token = WholeNumber((*value)[i]);
    if (!token.has_value() || *token < 0 || static_cast<std::uint64_t>(*token) >= vocab_size) {
      return Fail(fmt::format("{}[{}]", name, i),
                  fmt::format("is {}; a token id is a whole number from 0 to {}",
                              Quote((*value)[i]), vocab_size - 1));
    }
    tokens.push_back(static_cast<TokenId>(*token));
  }
  out = std::move(tokens);
}

std::string_view TypeNameOf(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::string Quote(const Json& value) {
  constexpr std::size_t kMaxBytes = 60;
  if (value.is_structured()) {
    return std::string(TypeNameOf(value));
  }
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMaxBytes) {
    return "a long string";
  }
  return DumpJson(value);
}

std::optional<std::int64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53: above, a double is no longer one number
    if (std::floor(number) == number && std::abs(number) <= kExact) {
      return static_cast<std::int64_t>(number);
    }
  }
  return std::nullopt;
}

}  // namespace ashlar::server
