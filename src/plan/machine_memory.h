// How much memory a process may use here: the machine's, or what its control group (a container's,
// most often) allows.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace ashlar::plan {

struct MachineMemory {
  std::uint64_t bytes = 0;
  std::string source;  // "this machine", "the control group's limit in PATH"
};

// Reads /proc/meminfo and the limits of the process's control group and all above it, of cgroup v1
// and v2 (docs.kernel.org, admin-guide/cgroup-v2 and cgroup-v1/memory); the least of them counts.
// `root` stands before every path, so that tests bring their own. Errors: kIo without
// /proc/meminfo, kCorrupt for a limit that is no number, naming the file.
Result<MachineMemory> ReadMachineMemory(const std::string& root = "");

}  // namespace ashlar::plan
