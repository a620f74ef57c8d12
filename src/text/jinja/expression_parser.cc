// The expressions of parser.h, from the loosest binding to the tightest:
// conditional, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filters and tests.
#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/parser_level.h"
#include "text/jinja/representation.h"
#include "text/jinja/runtime.h"
#include "text/jinja/tests.h"

namespace ashlar::text::jinja {

ExpressionPtr Parser::MakeExpression(ExpressionKind kind, int line) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  return expression;
}

ExpressionPtr Parser::MakeConstant(Value value, int line) const {
  ExpressionPtr constant = MakeExpression(ExpressionKind::kConstant, line);
  constant->value = std::move(value);
  return constant;
}

void Parser::AddChild(Expression* parent, ExpressionPtr child) {
  if (child != nullptr) {
    parent->depth = std::max(parent->depth, child->depth + 1);
  }
  parent->children.push_back(std::move(child));
}

Result<ExpressionPtr> Parser::Checked(ExpressionPtr expression) const {
  if (expression->depth > limits_.nesting) {
    return AtLine(expression->line,
                  Exhausted("an expression is nested more than {} deep", limits_.nesting));
  }
  return expression;
}

bool Parser::IsTupleEnd(std::string_view end_name) const {
  return Current().kind == TokenKind::kVariableEnd || Current().kind == TokenKind::kBlockEnd ||
         IsOperator(")") || (!end_name.empty() && IsName(end_name));
}

Result<ExpressionPtr> Parser::ParseTuple(Conditionals conditionals, std::string_view end_name) {
  const int line = Current().line;
  ASHLAR_ASSIGN(ExpressionPtr first, ParseExpression(conditionals));
  if (!IsOperator(",")) {
    return first;
  }
  ExpressionPtr tuple = MakeExpression(ExpressionKind::kTuple, line);
  AddChild(tuple.get(), std::move(first));
  while (SkipOperator(",") && !IsTupleEnd(end_name)) {
    ASHLAR_ASSIGN(ExpressionPtr item, ParseExpression(conditionals));
    AddChild(tuple.get(), std::move(item));
  }
  return Checked(std::move(tuple));
}

Result<ExpressionPtr> Parser::ParseExpression(Conditionals conditionals) {
  ASHLAR_ASSIGN(const Level level, Enter());
  return conditionals == Conditionals::kAllowed ? ParseConditional() : ParseOr();
}

Result<ExpressionPtr> Parser::ParseConditional() {
  const std::size_t known = unknown_.size();
  const int line = Current().line;
  ASHLAR_ASSIGN(ExpressionPtr expression, ParseOr());
  while (SkipName("if")) {
    ExpressionPtr conditional = MakeExpression(ExpressionKind::kConditional, line);
    ASHLAR_ASSIGN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (SkipName("else")) {
      ASHLAR_ASSIGN(otherwise, ParseExpression());
    }
    AddChild(conditional.get(), std::move(condition));
    AddChild(conditional.get(), std::move(expression));
    AddChild(conditional.get(), std::move(otherwise));
    ASHLAR_ASSIGN(expression, Checked(std::move(conditional)));
    unknown_.resize(known, {0, ""});
  }
  return expression;
}

Result<ExpressionPtr> Parser::ParseOr() {
  ASHLAR_ASSIGN(ExpressionPtr left, ParseAnd());
  while (IsName("or")) {
    ExpressionPtr both = MakeExpression(ExpressionKind::kOr, Current().line);
    Next();
    AddChild(both.get(), std::move(left));
    ASHLAR_ASSIGN(ExpressionPtr right, ParseAnd());
    AddChild(both.get(), std::move(right));
    ASHLAR_ASSIGN(left, Checked(std::move(both)));
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseAnd() {
  ASHLAR_ASSIGN(ExpressionPtr left, ParseNot());
  while (IsName("and")) {
    ExpressionPtr both = MakeExpression(ExpressionKind::kAnd, Current().line);
    Next();
    AddChild(both.get(), std::move(left));
    ASHLAR_ASSIGN(ExpressionPtr right, ParseNot());
    AddChild(both.get(), std::move(right));
    ASHLAR_ASSIGN(left, Checked(std::move(both)));
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseNot() {
  if (!IsName("not")) {
    return ParseCompare();
  }
  ASHLAR_ASSIGN(const Level level, Enter());
  ExpressionPtr inverse = MakeExpression(ExpressionKind::kNot, Current().line);
  Next();
  ASHLAR_ASSIGN(ExpressionPtr operand, ParseNot());
  AddChild(inverse.get(), std::move(operand));
  return Checked(std::move(inverse));
}

Result<ExpressionPtr> Parser::ParseCompare() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  }};
  const int line = Current().line;
  ASHLAR_ASSIGN(ExpressionPtr first, ParseSum());
  ExpressionPtr compare = MakeExpression(ExpressionKind::kCompare, line);
  AddChild(compare.get(), std::move(first));
  while (true) {
    const auto* found = std::find_if(kComparisons.begin(), kComparisons.end(),
                                     [this](const auto& entry) { return IsOperator(entry.first); });
    if (found != kComparisons.end()) {
      Next();
      compare->comparisons.push_back(found->second);
    } else if (SkipName("in")) {
      compare->comparisons.push_back(Comparison::kIn);
    } else if (IsName("not") && Peek().kind == TokenKind::kName && Peek().text == "in") {
      Next();
      Next();
      compare->comparisons.push_back(Comparison::kNotIn);
    } else {
      break;
    }
    ASHLAR_ASSIGN(ExpressionPtr operand, ParseSum());
    AddChild(compare.get(), std::move(operand));
  }
  if (compare->comparisons.empty()) {
    return std::move(compare->children.front());
  }
  return Checked(std::move(compare));
}

Result<ExpressionPtr> Parser::ParseArithmetic(
    Operand operand, std::initializer_list<std::pair<std::string_view, Arithmetic>> operators) {
  ASHLAR_ASSIGN(ExpressionPtr left, (this->*operand)());
  while (true) {
    const auto* found = std::find_if(operators.begin(), operators.end(),
                                     [this](const auto& entry) { return IsOperator(entry.first); });
    if (found == operators.end()) {
      return left;
    }
    ExpressionPtr both = MakeExpression(ExpressionKind::kArithmetic, Current().line);
    both->arithmetic = found->second;
    Next();
    AddChild(both.get(), std::move(left));
    ASHLAR_ASSIGN(ExpressionPtr right, (this->*operand)());
    AddChild(both.get(), std::move(right));
    ASHLAR_ASSIGN(left, Checked(std::move(both)));
  }
}

Result<ExpressionPtr> Parser::ParseSum() {
  return ParseArithmetic(&Parser::ParseConcat,
                         {{"+", Arithmetic::kAdd}, {"-", Arithmetic::kSubtract}});
}

Result<ExpressionPtr> Parser::ParseConcat() {
  const int line = Current().line;
  ASHLAR_ASSIGN(ExpressionPtr first, ParseProduct());
  if (!IsOperator("~")) {
    return first;
  }
  ExpressionPtr concat = MakeExpression(ExpressionKind::kConcat, line);
  AddChild(concat.get(), std::move(first));
  while (SkipOperator("~")) {
    ASHLAR_ASSIGN(ExpressionPtr operand, ParseProduct());
    AddChild(concat.get(), std::move(operand));
  }
  return Checked(std::move(concat));
}

Result<ExpressionPtr> Parser::ParseProduct() {
  return ParseArithmetic(&Parser::ParsePower, {{"*", Arithmetic::kMultiply},
                                               {"/", Arithmetic::kDivide},
                                               {"//", Arithmetic::kFloorDivide},
                                               {"%", Arithmetic::kModulo}});
}

Result<ExpressionPtr> Parser::ParsePower() {
  const int line = Current().line;
  ASHLAR_ASSIGN(ExpressionPtr left, ParseUnary());
  while (SkipOperator("**")) {  // the reference's groups to the left
    ExpressionPtr power = MakeExpression(ExpressionKind::kArithmetic, line);
    power->arithmetic = Arithmetic::kPower;
    AddChild(power.get(), std::move(left));
    ASHLAR_ASSIGN(ExpressionPtr right, ParseUnary());
    AddChild(power.get(), std::move(right));
    ASHLAR_ASSIGN(left, Checked(std::move(power)));
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseUnary() {
  ASHLAR_ASSIGN(ExpressionPtr expression, ParseSigned());
  return ParseFilters(std::move(expression));
}

Result<ExpressionPtr> Parser::ParseSigned() {
  ExpressionPtr expression;
  if (IsOperator("-") || IsOperator("+")) {
    ASHLAR_ASSIGN(const Level level, Enter());
    expression = MakeExpression(
        IsOperator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive, Current().line);
    Next();
    ASHLAR_ASSIGN(ExpressionPtr operand, ParseSigned());
    AddChild(expression.get(), std::move(operand));
    ASHLAR_ASSIGN(expression, Checked(std::move(expression)));
  } else {
    ASHLAR_ASSIGN(expression, ParsePrimary());
  }
  return ParsePostfix(std::move(expression));
}

Result<ExpressionPtr> Parser::ParsePrimary() {
  const Token& token = Current();
  if (token.kind == TokenKind::kName) {
    Next();
    if (token.text == "true" || token.text == "True" || token.text == "false" ||
        token.text == "False") {
      return MakeConstant(Value::Bool(token.text == "true" || token.text == "True"), token.line);
    }
    if (token.text == "none" || token.text == "None") {
      return MakeConstant(Value::None(), token.line);
    }
    ExpressionPtr name = MakeExpression(ExpressionKind::kName, token.line);
    name->name = Intern(token.text);
    return name;
  }
  if (token.kind == TokenKind::kNumber) {
    Next();
    return MakeConstant(token.number, token.line);
  }
  if (token.kind == TokenKind::kString) {
    return ParseStrings();
  }
  if (IsOperator("(")) {
    return ParseParenthesized();
  }
  if (IsOperator("[")) {
    return ParseList();
  }
  if (IsOperator("{")) {
    return ParseDict();
  }
  return Unexpected("an expression");
}

// Strings that stand side by side are one.
Result<ExpressionPtr> Parser::ParseStrings() {
  const int line = Current().line;
  std::string text;
  while (Current().kind == TokenKind::kString) {
    text += Current().text;
    Next();
  }
  return MakeConstant(Value::Constant(std::move(text)), line);
}

Result<ExpressionPtr> Parser::ParseParenthesized() {
  const int line = Current().line;
  Next();
  ExpressionPtr inside;
  if (IsOperator(")")) {
    inside = MakeExpression(ExpressionKind::kTuple, line);
  } else {
    ASHLAR_ASSIGN(inside, ParseTuple(Conditionals::kAllowed));
  }
  ASHLAR_TRY(ExpectOperator(")"));
  return inside;
}

Result<ExpressionPtr> Parser::ParseList() {
  ExpressionPtr list = MakeExpression(ExpressionKind::kList, Current().line);
  Next();
  while (!IsOperator("]")) {
    if (!list->children.empty()) {
      ASHLAR_TRY(ExpectOperator(","));
      if (IsOperator("]")) {
        break;
      }
    }
    ASHLAR_ASSIGN(ExpressionPtr item, ParseExpression());
    AddChild(list.get(), std::move(item));
  }
  Next();
  return Checked(std::move(list));
}

Result<ExpressionPtr> Parser::ParseDict() {
  ExpressionPtr dict = MakeExpression(ExpressionKind::kDict, Current().line);
  Next();
  while (!IsOperator("}")) {
    if (!dict->children.empty()) {
      ASHLAR_TRY(ExpectOperator(","));
      if (IsOperator("}")) {
        break;
      }
    }
    ASHLAR_ASSIGN(ExpressionPtr key, ParseExpression());
    AddChild(dict.get(), std::move(key));
    ASHLAR_TRY(ExpectOperator(":"));
    ASHLAR_ASSIGN(ExpressionPtr value, ParseExpression());
    AddChild(dict.get(), std::move(value));
  }
  Next();
  return Checked(std::move(dict));
}

}  // namespace ashlar::text::jinja
