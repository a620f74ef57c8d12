// What stands behind an expression in parser.h: attributes, subscripts, calls, filters, tests.
#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/parser_level.h"
#include "text/jinja/representation.h"
#include "text/jinja/runtime.h"
#include "text/jinja/tests.h"

namespace ashlar::text::jinja {

Result<ExpressionPtr> Parser::ParsePostfix(ExpressionPtr expression) {
  while (true) {
    if (IsOperator(".")) {
      ASHLAR_ASSIGN(expression, ParseAttribute(std::move(expression)));
    } else if (IsOperator("[")) {
      ASHLAR_ASSIGN(expression, ParseSubscript(std::move(expression)));
    } else if (IsOperator("(")) {
      ASHLAR_ASSIGN(expression, ParseCallOf(std::move(expression)));
    } else {
      return expression;
    }
  }
}

Result<ExpressionPtr> Parser::ParseAttribute(ExpressionPtr object) {
  const int line = Current().line;
  Next();
  const Token& token = Current();
  if (token.kind == TokenKind::kName) {
    ExpressionPtr attribute = MakeExpression(ExpressionKind::kAttribute, line);
    attribute->text = token.text;
    AddChild(attribute.get(), std::move(object));
    Next();
    return Checked(std::move(attribute));
  }
  if (token.kind == TokenKind::kNumber && token.number.IsInt()) {
    ExpressionPtr item = MakeExpression(ExpressionKind::kItem, line);
    AddChild(item.get(), std::move(object));
    AddChild(item.get(), MakeConstant(token.number, token.line));
    Next();
    return Checked(std::move(item));
  }
  return Unexpected("a name or a number behind '.'");
}

Result<ExpressionPtr> Parser::ParseSubscript(ExpressionPtr object) {
  const int line = Current().line;
  Next();
  if (IsOperator(":")) {
    return ParseSlice(std::move(object), nullptr);
  }
  ASHLAR_ASSIGN(ExpressionPtr index, ParseExpression());
  if (IsOperator(":")) {
    return ParseSlice(std::move(object), std::move(index));
  }
  if (IsOperator(",")) {
    return Fail(Unsupported("a subscript of several items"));
  }
  ASHLAR_TRY(ExpectOperator("]"));
  ExpressionPtr item = MakeExpression(ExpressionKind::kItem, line);
  AddChild(item.get(), std::move(object));
  AddChild(item.get(), std::move(index));
  return Checked(std::move(item));
}

Result<ExpressionPtr> Parser::ParseSlice(ExpressionPtr object, ExpressionPtr first) {
  ExpressionPtr slice = MakeExpression(ExpressionKind::kSlice, Current().line);
  AddChild(slice.get(), std::move(object));
  AddChild(slice.get(), std::move(first));
  for (int part = 0; part < 2; ++part) {
    ExpressionPtr bound;
    if (SkipOperator(":") && !IsOperator(":") && !IsOperator("]")) {
      ASHLAR_ASSIGN(bound, ParseExpression());
    }
    AddChild(slice.get(), std::move(bound));
  }
  ASHLAR_TRY(ExpectOperator("]"));
  return Checked(std::move(slice));
}

Result<ExpressionPtr> Parser::ParseCallOf(ExpressionPtr function) {
  ExpressionPtr call = MakeExpression(ExpressionKind::kCall, Current().line);
  AddChild(call.get(), std::move(function));
  ASHLAR_ASSIGN(call->call, ParseArguments(&call->depth));
  return Checked(std::move(call));
}

Result<std::unique_ptr<CallArguments>> Parser::ParseArguments(int* depth) {
  ASHLAR_TRY(ExpectOperator("("));
  auto arguments = std::make_unique<CallArguments>();
  bool is_first = true;
  while (!IsOperator(")")) {
    if (!is_first) {
      ASHLAR_TRY(ExpectOperator(","));
      if (IsOperator(")")) {
        break;
      }
    }
    is_first = false;
    ASHLAR_TRY(ParseArgument(arguments.get(), depth));
  }
  Next();
  return arguments;
}

Status Parser::ParseArgument(CallArguments* arguments, int* depth) {
  const bool has_starred =
      arguments->more_positional != nullptr || arguments->more_named != nullptr;
  ExpressionPtr* place = nullptr;
  if (SkipOperator("*")) {
    place = has_starred ? nullptr : &arguments->more_positional;
  } else if (SkipOperator("**")) {
    place = arguments->more_named != nullptr ? nullptr : &arguments->more_named;
  } else if (Current().kind == TokenKind::kName && Peek().kind == TokenKind::kOperator &&
             Peek().text == "=") {
    const bool is_double =
        std::any_of(arguments->named.begin(), arguments->named.end(),
                    [this](const auto& entry) { return entry.first == Current().text; });
    if (is_double) {
      return Fail(Invalid("the argument '{}' is given twice", Excerpt(Current().text)));
    }
    arguments->named.emplace_back(Current().text, nullptr);
    place = arguments->more_named != nullptr ? nullptr : &arguments->named.back().second;
    Next();
    Next();
  } else if (!has_starred && arguments->named.empty()) {
    place = &arguments->positional.emplace_back();
  }
  if (place == nullptr) {
    return Fail(Invalid("arguments of a call come in the order: positional, named, *more, **more"));
  }
  ASHLAR_ASSIGN(*place, ParseExpression());
  *depth = std::max(*depth, (*place)->depth + 1);
  return {};
}

Result<ExpressionPtr> Parser::ParseFilters(ExpressionPtr expression) {
  while (true) {
    if (SkipOperator("|")) {
      ASHLAR_ASSIGN(expression, ParseFilter(std::move(expression)));
    } else if (IsName("is")) {
      ASHLAR_ASSIGN(expression, ParseTest(std::move(expression)));
    } else if (IsOperator("(")) {
      ASHLAR_ASSIGN(expression, ParseCallOf(std::move(expression)));
    } else {
      return expression;
    }
  }
}

Result<std::string> Parser::ParseDottedName() {
  ASHLAR_ASSIGN(std::string name, ExpectIdentifier());
  while (SkipOperator(".")) {
    ASHLAR_ASSIGN(const std::string part, ExpectIdentifier());
    name += "." + part;
  }
  return name;
}

Result<ExpressionPtr> Parser::ParseFilter(ExpressionPtr input) {
  ExpressionPtr filter = MakeExpression(ExpressionKind::kFilter, Current().line);
  ASHLAR_ASSIGN(filter->text, ParseDottedName());
  AddChild(filter.get(), std::move(input));
  if (IsOperator("(")) {
    ASHLAR_ASSIGN(filter->call, ParseArguments(&filter->depth));
  } else {
    filter->call = std::make_unique<CallArguments>();
  }
  if (!HasFilter(filter->text)) {
    unknown_.push_back({filter->line, UnknownFilter(filter->text)});
  }
  return Checked(std::move(filter));
}

bool Parser::BeginsTestArgument() const {
  switch (Current().kind) {
    case TokenKind::kName:
      return !IsName("else") && !IsName("or") && !IsName("and");
    case TokenKind::kString:
    case TokenKind::kNumber:
      return true;
    default:
      return IsOperator("[") || IsOperator("{");
  }
}

Result<ExpressionPtr> Parser::ParseTest(ExpressionPtr subject) {
  ExpressionPtr test = MakeExpression(ExpressionKind::kTest, Current().line);
  Next();  // is
  const bool is_negated = SkipName("not");
  ASHLAR_ASSIGN(test->text, ParseDottedName());
  AddChild(test.get(), std::move(subject));
  if (IsOperator("(")) {
    ASHLAR_ASSIGN(test->call, ParseArguments(&test->depth));
  } else {
    test->call = std::make_unique<CallArguments>();
    if (BeginsTestArgument()) {
      if (IsName("is")) {
        return Fail(Invalid("tests cannot be chained with 'is'"));
      }
      ASHLAR_ASSIGN(const Level level, Enter());
      ASHLAR_ASSIGN(ExpressionPtr argument, ParsePrimary());
      ASHLAR_ASSIGN(argument, ParsePostfix(std::move(argument)));
      test->depth = std::max(test->depth, argument->depth + 1);
      test->call->positional.push_back(std::move(argument));
    }
  }
  if (!HasTest(test->text)) {
    unknown_.push_back({test->line, UnknownTest(test->text)});
  }
  ASHLAR_ASSIGN(test, Checked(std::move(test)));
  if (!is_negated) {
    return test;
  }
  ExpressionPtr inverse = MakeExpression(ExpressionKind::kNot, test->line);
  AddChild(inverse.get(), std::move(test));
  return Checked(std::move(inverse));
}

}  // namespace ashlar::text::jinja
