#include "text/jinja/tests.h"

#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"

namespace ashlar::text::jinja {
namespace {

using Body = Result<bool> (*)(Runtime&, const Value& value, const Value& argument);

struct Test {
  std::string_view name;
  int arguments;  // 0 or 1
  Body body;
};

template <bool (Value::*kIs)() const>
Result<bool> IsKind(Runtime&, const Value& value, const Value&) {
  return (value.*kIs)();
}

template <bool kValue>
Result<bool> IsConstant(Runtime&, const Value& value, const Value&) {
  return value.IsBool() && value.boolean() == kValue;
}

template <Comparison kComparison>
Result<bool> IsComparison(Runtime& runtime, const Value& value, const Value& argument) {
  return Compare(runtime, kComparison, value, argument);
}

Result<bool> IsDefined(Runtime&, const Value& value, const Value&) { return !value.IsUndefined(); }

Result<bool> IsDivisible(Runtime& runtime, const Value& value, const Value& divisor,
                         Int remainder) {
  ASHLAR_ASSIGN(const Value rest, Apply(runtime, Arithmetic::kModulo, value, divisor));
  return Equal(runtime, rest, Value::Integer(remainder));
}

Result<bool> IsDivisibleBy(Runtime& runtime, const Value& value, const Value& divisor) {
  return IsDivisible(runtime, value, divisor, 0);
}

template <Int kRemainder>
Result<bool> IsOddOrEven(Runtime& runtime, const Value& value, const Value&) {
  return IsDivisible(runtime, value, Value::Integer(2), kRemainder);
}

Result<bool> IsCallable(Runtime&, const Value& value, const Value&) {
  return value.IsUndefined() || (value.IsObject() && value.object()->IsCallable());
}

Result<bool> IsIterable(Runtime& runtime, const Value& value, const Value&) {
  if (value.IsUndefined() || value.IsString() || value.IsSequence() || value.IsDict()) {
    return true;
  }
  if (!value.IsObject()) {
    return false;
  }
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, value.object()->Iterate(runtime));
  return iterator != nullptr || value.object()->IsIndexable();
}

Result<bool> IsSequenceLike(Runtime&, const Value& value, const Value&) {
  return value.IsUndefined() || value.IsString() || value.IsSequence() || value.IsDict() ||
         (value.IsObject() && value.object()->IsIndexable());
}

Result<bool> IsSameAs(Runtime&, const Value& value, const Value& other) {
  return value.IsSameAs(other);
}

Result<bool> IsEscaped(Runtime&, const Value& value, const Value&) {
  return value.IsString() && value.text().is_markup();
}

Result<bool> IsIn(Runtime& runtime, const Value& value, const Value& container) {
  return Contains(runtime, container, value);
}

template <bool (*kTest)(std::string_view)>
Result<bool> IsCase(Runtime& runtime, const Value& value, const Value&) {
  ASHLAR_ASSIGN(const std::string text, Str(runtime, value));
  return kTest(text);
}

Result<bool> IsFilterName(Runtime&, const Value& value, const Value&) {
  return value.IsString() && HasFilter(value.bytes());
}

Result<bool> IsTestName(Runtime&, const Value& value, const Value&) {
  return value.IsString() && HasTest(value.bytes());
}

constexpr std::array<Test, 39> kTests = {{
    {"!=", 1, &IsComparison<Comparison::kNotEqual>},
    {"<", 1, &IsComparison<Comparison::kLess>},
    {"<=", 1, &IsComparison<Comparison::kLessEqual>},
    {"==", 1, &IsComparison<Comparison::kEqual>},
    {">", 1, &IsComparison<Comparison::kGreater>},
    {">=", 1, &IsComparison<Comparison::kGreaterEqual>},
    {"boolean", 0, &IsKind<&Value::IsBool>},
    {"callable", 0, &IsCallable},
    {"defined", 0, &IsDefined},
    {"divisibleby", 1, &IsDivisibleBy},
    {"eq", 1, &IsComparison<Comparison::kEqual>},
    {"equalto", 1, &IsComparison<Comparison::kEqual>},
    {"escaped", 0, &IsEscaped},
    {"even", 0, &IsOddOrEven<0>},
    {"false", 0, &IsConstant<false>},
    {"filter", 0, &IsFilterName},
    {"float", 0, &IsKind<&Value::IsFloat>},
    {"ge", 1, &IsComparison<Comparison::kGreaterEqual>},
    {"greaterthan", 1, &IsComparison<Comparison::kGreater>},
    {"gt", 1, &IsComparison<Comparison::kGreater>},
    {"in", 1, &IsIn},
    {"integer", 0, &IsKind<&Value::IsInt>},
    {"iterable", 0, &IsIterable},
    {"le", 1, &IsComparison<Comparison::kLessEqual>},
    {"lessthan", 1, &IsComparison<Comparison::kLess>},
    {"lower", 0, &IsCase<&IsLowerText>},
    {"lt", 1, &IsComparison<Comparison::kLess>},
    {"mapping", 0, &IsKind<&Value::IsDict>},
    {"ne", 1, &IsComparison<Comparison::kNotEqual>},
    {"none", 0, &IsKind<&Value::IsNone>},
    {"number", 0, &IsKind<&Value::IsNumber>},
    {"odd", 0, &IsOddOrEven<1>},
    {"sameas", 1, &IsSameAs},
    {"sequence", 0, &IsSequenceLike},
    {"string", 0, &IsKind<&Value::IsString>},
    {"test", 0, &IsTestName},
    {"true", 0, &IsConstant<true>},
    {"undefined", 0, &IsKind<&Value::IsUndefined>},
    {"upper", 0, &IsCase<&IsUpperText>},
}};

const Test* FindTest(std::string_view name) {
  const auto* found = std::find_if(kTests.begin(), kTests.end(),
                                   [name](const Test& test) { return test.name == name; });
  return found != kTests.end() ? found : nullptr;
}

}  // namespace

bool HasTest(std::string_view name) { return FindTest(name) != nullptr; }

std::string UnknownTest(std::string_view name) {
  return fmt::format("unknown test '{}'", Excerpt(name));
}

Result<bool> CallTest(Runtime& runtime, std::string_view name, const Value& value,
                      const Arguments& arguments) {
  const Test* test = FindTest(name);
  if (test == nullptr) {
    return Unsupported("{}", UnknownTest(name));
  }
  Signature signature{test->name, {}, test->arguments};
  signature.parameters[0] = test->arguments > 0 ? "other" : "";
  ASHLAR_ASSIGN(const BoundArguments bound, BoundArguments::Bind(signature, arguments));
  return test->body(runtime, value, bound.OrNone(0));
}

}  // namespace ashlar::text::jinja
