// Filters that turn a value into another kind of value: numbers, strings, JSON, defaults.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

// int(text, base): spaces around, a sign, single underscores between digits, a prefix of its base.
std::optional<Int> ParseInteger(std::string_view text, int base) {
  text = StripRight(StripLeft(text));
  const bool is_negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) {
    text.remove_prefix(1);
  }
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

// float(text).
std::optional<double> ParseFloat(std::string_view text) {
  text = StripRight(StripLeft(text));
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&text](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return std::nullopt;
    }
  }
  std::string_view rest = digits;
  if (rest.starts_with('+') && !rest.substr(1).starts_with('-')) {
    rest.remove_prefix(1);
  }
  double value = 0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const bool is_whole = read.ptr == rest.data() + rest.size() && !rest.empty() &&
                        rest.find('(') == std::string_view::npos;
  if (!is_whole || read.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (read.ec == std::errc::result_out_of_range) {
    value = rest.find("e-") != std::string_view::npos || rest.find("E-") != std::string_view::npos
                ? 0.0
                : HUGE_VAL;
    return rest.starts_with('-') ? -value : value;
  }
  return value;
}

Result<Value> Truncated(double value) {
  if (!std::isfinite(value)) {
    return Invalid("{} has no integer value", FloatRepr(value));
  }
  if (std::fabs(value) > 1e38) {
    return Unsupported("the integer {} has more than 127 bits", FloatRepr(value));
  }
  return Value::Integer(static_cast<Int>(value));
}

Result<Value> ToInteger(Runtime&, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  const Value otherwise = arguments.Has(0) ? arguments[0] : Value::Integer(0);
  if (input.IsIntegral()) {
    return Value::Integer(input.integer());
  }
  if (input.IsFloat()) {
    return std::isnan(input.real()) ? Result<Value>(otherwise) : Truncated(input.real());
  }
  if (!input.IsString()) {
    return otherwise;
  }
  ASHLAR_ASSIGN(const Int base, arguments.Integer(1, 10));
  if (base == 1 || base < 0 || base > 36) {
    return otherwise;
  }
  if (const std::optional<Int> value = ParseInteger(input.bytes(), static_cast<int>(base))) {
    return Value::Integer(*value);
  }
  const std::optional<double> value = ParseFloat(input.bytes());
  return !value || std::isnan(*value) ? Result<Value>(otherwise) : Truncated(*value);
}

Result<Value> ToFloat(Runtime&, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  if (input.IsNumber()) {
    return Value::Float(input.number());
  }
  const std::optional<double> value = input.IsString() ? ParseFloat(input.bytes()) : std::nullopt;
  return value ? Value::Float(*value) : arguments.Has(0) ? arguments[0] : Value::Float(0);
}

Result<Value> ToStringValue(Runtime& runtime, const Value& input, const BoundArguments&) {
  return ToText(runtime, input);
}

Result<Value> Default(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  if (!input.IsUndefined() && (IsTrue(input) || !arguments.Truth(1, false))) {
    return input;
  }
  return arguments.Has(0) ? Result<Value>(arguments[0]) : runtime.String("");
}

Result<Value> Absolute(Runtime&, const Value& input, const BoundArguments&) {
  ASHLAR_TRY(CheckDefined(input));
  if (!input.IsNumber()) {
    return Invalid("abs() needs a number, not '{}'", TypeName(input));
  }
  if (input.IsFloat()) {
    return Value::Float(std::fabs(input.real()));
  }
  return input.integer() < 0 ? Negate(input) : Value::Integer(input.integer());
}

// round() of Python: to the nearest, halves to even, judged on the exact decimal value.
double RoundHalfEven(double value, int digits) {
  if (digits >= 0) {
    double rounded = 0;
    const std::string text = fmt::format("{:.{}f}", value, std::min(digits, 340));
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, -digits);
  return std::isinf(scale) ? std::copysign(0.0, value) : std::nearbyint(value / scale) * scale;
}

Result<Value> Round(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  ASHLAR_ASSIGN(const Int precision, arguments.Integer(0, 0));
  ASHLAR_ASSIGN(const std::string_view method, arguments.Text(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return Invalid("round(): the method must be 'common', 'ceil' or 'floor', not '{}'",
                   Excerpt(method));
  }
  if (!input.IsNumber()) {
    return Invalid("round() needs a number, not '{}'", TypeName(input));
  }
  if (precision > 400 || precision < -400) {
    return Invalid("round(): a precision of {} digits", precision);
  }
  if (method == "common") {
    if (input.IsIntegral()) {
      return precision >= 0 ? Result<Value>(Value::Integer(input.integer()))
                            : Unsupported("round() of an integer to tens");
    }
    return std::isfinite(input.real())
               ? Value::Float(RoundHalfEven(input.real(), static_cast<int>(precision)))
               : input;
  }
  ASHLAR_ASSIGN(const Value scale,
                Apply(runtime, Arithmetic::kPower, Value::Integer(10), Value::Integer(precision)));
  ASHLAR_ASSIGN(const Value scaled, Apply(runtime, Arithmetic::kMultiply, input, scale));
  const double whole = method == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number());
  return Apply(runtime, Arithmetic::kDivide, Value::Float(whole), scale);
}

Result<Value> ToJson(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  JsonStyle style;
  style.is_ascii = arguments.Truth(0, false);
  if (arguments.HasValue(1)) {
    style.is_indented = true;
    style.item_separator.pop_back();
    if (arguments[1].IsString()) {
      style.indent = arguments[1].bytes();
    } else {
      ASHLAR_ASSIGN(const Int width, arguments.Integer(1, 0));
      if (width > 1000) {
        return Exhausted("tojson(): an indent of {}; at most 1000 is allowed", width);
      }
      style.indent = std::string(width > 0 ? static_cast<std::size_t>(width) : 0, ' ');
    }
  }
  if (arguments.HasValue(2)) {
    const Value& separators = arguments[2];
    const bool is_pair = separators.IsSequence() && separators.items().size() == 2 &&
                         separators.items()[0].IsString() && separators.items()[1].IsString();
    if (!is_pair) {
      return Invalid("tojson(): separators must be two strings, (',', ': ')");
    }
    style.item_separator = separators.items()[0].bytes();
    style.key_separator = separators.items()[1].bytes();
  }
  style.sorts_keys = arguments.Truth(3, false);
  std::string out;
  ASHLAR_TRY(AppendJson(runtime, input, style, &out));
  return runtime.String(std::move(out));
}

Result<Value> Attribute(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const std::string_view name, arguments.Text(0, ""));
  if (input.IsDict() && input.dict().Find(name) != nullptr) {
    // Only attributes: an item of the same name does not count, unless it is also a method.
    ASHLAR_ASSIGN(const Value empty, runtime.MakeDict({}));
    return GetAttribute(runtime, empty, name);
  }
  return GetAttribute(runtime, input, name);
}

Result<Value> Length(Runtime&, const Value& input, const BoundArguments&) {
  const std::optional<std::size_t> length = LengthOf(input);
  if (!length) {
    return Invalid("object of type '{}' has no length", TypeName(input));
  }
  return Value::Integer(static_cast<Int>(*length));
}

constexpr std::array kFilters = {
    Filter{{"abs"}, &Absolute},
    Filter{{"attr", {"name"}, 1}, &Attribute},
    Filter{{"count"}, &Length},
    Filter{{"d", {"default_value", "boolean"}}, &Default},
    Filter{{"default", {"default_value", "boolean"}}, &Default},
    Filter{{"float", {"default"}}, &ToFloat},
    Filter{{"int", {"default", "base"}}, &ToInteger},
    Filter{{"length"}, &Length},
    Filter{{"round", {"precision", "method"}}, &Round},
    Filter{{"string"}, &ToStringValue},
    Filter{{"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}}, &ToJson},
};

}  // namespace

std::span<const Filter> ConversionFilters() { return kFilters; }

}  // namespace ashlar::text::jinja
