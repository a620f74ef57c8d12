#include "apps/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ashlar::apps {
namespace {

Error CannotWrite(const std::string& path) {
  return MakeError(ErrorCode::kIo, "cannot write '{}': {}", path, std::strerror(errno));
}

}  // namespace

Status CheckWritable(const std::string& path) {
  if (path.empty()) return {};
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return CannotWrite(path);
  std::fclose(file);
  return {};
}

Status WriteFile(const std::string& path, std::string_view text) {
  if (path.empty()) return {};
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return CannotWrite(path);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !is_written) return CannotWrite(path);
  return {};
}

}  // namespace ashlar::apps
