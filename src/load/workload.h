// What is asked: conversations, by index. A conversation is one request or several turns, of which
// each contains all before it with the server's real answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/text_maker.h"
#include "trace/request.h"

namespace ashlar::load {

struct Turn {
  std::string text;  // what the user adds
  std::uint64_t max_tokens = 0;
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual std::size_t conversations() const = 0;
  virtual std::size_t requests() const = 0;  // turns of all
  // Deterministic; made when asked for, so that texts need memory only while they are used.
  // Precondition: index < conversations().
  virtual std::vector<Turn> Turns(std::size_t index) const = 0;
};

// Lengths drawn evenly from `least` to `most`.
struct LengthRange {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

struct SyntheticOptions {
  std::size_t conversations = 1;
  std::size_t first = 0;            // the number of the first one: others' texts are left out
  std::uint64_t prefix_tokens = 0;  // at the beginning of every conversation
  std::size_t prefixes = 1;         // different ones, taken in turn
  LengthRange prompt_tokens;        // of the first turn, behind the prefix
  std::size_t turns = 1;
  LengthRange turn_tokens;  // of later turns
  LengthRange output_tokens;
  std::uint64_t seed = 0;
};
std::unique_ptr<Workload> MakeSyntheticWorkload(const SyntheticOptions& options, TextMaker text);

struct TraceWorkloadOptions {
  std::uint64_t block_tokens = 512;  // of a hash id, as the trace was read
  double length_scale = 1;           // of prompts, answers and blocks alike
  std::uint64_t seed = 0;
};
// The text of a block depends on its id alone; where tokens have names (trace::Request::prefixes),
// the text of a token on its own. Otherwise no two requests begin alike.
std::unique_ptr<Workload> MakeTraceWorkload(std::vector<trace::Request> trace,
                                            const TraceWorkloadOptions& options, TextMaker text);
// When each request arrives: from 0 at the first one. Precondition: time_scale > 0.
std::vector<std::int64_t> TraceArrivals(const std::vector<trace::Request>& trace,
                                        double time_scale);

}  // namespace ashlar::load
