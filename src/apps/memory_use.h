// What a loaded model was to take, and what the process took.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "model/weight_access.h"

namespace ashlar::apps {

// In bytes. These three are what is planned: all else (tokenizer, bookkeeping, code) is small.
struct PlannedMemory {
  model::WeightAccess weights = model::WeightAccess::kCopy;
  std::uint64_t weights_bytes = 0;    // what of the file's mapping may be read included
  std::uint64_t kv_bytes = 0;         // the arena: reserved, touched by use
  std::uint64_t workspace_bytes = 0;  // of the forward pass

  std::uint64_t bytes() const { return weights_bytes + kv_bytes + workspace_bytes; }
};

// Beside the peak of what was resident. "weights" is "copy" or "mmap"; "peak_rss_bytes" is null
// where the system does not say.
nlohmann::ordered_json MemoryJson(const PlannedMemory& planned);
// The same for people, in one line.
std::string DescribeMemory(const PlannedMemory& planned);

}  // namespace ashlar::apps
