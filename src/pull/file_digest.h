// The digest of a whole file.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace ashlar::pull {

// SHA-256 of a file as 64 lower-case hexadecimal digits. Errors: kIo naming the path.
Result<std::string> Sha256Of(const std::filesystem::path& path);

}  // namespace ashlar::pull
