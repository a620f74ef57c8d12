// How keys, values and dims from a file appear in error messages: short, printable, whatever they
// hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/model_file.h"

namespace ashlar::gguf {

// 'text' in quotes; control and non-ASCII bytes as \xNN; cut after 64 bytes.
std::string Quote(std::string_view text);

// "the unsigned integer 5", "the string 'llama'", "an array of 3 strings".
std::string Describe(const Value& value);

// "[64, 2]".
std::string DescribeDims(std::span<const std::uint64_t> dims);

// What is wrong with `name` as a key or tensor name ("is not UTF-8"), or nullopt when nothing is.
std::optional<std::string_view> FaultOfName(std::string_view name);

}  // namespace ashlar::gguf
