#include "text/jinja/operators.h"

#include <cmath>

#include "text/jinja/formatting.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"

namespace ashlar::text::jinja {
namespace {

std::string_view Symbol(Arithmetic op) {
  switch (op) {
    case Arithmetic::kAdd:
      return "+";
    case Arithmetic::kSubtract:
      return "-";
    case Arithmetic::kMultiply:
      return "*";
    case Arithmetic::kDivide:
      return "/";
    case Arithmetic::kFloorDivide:
      return "//";
    case Arithmetic::kModulo:
      return "%";
    case Arithmetic::kPower:
      return "**";
  }
  return "?";
}

Error Overflow() { return Unsupported("an integer has more than 127 bits"); }

Result<Value> PowerOfIntegers(Runtime& runtime, Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) {
      return Invalid("0 cannot be raised to a negative power");
    }
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  while (exponent > 0) {
    ASHLAR_TRY(runtime.Spend());
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return Overflow();
    }
  }
  return Value::Integer(result);
}

Result<Value> ApplyToIntegers(Runtime& runtime, Arithmetic op, Int a, Int b) {
  const bool divides =
      op == Arithmetic::kDivide || op == Arithmetic::kFloorDivide || op == Arithmetic::kModulo;
  if (divides && b == 0) {
    return Invalid("division by zero");
  }
  Int result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(Overflow())
                                                   : Value::Integer(result);
    case Arithmetic::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(Overflow())
                                                   : Value::Integer(result);
    case Arithmetic::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(Overflow())
                                                   : Value::Integer(result);
    case Arithmetic::kDivide:
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case Arithmetic::kFloorDivide:
    case Arithmetic::kModulo: {
      if (b == -1) {  // the one division that can overflow
        return op == Arithmetic::kModulo ? Value::Integer(0)
                                         : ApplyToIntegers(runtime, Arithmetic::kSubtract, 0, a);
      }
      const bool rounds_down = a % b != 0 && (a < 0) != (b < 0);
      return Value::Integer(op == Arithmetic::kModulo ? a % b + (rounds_down ? b : 0)
                                                      : a / b - (rounds_down ? 1 : 0));
    }
    case Arithmetic::kPower:
      return PowerOfIntegers(runtime, a, b);
  }
  return Value::None();
}

double FloatModulo(double a, double b) {
  double result = std::fmod(a, b);
  if (result != 0 && (b < 0) != (result < 0)) {
    result += b;
  } else if (result == 0) {
    result = std::copysign(0.0, b);
  }
  return result;
}

Result<Value> ApplyToFloats(Arithmetic op, double a, double b) {
  const bool divides =
      op == Arithmetic::kDivide || op == Arithmetic::kFloorDivide || op == Arithmetic::kModulo;
  if (divides && b == 0) {
    return Invalid("division by zero");
  }
  switch (op) {
    case Arithmetic::kAdd:
      return Value::Float(a + b);
    case Arithmetic::kSubtract:
      return Value::Float(a - b);
    case Arithmetic::kMultiply:
      return Value::Float(a * b);
    case Arithmetic::kDivide:
      return Value::Float(a / b);
    case Arithmetic::kFloorDivide:
      return Value::Float(std::floor((a - FloatModulo(a, b)) / b + 0.5));
    case Arithmetic::kModulo:
      return Value::Float(FloatModulo(a, b));
    case Arithmetic::kPower: {
      if (a == 0 && b < 0) {
        return Invalid("0.0 cannot be raised to a negative power");
      }
      if (a < 0 && std::isfinite(b) && b != std::floor(b)) {
        return Unsupported("a fractional power of a negative number is not a real number");
      }
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        return Invalid("the result of ** is too large for a float");
      }
      return Value::Float(result);
    }
  }
  return Value::None();
}

// str + str; markup escapes what is added to it.
Result<Value> AddStrings(Runtime& runtime, const Value& left, const Value& right) {
  const bool is_markup = left.text().is_markup() || right.text().is_markup();
  ASHLAR_TRY(runtime.CheckStringBytes(left.bytes().size() + right.bytes().size()));
  std::string text =
      is_markup && !left.text().is_markup() ? EscapeHtml(left.bytes()) : left.bytes();
  text += is_markup && !right.text().is_markup() ? EscapeHtml(right.bytes()) : right.bytes();
  return runtime.String(std::move(text), is_markup ? TextKind::kMarkup : TextKind::kPlain);
}

Result<Value> AddSequences(Runtime& runtime, const Value& left, const Value& right) {
  ASHLAR_ASSIGN(std::vector<Value> items, Collect(runtime, left));
  items.insert(items.end(), right.items().begin(), right.items().end());
  return runtime.MakeSequence(std::move(items),
                              left.IsList() ? SequenceKind::kList : SequenceKind::kTuple);
}

Result<Value> Repeat(Runtime& runtime, const Value& value, Int times) {
  times = times < 0 ? 0 : times;
  const std::size_t size =
      value.IsString() ? value.bytes().size() : value.items().size() * sizeof(Value);
  const std::size_t limit =
      value.IsString() ? runtime.limits().string_bytes : runtime.limits().live_bytes;
  if (size > 0 && times > static_cast<Int>(limit / size)) {
    return Exhausted("{} repetitions of {} bytes; at most {} bytes are allowed", times, size,
                     limit);
  }
  ASHLAR_TRY(runtime.SpendBytes(size * static_cast<std::size_t>(size > 0 ? times : 0)));
  if (value.IsString()) {
    std::string text;
    text.reserve(size > 0 ? size * static_cast<std::size_t>(times) : 0);
    for (Int i = 0; i < times && size > 0; ++i) {
      text += value.bytes();
    }
    return runtime.StringLike(value, std::move(text));
  }
  std::vector<Value> items;
  items.reserve(size > 0 ? value.items().size() * static_cast<std::size_t>(times) : 0);
  for (Int i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return runtime.MakeSequence(std::move(items),
                              value.IsList() ? SequenceKind::kList : SequenceKind::kTuple);
}

Result<bool> EqualSequences(Runtime& runtime, const Value& a, const Value& b) {
  if (a.IsList() != b.IsList() || a.items().size() != b.items().size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.items().size(); ++i) {
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, a.items()[i], b.items()[i]));
    if (!is_equal) {
      return false;
    }
  }
  return true;
}

Result<bool> EqualDicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) {
    return false;
  }
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(key);
    if (other == nullptr) {
      return false;
    }
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, value, *other));
    if (!is_equal) {
      return false;
    }
  }
  return true;
}

Result<bool> LessSequence(Runtime& runtime, const Value& a, const Value& b) {
  const std::size_t common = std::min(a.items().size(), b.items().size());
  for (std::size_t i = 0; i < common; ++i) {
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, a.items()[i], b.items()[i]));
    if (!is_equal) {
      return Less(runtime, a.items()[i], b.items()[i]);
    }
  }
  return a.items().size() < b.items().size();
}

}  // namespace

Status CheckDefined(const Value& value) {
  if (value.IsUndefined()) {
    return Invalid("{}", value.undefined().message);
  }
  return {};
}

Result<Value> Apply(Runtime& runtime, Arithmetic op, const Value& left, const Value& right) {
  if (left.IsString() && op == Arithmetic::kModulo) {
    return FormatPercent(runtime, left, right);
  }
  ASHLAR_TRY(CheckDefined(left));
  ASHLAR_TRY(CheckDefined(right));
  if (left.IsNumber() && right.IsNumber()) {
    if (left.IsIntegral() && right.IsIntegral()) {
      return ApplyToIntegers(runtime, op, left.integer(), right.integer());
    }
    return ApplyToFloats(op, left.number(), right.number());
  }
  if (op == Arithmetic::kAdd && left.IsString() && right.IsString()) {
    return AddStrings(runtime, left, right);
  }
  if (op == Arithmetic::kAdd && left.IsSequence() && right.IsSequence() &&
      left.IsList() == right.IsList()) {
    return AddSequences(runtime, left, right);
  }
  if (op == Arithmetic::kMultiply && right.IsIntegral() && (left.IsString() || left.IsSequence())) {
    return Repeat(runtime, left, right.integer());
  }
  if (op == Arithmetic::kMultiply && left.IsIntegral() &&
      (right.IsString() || right.IsSequence())) {
    return Repeat(runtime, right, left.integer());
  }
  return Invalid("unsupported operand types for {}: '{}' and '{}'", Symbol(op), TypeName(left),
                 TypeName(right));
}

Result<Value> Negate(const Value& value) {
  ASHLAR_TRY(CheckDefined(value));
  if (value.IsFloat()) {
    return Value::Float(-value.real());
  }
  if (!value.IsIntegral()) {
    return Invalid("bad operand type for unary -: '{}'", TypeName(value));
  }
  Int result = 0;
  return __builtin_sub_overflow(Int{0}, value.integer(), &result) ? Result<Value>(Overflow())
                                                                  : Value::Integer(result);
}

Result<Value> Positive(const Value& value) {
  ASHLAR_TRY(CheckDefined(value));
  if (!value.IsNumber()) {
    return Invalid("bad operand type for unary +: '{}'", TypeName(value));
  }
  return value.IsFloat() ? value : Value::Integer(value.integer());
}

Result<bool> Equal(Runtime& runtime, const Value& a, const Value& b) {
  ASHLAR_TRY(runtime.Spend());
  if (a.IsNumber() && b.IsNumber()) {
    return CompareNumbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      ASHLAR_TRY(runtime.SpendBytes(std::min(a.bytes().size(), b.bytes().size())));
      return a.bytes() == b.bytes();
    case Kind::kSequence: {
      ASHLAR_ASSIGN(const auto level, runtime.Enter());
      return EqualSequences(runtime, a, b);
    }
    case Kind::kDict: {
      ASHLAR_ASSIGN(const auto level, runtime.Enter());
      return EqualDicts(runtime, a.dict(), b.dict());
    }
    default:
      return a.IsSameAs(b);
  }
}

Result<bool> Less(Runtime& runtime, const Value& a, const Value& b) {
  ASHLAR_TRY(runtime.Spend());
  ASHLAR_TRY(CheckDefined(a));
  ASHLAR_TRY(CheckDefined(b));
  if (a.IsNumber() && b.IsNumber()) {
    return CompareNumbers(a, b) < 0;
  }
  if (a.IsString() && b.IsString()) {
    return a.bytes() < b.bytes();  // the order of UTF-8 is the order of code points
  }
  if (a.IsSequence() && b.IsSequence() && a.IsList() == b.IsList()) {
    ASHLAR_ASSIGN(const auto level, runtime.Enter());
    return LessSequence(runtime, a, b);
  }
  return Invalid("'<' is not supported between instances of '{}' and '{}'", TypeName(a),
                 TypeName(b));
}

Result<bool> Compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return Equal(runtime, a, b);
    case Comparison::kNotEqual: {
      ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, a, b));
      return !is_equal;
    }
    case Comparison::kLess:
      return Less(runtime, a, b);
    case Comparison::kGreater:
      return Less(runtime, b, a);
    case Comparison::kLessEqual:
    case Comparison::kGreaterEqual: {
      const bool swaps = comparison == Comparison::kGreaterEqual;
      ASHLAR_ASSIGN(const bool is_less, swaps ? Less(runtime, b, a) : Less(runtime, a, b));
      return is_less ? Result<bool>(true) : Equal(runtime, a, b);
    }
    case Comparison::kIn:
      return Contains(runtime, b, a);
    case Comparison::kNotIn: {
      ASHLAR_ASSIGN(const bool is_in, Contains(runtime, b, a));
      return !is_in;
    }
  }
  return false;
}

Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.IsString()) {
    if (!item.IsString()) {
      return Invalid("'in' on a string needs a string on its left, not '{}'", TypeName(item));
    }
    ASHLAR_TRY(runtime.SpendBytes(container.bytes().size()));
    return FindText(container.bytes(), item.bytes()) != std::string::npos;
  }
  if (container.IsDict()) {
    if (!IsKey(item)) {
      return item.IsUndefined() ? Result<bool>(false)
                                : Invalid("'{}' cannot be a key of a dict", TypeName(item));
    }
    return container.dict().Find(item) != nullptr;
  }
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime, container));
  while (true) {
    ASHLAR_ASSIGN(const std::optional<Value> candidate, iterator->Next(runtime));
    if (!candidate) {
      return false;
    }
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, *candidate, item));
    if (is_equal) {
      return true;
    }
  }
}

}  // namespace ashlar::text::jinja
