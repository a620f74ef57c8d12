// Traces in the Mooncake format: one JSON object per line with `timestamp` (ms), `input_length` and
// `output_length` (tokens) and `hash_ids`, one for each block of the prompt. Equal ids mean equal
// prefixes up to and including that block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::load {

struct TraceRequest {
  double timestamp_ms = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::vector<std::uint64_t> hash_ids;
};

inline constexpr std::size_t kMaxTraceLineBytes = std::size_t{4} << 20;
inline constexpr std::uint64_t kMaxTraceTokens = std::uint64_t{1} << 30;  // of one prompt or answer

struct TraceOptions {
  std::uint64_t block_tokens = 512;  // of a hash id
  std::size_t max_requests = 0;      // lines read; 0: all
};

// By timestamp, in the file's order where equal. Errors, with `name`:line: kCorrupt for a line that
// is no such object or whose ids do not fit its length, kInvalidArgument for a trace without
// requests.
Result<std::vector<TraceRequest>> ReadTrace(std::istream& in, std::string_view name,
                                            const TraceOptions& options);
// Also kNotFound, kIo.
Result<std::vector<TraceRequest>> ReadTraceFile(const std::string& path,
                                                const TraceOptions& options);

}  // namespace ashlar::load
