// From tokens to a Program, by the reference's grammar.
//
// Unknown tags are errors here. Unknown filters and tests too, unless they stand in an `if` that
// may never let them run: then they are errors of the render, as in the reference.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace ashlar::text::jinja {

// Errors: kInvalidArgument, kUnsupported, kResourceExhausted, each with its line.
Result<Program> Parse(std::string_view source, const Limits& limits);

// One parse. Statements are in parser.cc, expressions in expression_parser.cc.
class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits);
  Result<Program> Run();

 private:
  class Level;
  struct Unknown {
    int line;
    std::string what;
  };

  // Tokens.
  const Token& Current() const { return tokens_[position_]; }
  const Token& Peek() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  void Next() { position_ += position_ + 1 < tokens_.size() ? 1 : 0; }
  bool IsName(std::string_view name) const {
    return Current().kind == TokenKind::kName && Current().text == name;
  }
  bool IsOperator(std::string_view op) const {
    return Current().kind == TokenKind::kOperator && Current().text == op;
  }
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view op);
  Status ExpectOperator(std::string_view op);
  Status ExpectName(std::string_view name);
  Status ExpectBlockEnd();
  Result<std::string> ExpectIdentifier();
  Error Unexpected(std::string_view expected) const;
  Error Fail(Error error) const { return AtLine(Current().line, std::move(error)); }
  Result<Level> Enter();
  NameId Intern(std::string_view name);

  // Statements.
  using Ends = std::initializer_list<std::string_view>;
  Result<Block> ParseBlock(Ends ends);  // up to one of `ends`, which is current when it returns
  Result<Block> ParseBody(Ends ends);   // the same, from the end of the opening tag
  Result<Block> ParseLastBody(std::string_view end);  // and past the end's name
  Result<StatementPtr> ParseStatement();
  Result<StatementPtr> ParseIf();
  Result<StatementPtr> ParseFor();
  Result<StatementPtr> ParseSet();
  Result<StatementPtr> ParseMacro();
  Result<StatementPtr> ParseCall();
  Result<StatementPtr> ParseFilterBlock();
  Result<StatementPtr> ParseWith();
  Result<StatementPtr> ParseGeneration();
  Result<StatementPtr> ParseLoopControl();
  Status ParsePrint(Block* block);
  Status ParseSignature(Macro* macro);
  Status ParseMacroBody(Macro* macro, std::string_view end);
  Result<Target> ParseTarget();     // a name, or several
  Result<Target> ParseSetTarget();  // also a namespace's attribute
  Result<Target> ParseSingleTarget();
  StatementPtr MakeStatement(StatementKind kind) const;

  // Expressions. `x if y else z` is not allowed where an `if` of the tag's own may follow.
  enum class Conditionals { kAllowed, kForbidden };
  Result<ExpressionPtr> ParseTuple(Conditionals conditionals, std::string_view end_name = "");
  Result<ExpressionPtr> ParseParenthesized();
  Result<ExpressionPtr> ParseExpression(Conditionals conditionals = Conditionals::kAllowed);
  Result<ExpressionPtr> ParseConditional();
  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  Result<ExpressionPtr> ParseCompare();
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcat();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParseUnary();   // with filters and tests
  Result<ExpressionPtr> ParseSigned();  // without
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseStrings();
  Result<ExpressionPtr> ParseList();
  Result<ExpressionPtr> ParseDict();
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr expression);
  Result<ExpressionPtr> ParseAttribute(ExpressionPtr object);
  Result<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  Result<ExpressionPtr> ParseSlice(ExpressionPtr object, ExpressionPtr first);
  Result<ExpressionPtr> ParseCallOf(ExpressionPtr function);
  Result<ExpressionPtr> ParseFilters(
      ExpressionPtr expression);                           // filters, tests and calls behind it
  Result<ExpressionPtr> ParseFilter(ExpressionPtr input);  // from its name
  Result<ExpressionPtr> ParseTest(ExpressionPtr subject);
  Result<std::unique_ptr<CallArguments>> ParseArguments(int* depth);
  Status ParseArgument(CallArguments* arguments, int* depth);
  Result<std::string> ParseDottedName();
  bool IsTupleEnd(std::string_view end_name) const;
  bool BeginsTestArgument() const;
  ExpressionPtr MakeExpression(ExpressionKind kind, int line) const;
  ExpressionPtr MakeConstant(Value value, int line) const;
  // Adds a child (maybe null) and the depth it brings.
  static void AddChild(Expression* parent, ExpressionPtr child);
  // `expression`, unless it is too deep.
  Result<ExpressionPtr> Checked(ExpressionPtr expression) const;
  // Left-associative `operand (op operand)*`.
  using Operand = Result<ExpressionPtr> (Parser::*)();
  Result<ExpressionPtr> ParseArithmetic(
      Operand operand, std::initializer_list<std::pair<std::string_view, Arithmetic>> operators);

  const std::vector<Token> tokens_;
  const Limits limits_;
  std::size_t position_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  std::map<std::string, NameId, std::less<>> ids_;
  std::vector<std::string> names_;
  std::vector<Unknown> unknown_;  // filters and tests that we do not have
  std::vector<std::string> open_tags_;
};

}  // namespace ashlar::text::jinja
