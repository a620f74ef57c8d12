// Renders a Program. One evaluator is one render, on one thread.
//
// Variables: a `for` body, a macro, a `call`, `filter`, `set` or `with` block each have a scope of
// their own; `if` has not. Names are looked up from the innermost scope outwards, then in the
// context, then among the global functions.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scope.h"

namespace ashlar::text::jinja {

class Evaluator {
 public:
  // All must outlive it. `context` is an object; its members are converted when they are first
  // used.
  Evaluator(const Program& program, const nlohmann::ordered_json& context, Runtime& runtime);

  Result<std::string> Run();

  // The text of a call of a macro; `closure` is the scope it was defined in.
  Result<Value> CallMacro(const Macro& macro, const std::shared_ptr<Scope>& closure,
                          const Arguments& arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class OutputGuard;

  // Statements: evaluator.cc.
  Result<Flow> ExecuteAll(const Block& block);
  Result<Flow> Execute(const Statement& statement);
  Result<Flow> ExecuteNode(const Statement& statement);
  Status Print(const Statement& statement);
  Result<Flow> ExecuteIf(const Statement& statement);
  Status ExecuteSet(const Statement& statement);
  Result<Flow> ExecuteSetBlock(const Statement& statement);
  Result<Flow> ExecuteFilterBlock(const Statement& statement);
  Result<Flow> ExecuteWith(const Statement& statement);
  Result<Flow> ExecuteInScope(const Block& block);
  Status DefineMacro(const Statement& statement);
  Status ExecuteCallBlock(const Statement& statement);
  // Executes `block` in a scope of its own and gives its text instead of printing it.
  Result<Flow> Capture(const Block& block, std::string* text);
  Status Assign(const Target& target, const Value& value);

  // Loops and macros: control.cc.
  Status ExecuteFor(const Statement& statement);
  Status RunLoop(const Statement& statement, const Value& iterable, int depth);
  Result<Value> FilterItems(const Statement& statement, const Value& iterable);
  Result<Flow> RunIteration(const Statement& statement, const std::shared_ptr<Loop>& loop,
                            const Value& item);
  Value MakeMacro(const Macro& macro);
  Status BindParameters(const Macro& macro, const Arguments& arguments);

  // Expressions: expressions.cc.
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateNode(const Expression& expression);
  Result<Value> EvaluateName(NameId name);
  Result<Value> EvaluateList(const Expression& expression);
  Result<Value> EvaluateDict(const Expression& expression);
  Result<Value> EvaluateItem(const Expression& expression);
  Result<Value> EvaluateSlice(const Expression& expression);
  Result<Value> EvaluateCall(const Expression& expression, const Value* caller);
  Result<Value> EvaluateFilter(const Expression& expression);
  Result<Value> EvaluateTest(const Expression& expression);
  Result<Value> EvaluateUnary(const Expression& expression);
  Result<Value> EvaluateArithmetic(const Expression& expression);
  Result<Value> EvaluateConcat(const Expression& expression);
  Result<Value> EvaluateAndOr(const Expression& expression);
  Result<Value> EvaluateCompare(const Expression& expression);
  Result<Value> EvaluateConditional(const Expression& expression);
  Result<Arguments> EvaluateArguments(const CallArguments& call);
  Status AddMoreArguments(const CallArguments& call, Arguments* arguments);

  Error Located(int line, Error error);

  const Program& program_;
  const nlohmann::ordered_json& context_;
  Runtime& runtime_;
  std::vector<std::optional<Value>> globals_;  // by NameId: context and functions, once looked up
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  Value filter_input_;  // the text of a filter block, for the filter without an operand
};

}  // namespace ashlar::text::jinja
