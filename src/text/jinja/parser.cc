#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/parser_level.h"
#include "text/jinja/representation.h"
#include "text/jinja/runtime.h"

namespace ashlar::text::jinja {
namespace {

constexpr std::array<std::string_view, 9> kUnsupportedTags = {
    "block", "extends", "include", "import", "from", "autoescape", "do", "trans", "debug"};

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kString:
      return fmt::format("the string '{}'", Excerpt(token.text));
    default:
      return fmt::format("'{}'", Excerpt(token.text));
  }
}

}  // namespace

Result<Program> Parse(std::string_view source, const Limits& limits) {
  ASHLAR_ASSIGN(std::vector<Token> tokens, Tokenize(source, limits));
  return Parser(std::move(tokens), limits).Run();
}

Parser::Parser(std::vector<Token> tokens, const Limits& limits)
    : tokens_(std::move(tokens)), limits_(limits) {}

Result<Program> Parser::Run() {
  Program program;
  program.loop = Intern("loop");
  program.caller = Intern("caller");
  program.varargs = Intern("varargs");
  program.kwargs = Intern("kwargs");
  ASHLAR_ASSIGN(program.body, ParseBlock({}));
  if (!unknown_.empty()) {
    return AtLine(unknown_.front().line, Unsupported("{}", unknown_.front().what));
  }
  program.names = std::move(names_);
  return program;
}

bool Parser::SkipName(std::string_view name) {
  const bool is_there = IsName(name);
  if (is_there) {
    Next();
  }
  return is_there;
}

bool Parser::SkipOperator(std::string_view op) {
  const bool is_there = IsOperator(op);
  if (is_there) {
    Next();
  }
  return is_there;
}

Error Parser::Unexpected(std::string_view expected) const {
  return Fail(Invalid("unexpected {}, expected {}", Describe(Current()), expected));
}

Status Parser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) {
    return Unexpected(fmt::format("'{}'", op));
  }
  return {};
}

Status Parser::ExpectName(std::string_view name) {
  if (!SkipName(name)) {
    return Unexpected(fmt::format("'{}'", name));
  }
  return {};
}

Status Parser::ExpectBlockEnd() {
  if (Current().kind != TokenKind::kBlockEnd) {
    return Unexpected("'%}'");
  }
  Next();
  return {};
}

Result<std::string> Parser::ExpectIdentifier() {
  if (Current().kind != TokenKind::kName) {
    return Unexpected("a name");
  }
  std::string name = Current().text;
  Next();
  return name;
}

Result<Parser::Level> Parser::Enter() {
  if (depth_ >= limits_.nesting) {
    return Fail(Exhausted("blocks and brackets are nested more than {} deep", limits_.nesting));
  }
  return Level(&depth_);
}

NameId Parser::Intern(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) {
    return found->second;
  }
  const NameId id = static_cast<NameId>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(name, id);
  return id;
}

StatementPtr Parser::MakeStatement(StatementKind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = Current().line;
  return statement;
}

Result<Block> Parser::ParseBlock(Ends ends) {
  ASHLAR_ASSIGN(const Level level, Enter());
  Block block;
  while (Current().kind != TokenKind::kEnd) {
    if (Current().kind == TokenKind::kData) {
      StatementPtr text = MakeStatement(StatementKind::kText);
      text->text = Current().text;
      block.push_back(std::move(text));
      Next();
    } else if (Current().kind == TokenKind::kVariableBegin) {
      StatementPtr print = MakeStatement(StatementKind::kPrint);
      Next();
      ASHLAR_ASSIGN(print->expression, ParseTuple(Conditionals::kAllowed));
      if (Current().kind != TokenKind::kVariableEnd) {
        return Unexpected("'}}'");
      }
      Next();
      block.push_back(std::move(print));
    } else {
      Next();  // {%, the only other token outside tags
      if (std::any_of(ends.begin(), ends.end(),
                      [this](std::string_view end) { return IsName(end); })) {
        return block;
      }
      if (SkipName("print")) {
        ASHLAR_TRY(ParsePrint(&block));
      } else {
        ASHLAR_ASSIGN(StatementPtr statement, ParseStatement());
        block.push_back(std::move(statement));
      }
      ASHLAR_TRY(ExpectBlockEnd());
    }
  }
  if (ends.size() > 0) {
    return Fail(Invalid("unexpected end of the template; '{}' is still open (expected '{}')",
                        open_tags_.back(), fmt::join(ends, "' or '")));
  }
  return block;
}

Result<Block> Parser::ParseBody(Ends ends) {
  SkipOperator(":");
  ASHLAR_TRY(ExpectBlockEnd());
  return ParseBlock(ends);
}

Result<Block> Parser::ParseLastBody(std::string_view end) {
  ASHLAR_ASSIGN(Block body, ParseBody({end}));
  Next();
  return body;
}

Result<StatementPtr> Parser::ParseStatement() {
  if (Current().kind != TokenKind::kName) {
    return Unexpected("the name of a tag");
  }
  using Parse = Result<StatementPtr> (Parser::*)();
  static constexpr std::array<std::pair<std::string_view, Parse>, 10> kTags = {{
      {"if", &Parser::ParseIf},
      {"for", &Parser::ParseFor},
      {"set", &Parser::ParseSet},
      {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCall},
      {"filter", &Parser::ParseFilterBlock},
      {"with", &Parser::ParseWith},
      {"generation", &Parser::ParseGeneration},
      {"break", &Parser::ParseLoopControl},
      {"continue", &Parser::ParseLoopControl},
  }};
  const std::string name = Current().text;
  for (const auto& [tag, parse] : kTags) {
    if (name == tag) {
      open_tags_.push_back(name);
      ASHLAR_ASSIGN(StatementPtr statement, (this->*parse)());
      open_tags_.pop_back();
      return statement;
    }
  }
  if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), name) != kUnsupportedTags.end()) {
    return Fail(
        Unsupported("the tag '{}' is outside the subset of Jinja for chat templates", name));
  }
  if (!open_tags_.empty()) {
    return Fail(Unsupported("unknown tag '{}'; the innermost open block is '{}'", Excerpt(name),
                            open_tags_.back()));
  }
  return Fail(Unsupported("unknown tag '{}'", Excerpt(name)));
}

Status Parser::ParsePrint(Block* block) {
  bool is_first = true;
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!is_first) {
      ASHLAR_TRY(ExpectOperator(","));
    }
    is_first = false;
    StatementPtr print = MakeStatement(StatementKind::kPrint);
    ASHLAR_ASSIGN(print->expression, ParseExpression());
    block->push_back(std::move(print));
  }
  return {};
}

Result<StatementPtr> Parser::ParseIf() {
  const std::size_t known = unknown_.size();
  StatementPtr statement = MakeStatement(StatementKind::kIf);
  bool has_more = true;
  while (has_more) {
    Next();  // if, elif
    ASHLAR_ASSIGN(ExpressionPtr condition, ParseTuple(Conditionals::kForbidden));
    ASHLAR_ASSIGN(Block body, ParseBody({"elif", "else", "endif"}));
    statement->branches.emplace_back(std::move(condition), std::move(body));
    has_more = IsName("elif");
  }
  if (SkipName("else")) {
    ASHLAR_ASSIGN(Block body, ParseLastBody("endif"));
    statement->branches.emplace_back(nullptr, std::move(body));
  } else {
    Next();  // endif
  }
  unknown_.resize(known, {0, ""});
  return statement;
}

Result<StatementPtr> Parser::ParseFor() {
  StatementPtr statement = MakeStatement(StatementKind::kFor);
  Next();
  ASHLAR_ASSIGN(statement->target, ParseTarget());
  ASHLAR_TRY(ExpectName("in"));
  ASHLAR_ASSIGN(statement->expression, ParseTuple(Conditionals::kForbidden, "recursive"));
  if (SkipName("if")) {
    ASHLAR_ASSIGN(statement->condition, ParseExpression());
  }
  statement->is_recursive = SkipName("recursive");
  ++loop_depth_;
  ASHLAR_ASSIGN(statement->body, ParseBody({"endfor", "else"}));
  --loop_depth_;
  if (SkipName("else")) {
    ASHLAR_ASSIGN(statement->else_body, ParseLastBody("endfor"));
  } else {
    Next();  // endfor
  }
  return statement;
}

Result<StatementPtr> Parser::ParseSet() {
  StatementPtr statement = MakeStatement(StatementKind::kSet);
  Next();
  ASHLAR_ASSIGN(statement->target, ParseSetTarget());
  if (SkipOperator("=")) {
    ASHLAR_ASSIGN(statement->expression, ParseTuple(Conditionals::kAllowed));
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  while (SkipOperator("|")) {
    ASHLAR_ASSIGN(statement->expression, ParseFilter(std::move(statement->expression)));
  }
  ASHLAR_ASSIGN(statement->body, ParseLastBody("endset"));
  return statement;
}

Status Parser::ParseSignature(Macro* macro) {
  ASHLAR_TRY(ExpectOperator("("));
  while (!IsOperator(")")) {
    if (!macro->parameters.empty()) {
      ASHLAR_TRY(ExpectOperator(","));
    }
    ASHLAR_ASSIGN(const std::string name, ExpectIdentifier());
    const auto& known = macro->parameter_names;
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      return Fail(Invalid("the parameter '{}' is named twice", Excerpt(name)));
    }
    if (SkipOperator("=")) {
      ASHLAR_ASSIGN(ExpressionPtr value, ParseExpression());
      macro->defaults.push_back(std::move(value));
    } else if (!macro->defaults.empty()) {
      return Fail(
          Invalid("the parameter '{}' needs a default: one before it has one", Excerpt(name)));
    }
    macro->parameters.push_back(Intern(name));
    macro->parameter_names.push_back(name);
  }
  Next();
  return {};
}

Status Parser::ParseMacroBody(Macro* macro, std::string_view end) {
  const int loop_depth = loop_depth_;
  loop_depth_ = 0;
  const std::size_t start = position_;
  ASHLAR_ASSIGN(macro->body, ParseLastBody(end));
  loop_depth_ = loop_depth;
  for (std::size_t i = start; i < position_; ++i) {
    if (tokens_[i].kind == TokenKind::kName) {
      macro->takes_varargs = macro->takes_varargs || tokens_[i].text == "varargs";
      macro->takes_kwargs = macro->takes_kwargs || tokens_[i].text == "kwargs";
      macro->takes_caller = macro->takes_caller || tokens_[i].text == "caller";
    }
  }
  return {};
}

Result<StatementPtr> Parser::ParseMacro() {
  StatementPtr statement = MakeStatement(StatementKind::kMacro);
  Next();
  statement->macro = std::make_unique<Macro>();
  ASHLAR_ASSIGN(statement->macro->name, ExpectIdentifier());
  statement->target.name = Intern(statement->macro->name);
  ASHLAR_TRY(ParseSignature(statement->macro.get()));
  ASHLAR_TRY(ParseMacroBody(statement->macro.get(), "endmacro"));
  return statement;
}

Result<StatementPtr> Parser::ParseCall() {
  StatementPtr statement = MakeStatement(StatementKind::kCallBlock);
  Next();
  statement->macro = std::make_unique<Macro>();
  statement->macro->name = "caller";
  if (IsOperator("(")) {
    ASHLAR_TRY(ParseSignature(statement->macro.get()));
  }
  ASHLAR_ASSIGN(statement->expression, ParseExpression());
  if (statement->expression->kind != ExpressionKind::kCall) {
    return AtLine(statement->line, Invalid("'call' needs a call of a macro behind it"));
  }
  ASHLAR_TRY(ParseMacroBody(statement->macro.get(), "endcall"));
  return statement;
}

Result<StatementPtr> Parser::ParseFilterBlock() {
  StatementPtr statement = MakeStatement(StatementKind::kFilterBlock);
  Next();
  ASHLAR_ASSIGN(statement->expression, ParseFilter(nullptr));
  while (SkipOperator("|")) {
    ASHLAR_ASSIGN(statement->expression, ParseFilter(std::move(statement->expression)));
  }
  ASHLAR_ASSIGN(statement->body, ParseLastBody("endfilter"));
  return statement;
}

Result<StatementPtr> Parser::ParseWith() {
  StatementPtr statement = MakeStatement(StatementKind::kWith);
  Next();
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!statement->assignments.empty()) {
      ASHLAR_TRY(ExpectOperator(","));
    }
    ASHLAR_ASSIGN(Target target, ParseTarget());
    ASHLAR_TRY(ExpectOperator("="));
    ASHLAR_ASSIGN(ExpressionPtr value, ParseExpression());
    statement->assignments.emplace_back(std::move(target), std::move(value));
  }
  ASHLAR_ASSIGN(statement->body, ParseLastBody("endwith"));
  return statement;
}

// `{% generation %}` marks what the assistant said; rendering it is rendering its body.
Result<StatementPtr> Parser::ParseGeneration() {
  StatementPtr statement = MakeStatement(StatementKind::kScope);
  Next();
  const int loop_depth = loop_depth_;
  loop_depth_ = 0;
  ASHLAR_ASSIGN(statement->body, ParseLastBody("endgeneration"));
  loop_depth_ = loop_depth;
  return statement;
}

Result<StatementPtr> Parser::ParseLoopControl() {
  StatementPtr statement =
      MakeStatement(IsName("break") ? StatementKind::kBreak : StatementKind::kContinue);
  if (loop_depth_ == 0) {
    return Fail(Invalid("'{}' outside of a loop", Current().text));
  }
  Next();
  return statement;
}

Result<Target> Parser::ParseSingleTarget() {
  ASHLAR_ASSIGN(const Level level, Enter());
  Target target;
  if (SkipOperator("(")) {
    ASHLAR_ASSIGN(target, ParseTarget());
    ASHLAR_TRY(ExpectOperator(")"));
    return target;
  }
  constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                          "True", "False", "None"};
  if (std::find(kConstants.begin(), kConstants.end(), Current().text) != kConstants.end()) {
    return Unexpected("a name to assign to");
  }
  ASHLAR_ASSIGN(const std::string name, ExpectIdentifier());
  target.name = Intern(name);
  return target;
}

Result<Target> Parser::ParseSetTarget() {
  const bool is_attribute = Current().kind == TokenKind::kName &&
                            Peek().kind == TokenKind::kOperator && Peek().text == ".";
  if (!is_attribute) {
    return ParseTarget();
  }
  ASHLAR_ASSIGN(Target target, ParseSingleTarget());
  Next();  // .
  ASHLAR_ASSIGN(target.attribute, ExpectIdentifier());
  return target;
}

Result<Target> Parser::ParseTarget() {
  ASHLAR_ASSIGN(Target target, ParseSingleTarget());
  if (!IsOperator(",")) {
    return target;
  }
  Target tuple;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(target));
  while (SkipOperator(",")) {
    if (Current().kind != TokenKind::kName && !IsOperator("(")) {
      break;
    }
    if (IsName("in")) {
      break;
    }
    ASHLAR_ASSIGN(Target part, ParseSingleTarget());
    tuple.parts.push_back(std::move(part));
  }
  return tuple;
}

}  // namespace ashlar::text::jinja
