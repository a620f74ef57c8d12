#include "base/process_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace ashlar {

std::optional<std::uint64_t> PeakResidentBytes() {
  // Not getrusage: its peak begins with that of the process that started this one.
  std::ostringstream status;
  status << std::ifstream("/proc/self/status").rdbuf();
  return StatusBytes(status.str(), "VmHWM");
}

std::optional<std::uint64_t> StatusBytes(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::size_t end = status.find('\n');
    std::string_view line = status.substr(0, end);
    status = end == std::string_view::npos ? "" : status.substr(end + 1);
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(':')) continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    std::uint64_t kilobytes = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), kilobytes);
    if (error != std::errc() || std::string_view(rest, line.data() + line.size()) != " kB") {
      return std::nullopt;
    }
    return kilobytes * 1024;
  }
  return std::nullopt;
}

}  // namespace ashlar
