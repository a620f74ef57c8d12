// A metadata value as the type its reader needs, or kCorrupt naming the key, what it holds and what
// is needed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/model_file.h"

namespace ashlar::gguf {

Result<std::uint64_t> ToUnsigned(std::string_view key, const Value& value);
Result<double> ToNumber(std::string_view key, const Value& value);
Result<bool> ToBool(std::string_view key, const Value& value);
Result<std::string_view> ToString(std::string_view key, const Value& value);
// Views into `value`. An empty array has no type.
Result<std::span<const std::string_view>> ToStrings(std::string_view key, const Value& value);
Result<std::span<const std::int64_t>> ToIntegers(std::string_view key, const Value& value);
Result<std::vector<double>> ToNumbers(std::string_view key, const Value& value);

}  // namespace ashlar::gguf
