// What this process has had in memory, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ashlar {

// The most bytes that were resident at once since the program started, mapped files' pages
// included. nullopt where the system does not say.
std::optional<std::uint64_t> PeakResidentBytes();

// The number of bytes that a line "name: N kB" of /proc/PID/status tells.
std::optional<std::uint64_t> StatusBytes(std::string_view status, std::string_view name);

}  // namespace ashlar
