#include "gguf/split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ashlar::gguf {
namespace {

// The end of a part's name, read by position.
constexpr std::string_view kForm = "-NNNNN-of-NNNNN.gguf";

// Five digits as a number.
std::optional<std::uint32_t> ParseFiveDigits(std::string_view text) {
  std::uint32_t value = 0;
  if (text.size() != 5 || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<SplitName> ParseSplitName(std::string_view path) {
  if (path.size() < kForm.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kForm.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  const auto number = ParseFiveDigits(tail.substr(1, 5));
  const auto count = ParseFiveDigits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - kForm.size())), *number, *count};
}

std::string FormatSplitName(const SplitName& name) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, name.number, name.count);
}

}  // namespace ashlar::gguf
