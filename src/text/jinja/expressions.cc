// Expressions of evaluator.h.
#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/globals.h"
#include "text/jinja/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/tests.h"

namespace ashlar::text::jinja {

Result<Value> Evaluator::Evaluate(const Expression& expression) {
  ASHLAR_TRY(runtime_.Spend());
  if (expression.kind == ExpressionKind::kConstant) {
    return expression.value;
  }
  ASHLAR_ASSIGN(const auto level, runtime_.Enter());
  Result<Value> value = EvaluateNode(expression);
  if (!value.ok()) {
    return Located(expression.line, std::move(value).error());
  }
  return value;
}

Result<Value> Evaluator::EvaluateNode(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.value;
    case ExpressionKind::kName:
      return EvaluateName(expression.name);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return EvaluateList(expression);
    case ExpressionKind::kDict:
      return EvaluateDict(expression);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
      return EvaluateItem(expression);
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, nullptr);
    case ExpressionKind::kFilter:
      return EvaluateFilter(expression);
    case ExpressionKind::kTest:
      return EvaluateTest(expression);
    case ExpressionKind::kNot:
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
      return EvaluateUnary(expression);
    case ExpressionKind::kArithmetic:
      return EvaluateArithmetic(expression);
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return EvaluateAndOr(expression);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression);
  }
  return Value::None();
}

Result<Value> Evaluator::EvaluateName(NameId name) {
  if (const Value* value = scope_->Find(name); value != nullptr) {
    return *value;
  }
  std::optional<Value>& global = globals_[static_cast<std::size_t>(name)];
  if (!global) {
    const std::string& text = program_.names[static_cast<std::size_t>(name)];
    const auto found = context_.find(text);
    if (found != context_.end()) {
      ASHLAR_ASSIGN(global, FromJson(runtime_, *found));
    } else if (global = FindGlobal(text); !global) {
      global = Value::MakeUndefined(fmt::format("'{}' is undefined", Excerpt(text)));
    }
  }
  return *global;
}

Result<Value> Evaluator::EvaluateList(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.children.size());
  for (const ExpressionPtr& child : expression.children) {
    ASHLAR_ASSIGN(Value item, Evaluate(*child));
    items.push_back(std::move(item));
  }
  return expression.kind == ExpressionKind::kList ? runtime_.List(std::move(items))
                                                  : runtime_.Tuple(std::move(items));
}

Result<Value> Evaluator::EvaluateDict(const Expression& expression) {
  Entries entries;
  entries.reserve(expression.children.size() / 2);
  for (std::size_t i = 0; i < expression.children.size(); i += 2) {
    ASHLAR_ASSIGN(Value key, Evaluate(*expression.children[i]));
    if (!IsKey(key)) {
      return Unsupported("'{}' as the key of a dict", TypeName(key));
    }
    ASHLAR_ASSIGN(Value value, Evaluate(*expression.children[i + 1]));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return runtime_.MakeDict(std::move(entries));
}

Result<Value> Evaluator::EvaluateItem(const Expression& expression) {
  ASHLAR_ASSIGN(const Value object, Evaluate(*expression.children[0]));
  if (expression.kind == ExpressionKind::kAttribute) {
    return GetAttribute(runtime_, object, expression.text);
  }
  ASHLAR_ASSIGN(const Value key, Evaluate(*expression.children[1]));
  return GetItem(runtime_, object, key);
}

Result<Value> Evaluator::EvaluateSlice(const Expression& expression) {
  ASHLAR_ASSIGN(const Value object, Evaluate(*expression.children[0]));
  SliceBounds bounds;
  Value* const places[] = {&bounds.start, &bounds.stop, &bounds.step};
  for (std::size_t i = 0; i < 3; ++i) {
    if (expression.children[i + 1] != nullptr) {
      ASHLAR_ASSIGN(*places[i], Evaluate(*expression.children[i + 1]));
    }
  }
  return GetSlice(runtime_, object, bounds);
}

Result<Value> Evaluator::EvaluateCall(const Expression& expression, const Value* caller) {
  ASHLAR_ASSIGN(const Value function, Evaluate(*expression.children[0]));
  ASHLAR_ASSIGN(Arguments arguments, EvaluateArguments(*expression.call));
  if (caller != nullptr) {
    arguments.named.emplace_back("caller", *caller);
  }
  ASHLAR_TRY(CheckDefined(function));
  if (!function.IsObject() || !function.object()->IsCallable()) {
    return Invalid("'{}' object is not callable", TypeName(function));
  }
  const std::shared_ptr<Object> object = function.object();  // a macro may overwrite its own name
  return object->Call(runtime_, arguments);
}

Result<Value> Evaluator::EvaluateFilter(const Expression& expression) {
  Value input;
  if (expression.children[0] != nullptr) {
    ASHLAR_ASSIGN(input, Evaluate(*expression.children[0]));
  } else {
    input = std::exchange(filter_input_, Value::None());
  }
  ASHLAR_ASSIGN(const Arguments arguments, EvaluateArguments(*expression.call));
  return CallFilter(runtime_, expression.text, input, arguments);
}

Result<Value> Evaluator::EvaluateTest(const Expression& expression) {
  ASHLAR_ASSIGN(const Value value, Evaluate(*expression.children[0]));
  ASHLAR_ASSIGN(const Arguments arguments, EvaluateArguments(*expression.call));
  ASHLAR_ASSIGN(const bool is_true, CallTest(runtime_, expression.text, value, arguments));
  return Value::Bool(is_true);
}

Result<Value> Evaluator::EvaluateUnary(const Expression& expression) {
  ASHLAR_ASSIGN(const Value value, Evaluate(*expression.children[0]));
  if (expression.kind == ExpressionKind::kNot) {
    return Value::Bool(!IsTrue(value));
  }
  return expression.kind == ExpressionKind::kNegative ? Negate(value) : Positive(value);
}

Result<Value> Evaluator::EvaluateArithmetic(const Expression& expression) {
  ASHLAR_ASSIGN(const Value left, Evaluate(*expression.children[0]));
  ASHLAR_ASSIGN(const Value right, Evaluate(*expression.children[1]));
  return Apply(runtime_, expression.arithmetic, left, right);
}

Result<Value> Evaluator::EvaluateConcat(const Expression& expression) {
  std::string text;
  for (const ExpressionPtr& child : expression.children) {
    ASHLAR_ASSIGN(const Value value, Evaluate(*child));
    ASHLAR_TRY(AppendStr(runtime_, value, &text));
  }
  return runtime_.String(std::move(text));
}

Result<Value> Evaluator::EvaluateAndOr(const Expression& expression) {
  ASHLAR_ASSIGN(Value left, Evaluate(*expression.children[0]));
  if (IsTrue(left) == (expression.kind == ExpressionKind::kOr)) {
    return left;
  }
  return Evaluate(*expression.children[1]);
}

Result<Value> Evaluator::EvaluateCompare(const Expression& expression) {
  ASHLAR_ASSIGN(Value left, Evaluate(*expression.children[0]));
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    ASHLAR_ASSIGN(Value right, Evaluate(*expression.children[i + 1]));
    ASHLAR_ASSIGN(const bool holds, Compare(runtime_, expression.comparisons[i], left, right));
    if (!holds) {
      return Value::Bool(false);
    }
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Evaluator::EvaluateConditional(const Expression& expression) {
  ASHLAR_ASSIGN(const Value condition, Evaluate(*expression.children[0]));
  if (IsTrue(condition)) {
    return Evaluate(*expression.children[1]);
  }
  if (expression.children[2] == nullptr) {
    return Value::MakeUndefined(fmt::format(
        "the inline if-expression on line {} evaluated to false and no else section was defined.",
        expression.line));
  }
  return Evaluate(*expression.children[2]);
}

Result<Arguments> Evaluator::EvaluateArguments(const CallArguments& call) {
  Arguments arguments;
  arguments.positional.reserve(call.positional.size());
  for (const ExpressionPtr& expression : call.positional) {
    ASHLAR_ASSIGN(Value value, Evaluate(*expression));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : call.named) {
    ASHLAR_ASSIGN(Value value, Evaluate(*expression));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call.more_positional != nullptr || call.more_named != nullptr) {
    ASHLAR_TRY(AddMoreArguments(call, &arguments));
  }
  return arguments;
}

Status Evaluator::AddMoreArguments(const CallArguments& call, Arguments* arguments) {
  if (call.more_positional != nullptr) {
    ASHLAR_ASSIGN(const Value value, Evaluate(*call.more_positional));
    ASHLAR_ASSIGN(const std::vector<Value> more, Collect(runtime_, value));
    arguments->positional.insert(arguments->positional.end(), more.begin(), more.end());
  }
  if (call.more_named == nullptr) {
    return {};
  }
  ASHLAR_ASSIGN(const Value value, Evaluate(*call.more_named));
  if (!value.IsDict()) {
    return Invalid("the argument behind ** must be a dict, not '{}'", TypeName(value));
  }
  for (const auto& [name, argument] : value.dict().entries) {
    ASHLAR_TRY(runtime_.Spend(1 + arguments->named.size()));
    const bool is_double = std::any_of(
        arguments->named.begin(), arguments->named.end(),
        [&name](const auto& entry) { return name.IsString() && entry.first == name.bytes(); });
    if (!name.IsString() || is_double) {
      return Invalid("the names of a call's arguments must be strings, and different");
    }
    arguments->named.emplace_back(name.bytes(), argument);
  }
  return {};
}

}  // namespace ashlar::text::jinja
