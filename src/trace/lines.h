// What one line of a trace says. Errors: kCorrupt, saying what is wrong and what would be right;
// the caller adds file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/request.h"

namespace ashlar::trace {

// An object with `timestamp` (ms), `input_length`, `output_length` (tokens) and either `hash_ids`
// (Mooncake; blocks of `block_tokens`) or `prefixes` (FormatLine).
Status ReadJsonLine(std::string_view line, std::uint64_t block_tokens, Request& request);

// "TIMESTAMP,ContextTokens,GeneratedTokens" (Azure). The time is UTC, in ms since 1970.
inline constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
Status ReadAzureLine(std::string_view line, Request& request);

// A request with prefixes as a line that ReadJsonLine reads, without its end.
std::string FormatLine(const Request& request);

}  // namespace ashlar::trace
