#include "apps/memory_use.h"

#include <fmt/format.h>

#include <optional>

#include "base/byte_size.h"
#include "base/process_memory.h"

namespace ashlar::apps {

nlohmann::ordered_json MemoryJson(const PlannedMemory& planned) {
  const std::optional<std::uint64_t> peak = PeakResidentBytes();
  return {{"weights", model::NameOf(planned.weights)},
          {"weights_bytes", planned.weights_bytes},
          {"kv_bytes", planned.kv_bytes},
          {"workspace_bytes", planned.workspace_bytes},
          {"planned_bytes", planned.bytes()},
          {"peak_rss_bytes", peak ? nlohmann::ordered_json(*peak) : nlohmann::ordered_json()}};
}

std::string DescribeMemory(const PlannedMemory& planned) {
  const std::optional<std::uint64_t> peak = PeakResidentBytes();
  return fmt::format("peak resident {}; planned {}: weights {} ({}), KV cache {}, workspace {}",
                     peak ? FormatByteSize(*peak) : "unknown", FormatByteSize(planned.bytes()),
                     FormatByteSize(planned.weights_bytes), model::NameOf(planned.weights),
                     FormatByteSize(planned.kv_bytes), FormatByteSize(planned.workspace_bytes));
}

}  // namespace ashlar::apps
