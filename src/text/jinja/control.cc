// Loops and macros of evaluator.h.
#include <algorithm>
#include <array>

#include "text/jinja/evaluator.h"
#include "text/jinja/evaluator_guards.h"
#include "text/jinja/objects.h"
#include "text/jinja/representation.h"

namespace ashlar::text::jinja {
namespace {

class MacroObject final : public Object {
 public:
  MacroObject(Evaluator* evaluator, const Macro* macro, std::shared_ptr<Scope> closure)
      : Object(0), evaluator_(evaluator), macro_(macro), closure_(std::move(closure)) {}

  std::string_view TypeName() const override { return "Macro"; }
  Result<std::string> Represent(Runtime&) const override {
    return fmt::format("<Macro '{}'>", macro_->name);
  }
  bool IsCallable() const override { return true; }

  Result<std::optional<Value>> GetAttribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") {
      ASHLAR_ASSIGN(Value text, runtime.String(macro_->name));
      return std::optional<Value>(std::move(text));
    }
    if (name == "arguments") {
      std::vector<Value> names;
      for (const std::string& parameter : macro_->parameter_names) {
        ASHLAR_ASSIGN(Value text, runtime.String(parameter));
        names.push_back(std::move(text));
      }
      ASHLAR_ASSIGN(Value tuple, runtime.Tuple(std::move(names)));
      return std::optional<Value>(std::move(tuple));
    }
    const std::array<std::pair<std::string_view, bool>, 3> facts = {
        {{"catch_kwargs", macro_->takes_kwargs},
         {"catch_varargs", macro_->takes_varargs},
         {"caller", macro_->takes_caller}}};
    const auto* found = std::find_if(facts.begin(), facts.end(),
                                     [name](const auto& fact) { return fact.first == name; });
    return found != facts.end() ? std::optional<Value>(Value::Bool(found->second)) : std::nullopt;
  }

  Result<Value> Call(Runtime&, const Arguments& arguments) override {
    return evaluator_->CallMacro(*macro_, closure_, arguments);
  }

 private:
  Evaluator* evaluator_;
  const Macro* macro_;
  std::shared_ptr<Scope> closure_;
};

}  // namespace

Status Evaluator::ExecuteFor(const Statement& statement) {
  ASHLAR_ASSIGN(const Value iterable, Evaluate(*statement.expression));
  return RunLoop(statement, iterable, 0);
}

// The items for which the loop's `if` holds, each judged when the loop asks for it.
Result<Value> Evaluator::FilterItems(const Statement& statement, const Value& iterable) {
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime_, iterable));
  auto next = [this, &statement, iterator,
               outer = scope_](Runtime& runtime) -> Result<std::optional<Value>> {
    while (true) {
      ASHLAR_ASSIGN(std::optional<Value> item, iterator->Next(runtime));
      if (!item) {
        return item;
      }
      const ScopeGuard scope(this, std::make_shared<Scope>(outer));
      ASHLAR_TRY(Assign(statement.target, *item));
      ASHLAR_ASSIGN(const Value is_wanted, Evaluate(*statement.condition));
      if (IsTrue(is_wanted)) {
        return item;
      }
    }
  };
  return runtime_.MakeIterator(std::move(next), DepthOf(iterable) + 1);
}

Status Evaluator::RunLoop(const Statement& statement, const Value& iterable, int depth) {
  Value items = iterable;
  if (statement.condition != nullptr) {
    ASHLAR_ASSIGN(items, FilterItems(statement, iterable));
  }
  ASHLAR_ASSIGN(std::shared_ptr<Iterator> iterator, Iterate(runtime_, items));
  Loop::Recursion recursion;
  if (statement.is_recursive) {
    recursion = [this, &statement, outer = scope_](const Value& inner,
                                                   int inner_depth) -> Result<Value> {
      std::string text;
      const OutputGuard output(this, &text);
      const ScopeGuard scope(this, outer);
      ASHLAR_TRY(RunLoop(statement, inner, inner_depth));
      return runtime_.String(std::move(text));
    };
  }
  ASHLAR_TRY(runtime_.CheckDepth(DepthOf(items)));
  const auto loop = std::make_shared<Loop>(items, std::move(iterator), depth, std::move(recursion));
  bool is_empty = true;
  while (true) {
    ASHLAR_TRY(runtime_.Spend());
    ASHLAR_ASSIGN(const std::optional<Value> item, loop->Advance(runtime_));
    if (!item) {
      break;
    }
    is_empty = false;
    ASHLAR_ASSIGN(const Flow flow, RunIteration(statement, loop, *item));
    if (flow == Flow::kBreak) {
      break;
    }
  }
  loop->Finish();
  if (is_empty) {
    ASHLAR_TRY(ExecuteInScope(statement.else_body));
  }
  return {};
}

Result<Evaluator::Flow> Evaluator::RunIteration(const Statement& statement,
                                                const std::shared_ptr<Loop>& loop,
                                                const Value& item) {
  const ScopeGuard scope(this, std::make_shared<Scope>(scope_));
  ASHLAR_TRY(Assign(statement.target, item));
  scope_->Set(program_.loop, Value::Of(loop));
  return ExecuteAll(statement.body);
}

Value Evaluator::MakeMacro(const Macro& macro) {
  if (!scope_->is_kept) {
    scope_->is_kept = true;
    runtime_.Keep(scope_);
  }
  return Value::Of(std::make_shared<MacroObject>(this, &macro, scope_));
}

Result<Value> Evaluator::CallMacro(const Macro& macro, const std::shared_ptr<Scope>& closure,
                                   const Arguments& arguments) {
  ASHLAR_ASSIGN(const auto level, runtime_.Enter());
  std::string text;
  const ScopeGuard scope(this, std::make_shared<Scope>(closure));
  ASHLAR_TRY(BindParameters(macro, arguments));
  const OutputGuard output(this, &text);
  ASHLAR_TRY(ExecuteAll(macro.body));
  return runtime_.String(std::move(text));
}

Status Evaluator::BindParameters(const Macro& macro, const Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  const auto take = [&named](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [name](const auto& entry) { return entry.first == name; });
    if (found == named.end()) {
      return std::nullopt;
    }
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  std::vector<std::optional<Value>> values(
      arguments.positional.begin(),
      arguments.positional.begin() +
          static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size())));
  while (values.size() < count) {
    values.push_back(take(macro.parameter_names[values.size()]));
  }
  const bool names_caller = std::find(macro.parameter_names.begin(), macro.parameter_names.end(),
                                      "caller") != macro.parameter_names.end();
  if (macro.takes_caller && !names_caller) {
    scope_->Set(program_.caller,
                take("caller").value_or(Value::MakeUndefined("No caller defined")));
  }
  if (macro.takes_kwargs) {
    Entries entries;
    for (const auto& [name, value] : named) {
      ASHLAR_ASSIGN(Value key, runtime_.String(name));
      entries.emplace_back(std::move(key), value);
    }
    ASHLAR_ASSIGN(Value dict, runtime_.MakeDict(std::move(entries)));
    scope_->Set(program_.kwargs, std::move(dict));
  } else if (!named.empty()) {
    return Invalid("macro '{}' takes no keyword argument '{}'", macro.name,
                   Excerpt(named.front().first));
  }
  if (macro.takes_varargs) {
    const std::size_t used = std::min(count, arguments.positional.size());
    ASHLAR_ASSIGN(Value tuple, runtime_.Tuple(std::vector<Value>(
                                   arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                                   arguments.positional.end())));
    scope_->Set(program_.varargs, std::move(tuple));
  } else if (arguments.positional.size() > count) {
    return Invalid("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  const std::size_t first_default = count - macro.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!values[i] && i >= first_default) {
      ASHLAR_ASSIGN(values[i], Evaluate(*macro.defaults[i - first_default]));
    }
    const std::string& name = macro.parameter_names[i];
    scope_->Set(macro.parameters[i], values[i] ? *values[i]
                                               : Value::MakeUndefined(fmt::format(
                                                     "parameter '{}' was not provided", name)));
  }
  return {};
}

}  // namespace ashlar::text::jinja
