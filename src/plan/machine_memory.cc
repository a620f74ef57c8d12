#include "plan/machine_memory.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/byte_size.h"

namespace ashlar::plan {
namespace {

constexpr std::size_t kMaxFileBytes = 64 << 10;

// nullopt when it cannot be read. These files are read whole, and have no size to map.
std::optional<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::uint64_t> PhysicalBytes(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const std::optional<std::string> text = ReadSmallFile(path);
  if (!text) return MakeError(ErrorCode::kIo, "cannot read '{}'", path);
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("MemTotal:") || !line.ends_with(" kB")) continue;
    std::string_view number = std::string_view(line).substr(9, line.size() - 9 - 3);
    number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
    const std::optional<std::uint64_t> kib = ParseNumber(number);
    if (kib && *kib > 0 && *kib < (std::uint64_t{1} << 50)) return *kib * kKiB;
  }
  return MakeError(ErrorCode::kCorrupt, "'{}' has no line 'MemTotal: NUMBER kB'", path);
}

class Limits {
 public:
  explicit Limits(std::string root, std::uint64_t physical)
      : root_(std::move(root)), memory_{.bytes = physical, .source = "this machine"} {}

  // The limit in a group's folder and in every one above, up to the hierarchy's own.
  Status Walk(const std::string& hierarchy, std::string group, std::string_view file) {
    for (;;) {
      ASHLAR_TRY(Read(hierarchy + (group == "/" ? "" : group) + "/" + std::string(file)));
      const std::size_t slash = group.rfind('/');
      if (slash == std::string::npos || group == "/" || group.empty()) return {};
      group.resize(slash);
    }
  }

  MachineMemory memory() && { return std::move(memory_); }

 private:
  Status Read(const std::string& path) {
    const std::optional<std::string> text = ReadSmallFile(root_ + path);
    if (!text || text->starts_with("max")) return {};
    const std::optional<std::uint64_t> limit = ParseNumber(*text);
    if (!limit) {
      return MakeError(ErrorCode::kCorrupt, "the memory limit in '{}' is '{}', not a number",
                       root_ + path, text->substr(0, 40));
    }
    // Version 1 says "none" with a number above any machine's memory.
    if (*limit < memory_.bytes) {
      memory_ = {.bytes = *limit, .source = "the control group's limit in " + path};
    }
    return {};
  }

  std::string root_;
  MachineMemory memory_;
};

bool Lists(std::string_view controllers, std::string_view wanted) {
  for (std::size_t at = 0; at <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', at), controllers.size());
    if (controllers.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Result<MachineMemory> ReadMachineMemory(const std::string& root) {
  ASHLAR_ASSIGN(const std::uint64_t physical, PhysicalBytes(root));
  Limits limits(root, physical);
  // "0::/path" (version 2) and "5:cpu,memory:/path" (version 1).
  std::istringstream lines(ReadSmallFile(root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      ASHLAR_TRY(limits.Walk("/sys/fs/cgroup", group, "memory.max"));
      ASHLAR_TRY(limits.Walk("/sys/fs/cgroup/unified", group, "memory.max"));
    } else if (Lists(controllers, "memory")) {
      ASHLAR_TRY(limits.Walk("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return std::move(limits).memory();
}

}  // namespace ashlar::plan
