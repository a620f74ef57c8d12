// The names of a split file's parts: "model-00001-of-00003.gguf" to "model-00003-of-00003.gguf".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::gguf {

struct SplitName {
  std::string prefix;        // folder and name, up to "-00001-of-00003.gguf"
  std::uint32_t number = 0;  // from 1
  std::uint32_t count = 0;
};

// nullopt when `path` is not such a name (five digits each, 1 <= number <= count).
std::optional<SplitName> ParseSplitName(std::string_view path);

std::string FormatSplitName(const SplitName& name);

}  // namespace ashlar::gguf
