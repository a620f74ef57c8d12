#include "gguf/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace ashlar::gguf {
namespace {

constexpr std::size_t kQuotedBytes = 64;

// The length of the code point that starts `text`, or 0 when none does (Unicode 15, table 3-7: no
// overlong forms, no surrogates, nothing above U+10FFFF). Precondition: !text.empty().
std::size_t CodePointBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto is_between = [](unsigned value, unsigned low, unsigned high) {
    return value >= low && value <= high;
  };
  const auto continues = [&](std::size_t i) { return is_between(byte(i), 0x80, 0xBF); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (is_between(lead, 0xC2, 0xDF)) return continues(1) ? 2 : 0;
  if (is_between(lead, 0xE0, 0xEF)) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return is_between(byte(1), low, high) && continues(2) ? 3 : 0;
  }
  if (is_between(lead, 0xF0, 0xF4)) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return is_between(byte(1), low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

struct Describer {
  std::string operator()(std::uint64_t value) const {
    return fmt::format("the unsigned integer {}", value);
  }
  std::string operator()(std::int64_t value) const { return fmt::format("the integer {}", value); }
  std::string operator()(double value) const { return fmt::format("the number {}", value); }
  std::string operator()(bool value) const { return fmt::format("the boolean {}", value); }
  std::string operator()(std::string_view value) const {
    return fmt::format("the string {}", Quote(value));
  }
  std::string operator()(const Array& array) const {
    constexpr std::string_view kinds[] = {"integers", "numbers", "strings"};
    return fmt::format("an array of {} {}", array.size(), kinds[array.elements.index()]);
  }
};

}  // namespace

std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      quoted += c;
    } else {
      fmt::format_to(std::back_inserter(quoted), "\\x{:02x}", byte);
    }
  }
  return quoted + (text.size() > kQuotedBytes ? "...'" : "'");
}

std::string Describe(const Value& value) { return std::visit(Describer(), value); }

std::string DescribeDims(std::span<const std::uint64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::optional<std::string_view> FaultOfName(std::string_view name) {
  if (name.empty()) return "is empty";
  const auto is_control = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; };
  if (std::ranges::any_of(name, is_control)) return "contains a control character";
  while (!name.empty()) {
    const std::size_t bytes = CodePointBytes(name);
    if (bytes == 0) return "is not UTF-8";
    name.remove_prefix(bytes);
  }
  return std::nullopt;
}

}  // namespace ashlar::gguf
