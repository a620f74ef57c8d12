#include "text/jinja/representation.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

constexpr std::size_t kExcerptChars = 60;

void AppendStringRepr(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  *out += quote;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    if (c == '\\' || c == static_cast<unsigned char>(quote)) {
      *out += '\\';
      *out += static_cast<char>(c);
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\r') {
      *out += "\\r";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (IsPrintable(c)) {
      *out += text.substr(start, pos - start);
    } else if (c < 0x100) {
      *out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    } else if (c < 0x10000) {
      *out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      *out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
    }
  }
  *out += quote;
}

Status AppendSequenceRepr(Runtime& runtime, const Value& value, std::string* out) {
  *out += value.IsList() ? '[' : '(';
  std::string_view separator;
  for (const Value& item : value.items()) {
    *out += separator;
    separator = ", ";
    ASHLAR_TRY(AppendRepr(runtime, item, out));
  }
  if (value.IsTuple() && value.items().size() == 1) {
    *out += ',';
  }
  *out += value.IsList() ? ']' : ')';
  return {};
}

Status AppendDictRepr(Runtime& runtime, const Value& value, std::string* out) {
  *out += '{';
  std::string_view separator;
  for (const auto& [key, item] : value.dict().entries) {
    *out += separator;
    separator = ", ";
    ASHLAR_TRY(AppendRepr(runtime, key, out));
    *out += ": ";
    ASHLAR_TRY(AppendRepr(runtime, item, out));
  }
  *out += '}';
  return {};
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  // d.ddde[+-]xx with the fewest digits; Python writes it out for exponents in [-4, 16).
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view written(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = written.find('e');
  int exponent = 0;
  const std::size_t exponent_start = e + (written[e + 1] == '+' ? 2 : 1);
  std::from_chars(written.data() + exponent_start, written.data() + written.size(), exponent);
  std::string digits;
  for (const char c : written.substr(0, e)) {
    if (c >= '0' && c <= '9') {
      digits += c;
    }
  }
  const std::string sign = written.front() == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], fraction, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

Status AppendRepr(Runtime& runtime, const Value& value, std::string* out) {
  ASHLAR_TRY(runtime.Spend());
  ASHLAR_TRY(runtime.CheckStringBytes(out->size()));
  switch (value.kind()) {
    case Kind::kUndefined:
      *out += "Undefined";
      return {};
    case Kind::kNone:
      *out += "None";
      return {};
    case Kind::kBool:
      *out += value.boolean() ? "True" : "False";
      return {};
    case Kind::kInt:
      *out += fmt::format("{}", value.integer());
      return {};
    case Kind::kFloat:
      *out += FloatRepr(value.real());
      return {};
    case Kind::kString: {
      ASHLAR_TRY(runtime.SpendBytes(value.bytes().size()));
      *out += value.text().is_markup() ? "Markup(" : "";
      AppendStringRepr(value.bytes(), out);
      *out += value.text().is_markup() ? ")" : "";
      return {};
    }
    case Kind::kSequence: {
      ASHLAR_ASSIGN(const auto level, runtime.Enter());
      return AppendSequenceRepr(runtime, value, out);
    }
    case Kind::kDict: {
      ASHLAR_ASSIGN(const auto level, runtime.Enter());
      return AppendDictRepr(runtime, value, out);
    }
    case Kind::kObject: {
      ASHLAR_ASSIGN(const auto level, runtime.Enter());
      ASHLAR_ASSIGN(const std::string text, value.object()->Represent(runtime));
      *out += text;
      return {};
    }
  }
  return {};
}

Status AppendStr(Runtime& runtime, const Value& value, std::string* out) {
  if (value.IsUndefined()) {
    return {};
  }
  if (value.IsString()) {
    ASHLAR_TRY(runtime.SpendBytes(value.bytes().size()));
    ASHLAR_TRY(runtime.CheckStringBytes(out->size() + value.bytes().size()));
    *out += value.bytes();
    return {};
  }
  ASHLAR_TRY(AppendRepr(runtime, value, out));
  return runtime.CheckStringBytes(out->size());
}

Result<std::string> Str(Runtime& runtime, const Value& value) {
  std::string out;
  ASHLAR_TRY(AppendStr(runtime, value, &out));
  return out;
}

Result<Value> ToText(Runtime& runtime, const Value& value) {
  if (value.IsString()) {
    return value;
  }
  ASHLAR_ASSIGN(std::string text, Str(runtime, value));
  return runtime.String(std::move(text));
}

std::string Excerpt(std::string_view text) {
  const std::size_t end = ByteOffset(text, kExcerptChars);
  return end == text.size() ? std::string(text) : std::string(text.substr(0, end)) + "...";
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace ashlar::text::jinja
