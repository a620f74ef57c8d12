#include "text/jinja/evaluator.h"

#include "text/jinja/evaluator_guards.h"
#include "text/jinja/lexer.h"
#include "text/jinja/objects.h"
#include "text/jinja/representation.h"

namespace ashlar::text::jinja {

Evaluator::Evaluator(const Program& program, const nlohmann::ordered_json& context,
                     Runtime& runtime)
    : program_(program), context_(context), runtime_(runtime), globals_(program.names.size()) {}

Result<std::string> Evaluator::Run() {
  if (!context_.is_object()) {
    return Invalid("the context of a template must be an object, not {}", context_.type_name());
  }
  std::string text;
  scope_ = std::make_shared<Scope>(nullptr);
  out_ = &text;
  ASHLAR_TRY(ExecuteAll(program_.body));
  return text;
}

Error Evaluator::Located(int line, Error error) {
  if (runtime_.is_error_located) {
    return error;
  }
  runtime_.is_error_located = true;
  return AtLine(line, std::move(error));
}

Result<Evaluator::Flow> Evaluator::ExecuteAll(const Block& block) {
  for (const StatementPtr& statement : block) {
    ASHLAR_ASSIGN(const Flow flow, Execute(*statement));
    if (flow != Flow::kNext) {
      return flow;
    }
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::Execute(const Statement& statement) {
  ASHLAR_TRY(runtime_.Spend());
  if (statement.kind == StatementKind::kText) {
    ASHLAR_TRY(runtime_.SpendBytes(statement.text.size()));
    *out_ += statement.text;
    ASHLAR_TRY(runtime_.CheckStringBytes(out_->size()));
    return Flow::kNext;
  }
  ASHLAR_ASSIGN(const auto level, runtime_.Enter());
  Result<Flow> flow = ExecuteNode(statement);
  if (!flow.ok()) {
    return Located(statement.line, std::move(flow).error());
  }
  return flow;
}

Result<Evaluator::Flow> Evaluator::ExecuteNode(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText:
      return Flow::kNext;
    case StatementKind::kPrint:
      ASHLAR_TRY(Print(statement));
      return Flow::kNext;
    case StatementKind::kIf:
      return ExecuteIf(statement);
    case StatementKind::kFor:
      ASHLAR_TRY(ExecuteFor(statement));
      return Flow::kNext;
    case StatementKind::kSet:
      ASHLAR_TRY(ExecuteSet(statement));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(statement);
    case StatementKind::kMacro:
      ASHLAR_TRY(DefineMacro(statement));
      return Flow::kNext;
    case StatementKind::kCallBlock:
      ASHLAR_TRY(ExecuteCallBlock(statement));
      return Flow::kNext;
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(statement);
    case StatementKind::kWith:
      return ExecuteWith(statement);
    case StatementKind::kScope:
      return ExecuteInScope(statement.body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Evaluator::Print(const Statement& statement) {
  ASHLAR_ASSIGN(const Value value, Evaluate(*statement.expression));
  return AppendStr(runtime_, value, out_);
}

Result<Evaluator::Flow> Evaluator::ExecuteIf(const Statement& statement) {
  for (const auto& [condition, block] : statement.branches) {
    bool is_taken = condition == nullptr;
    if (!is_taken) {
      ASHLAR_ASSIGN(const Value value, Evaluate(*condition));
      is_taken = IsTrue(value);
    }
    if (is_taken) {
      return ExecuteAll(block);
    }
  }
  return Flow::kNext;
}

Status Evaluator::ExecuteSet(const Statement& statement) {
  ASHLAR_ASSIGN(const Value value, Evaluate(*statement.expression));
  return Assign(statement.target, value);
}

Result<Evaluator::Flow> Evaluator::Capture(const Block& block, std::string* text) {
  const OutputGuard output(this, text);
  const ScopeGuard scope(this, std::make_shared<Scope>(scope_));
  return ExecuteAll(block);
}

Result<Evaluator::Flow> Evaluator::ExecuteSetBlock(const Statement& statement) {
  std::string text;
  ASHLAR_ASSIGN(const Flow flow, Capture(statement.body, &text));
  if (flow != Flow::kNext) {
    return flow;
  }
  ASHLAR_ASSIGN(Value value, runtime_.String(std::move(text)));
  if (statement.expression != nullptr) {
    filter_input_ = std::move(value);
    ASHLAR_ASSIGN(value, Evaluate(*statement.expression));
  }
  ASHLAR_TRY(Assign(statement.target, value));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::ExecuteFilterBlock(const Statement& statement) {
  std::string text;
  ASHLAR_ASSIGN(const Flow flow, Capture(statement.body, &text));
  if (flow != Flow::kNext) {
    return flow;
  }
  ASHLAR_ASSIGN(filter_input_, runtime_.String(std::move(text)));
  ASHLAR_ASSIGN(const Value value, Evaluate(*statement.expression));
  ASHLAR_TRY(AppendStr(runtime_, value, out_));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, expression] : statement.assignments) {
    ASHLAR_ASSIGN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(this, std::make_shared<Scope>(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASHLAR_TRY(Assign(statement.assignments[i].first, values[i]));
  }
  return ExecuteAll(statement.body);
}

Result<Evaluator::Flow> Evaluator::ExecuteInScope(const Block& block) {
  const ScopeGuard scope(this, std::make_shared<Scope>(scope_));
  return ExecuteAll(block);
}

Status Evaluator::DefineMacro(const Statement& statement) {
  scope_->Set(statement.target.name, MakeMacro(*statement.macro));
  return {};
}

Status Evaluator::ExecuteCallBlock(const Statement& statement) {
  const Value caller = MakeMacro(*statement.macro);
  ASHLAR_ASSIGN(const Value value, EvaluateCall(*statement.expression, &caller));
  return AppendStr(runtime_, value, out_);
}

Status Evaluator::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    ASHLAR_ASSIGN(const std::vector<Value> values, Collect(runtime_, value));
    if (values.size() != target.parts.size()) {
      return Invalid("{} values cannot be assigned to {} names", values.size(),
                     target.parts.size());
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASHLAR_TRY(Assign(target.parts[i], values[i]));
    }
    return {};
  }
  if (target.attribute.empty()) {
    scope_->Set(target.name, value);
    return {};
  }
  ASHLAR_ASSIGN(const Value object, EvaluateName(target.name));
  auto* name_space = object.IsObject() ? dynamic_cast<Namespace*>(object.object().get()) : nullptr;
  if (name_space == nullptr) {
    return Invalid("cannot assign attribute on non-namespace object of type '{}'",
                   TypeName(object));
  }
  return name_space->Set(runtime_, target.attribute, value);
}

}  // namespace ashlar::text::jinja
