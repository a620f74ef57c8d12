#include "gguf/convert.h"

#include <utility>

#include "gguf/describe.h"

namespace ashlar::gguf {
namespace {

Error Mismatch(std::string_view key, const Value& value, std::string_view needed) {
  return MakeError(ErrorCode::kCorrupt, "key {} holds {}; {} is needed", Quote(key),
                   Describe(value), needed);
}

// The elements of an array of T, or nullptr when `value` is something else.
template <typename T>
const std::vector<T>* ElementsOf(const Value& value) {
  const auto* array = std::get_if<Array>(&value);
  return array == nullptr ? nullptr : std::get_if<std::vector<T>>(&array->elements);
}

bool IsEmptyArray(const Value& value) {
  const auto* array = std::get_if<Array>(&value);
  return array != nullptr && array->size() == 0;
}

template <typename T>
Result<std::span<const T>> ToElements(std::string_view key, const Value& value,
                                      std::string_view needed) {
  if (const auto* elements = ElementsOf<T>(value)) return std::span<const T>(*elements);
  if (IsEmptyArray(value)) return std::span<const T>();
  return Mismatch(key, value, needed);
}

}  // namespace

Result<std::uint64_t> ToUnsigned(std::string_view key, const Value& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  return Mismatch(key, value, "an unsigned integer");
}

Result<double> ToNumber(std::string_view key, const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  return Mismatch(key, value, "a number");
}

Result<bool> ToBool(std::string_view key, const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return Mismatch(key, value, "a boolean");
}

Result<std::string_view> ToString(std::string_view key, const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return *text;
  return Mismatch(key, value, "a string");
}

Result<std::span<const std::string_view>> ToStrings(std::string_view key, const Value& value) {
  return ToElements<std::string_view>(key, value, "an array of strings");
}

Result<std::span<const std::int64_t>> ToIntegers(std::string_view key, const Value& value) {
  return ToElements<std::int64_t>(key, value, "an array of integers");
}

Result<std::vector<double>> ToNumbers(std::string_view key, const Value& value) {
  if (const auto* numbers = ElementsOf<double>(value)) return *numbers;
  if (const auto* integers = ElementsOf<std::int64_t>(value)) {
    return std::vector<double>(integers->begin(), integers->end());
  }
  if (IsEmptyArray(value)) return std::vector<double>();
  return Mismatch(key, value, "an array of numbers");
}

}  // namespace ashlar::gguf
