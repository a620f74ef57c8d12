#include "text/jinja/numbers.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

bool IsDigitAt(std::string_view text, std::size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

// Takes the sign at the front of `text` off; true for a minus.
bool TakeSign(std::string_view* text) {
  const bool is_negative = text->starts_with('-');
  if (is_negative || text->starts_with('+')) {
    text->remove_prefix(1);
  }
  return is_negative;
}

}  // namespace

std::optional<Int> ReadInteger(std::string_view text, int base) {
  text = StripRight(StripLeft(text));
  const bool is_negative = TakeSign(&text);
  const char prefix = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int prefix_base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  bool may_be_underscore = false;
  if (prefix_base != 0 && (base == prefix_base || base == 0)) {
    base = prefix_base;
    text.remove_prefix(2);
    may_be_underscore = true;
  }
  base = base == 0 ? 10 : base;
  Int value = 0;
  for (const char c : text) {
    if (c == '_' && may_be_underscore) {
      may_be_underscore = false;
      continue;
    }
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9'           ? c - '0'
                      : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                     : 99;
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value)) {
      return std::nullopt;
    }
    may_be_underscore = true;
  }
  if (text.empty() || text.ends_with('_')) {
    return std::nullopt;
  }
  return is_negative ? -value : value;
}

std::optional<double> ReadDecimal(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::invalid_argument || read.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  if (read.ec == std::errc::result_out_of_range) {
    return std::strtod(std::string(text).c_str(), nullptr);  // the one that says on which side
  }
  return value;
}

std::optional<double> ReadFloat(std::string_view text) {
  text = StripRight(StripLeft(text));
  const bool is_negative = TakeSign(&text);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || !IsDigitAt(text, i - 1) || !IsDigitAt(text, i + 1)) {
      return std::nullopt;
    }
  }
  // from_chars would also take a second sign, and "nan(text)".
  if (digits.starts_with('-') || digits.find('(') != std::string::npos) {
    return std::nullopt;
  }
  const std::optional<double> value = ReadDecimal(digits);
  return value && is_negative ? -*value : value;
}

}  // namespace ashlar::text::jinja
