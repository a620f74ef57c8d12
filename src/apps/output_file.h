// Files that a command writes beside its output.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::apps {

// Whether WriteFile could write there: before minutes of work, not after. Nothing of a file that is
// there is lost. An empty path is no file, and fine. Errors: kIo naming the path and the reason.
Status CheckWritable(const std::string& path);
// Replaces what was there. No effect for an empty path. Errors: as CheckWritable.
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace ashlar::apps
