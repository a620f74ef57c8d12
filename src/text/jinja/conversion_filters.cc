// Filters that turn a value into another kind of value: numbers, strings, JSON, defaults.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

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
  if (const std::optional<Int> value = ReadInteger(input.bytes(), static_cast<int>(base))) {
    return Value::Integer(*value);
  }
  const std::optional<double> value = ReadFloat(input.bytes());
  return !value || std::isnan(*value) ? Result<Value>(otherwise) : Truncated(*value);
}

Result<Value> ToFloat(Runtime&, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  if (input.IsNumber()) {
    return Value::Float(input.number());
  }
  const std::optional<double> value = input.IsString() ? ReadFloat(input.bytes()) : std::nullopt;
  return value ? Value::Float(*value) : arguments.Has(0) ? arguments[0] : Value::Float(0);
}

Result<Value> ToStringValue(Runtime& runtime, const Value& input, const BoundArguments&) {
  return ToText(runtime, input);
}

Result<Value> Default(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  if (!input.IsUndefined() && (IsTrue(input) || !arguments.Truth(1))) {
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
  style.is_ascii = arguments.Truth(0);
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
  style.sorts_keys = arguments.Truth(3);
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
