// One request of a trace: when it came, how long it was, and what it has in common with others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ashlar::trace {

inline constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 30;  // of one prompt or answer

// What is in the prompt is told by at most one of `hash_ids` and `prefixes`; by neither: nothing
// that another request has too.
struct Request {
  double timestamp_ms = 0;
  std::uint64_t input_tokens = 0;   // at least 1
  std::uint64_t output_tokens = 0;  // generated
  std::uint64_t max_tokens = 0;     // asked for, at least output_tokens
  // One for each block of the prompt (Mooncake): equal ids, equal prefixes up to and including it.
  std::vector<std::uint64_t> hash_ids;
  // One for each token of prompt and output (prefix_names.h): equal names at the same position,
  // equal prefixes up to and including it.
  std::vector<std::uint32_t> prefixes;
  std::string scope;   // prefixes are shared within one only
  std::string tenant;  // as sched::SequenceSpec has it
  std::int32_t priority = 0;
};

// Requests one after the other, by time.
class Source {
 public:
  virtual ~Source() = default;
  // The next one into `request`, whose memory is used again; false at the end. After an error there
  // are no more.
  virtual Result<bool> Next(Request& request) = 0;
};

}  // namespace ashlar::trace
