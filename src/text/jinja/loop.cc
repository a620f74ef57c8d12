#include "text/jinja/loop.h"

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace ashlar::text::jinja {

Result<std::optional<Value>> Loop::Advance(Runtime& runtime) {
  std::optional<Value> next = std::exchange(after_, std::nullopt);
  if (!next) {
    ASHLAR_ASSIGN(next, iterator_->Next(runtime));
  }
  if (next) {
    ++index_;
    before_ = std::exchange(current_, next);
  }
  return next;
}

void Loop::Finish() {
  iterable_ = Value::None();
  before_ = current_ = after_ = last_changed_ = std::nullopt;
  recursion_ = nullptr;
}

Status Loop::Peek(Runtime& runtime) {
  if (!after_) {
    ASHLAR_ASSIGN(after_, iterator_->Next(runtime));
  }
  return {};
}

Result<Int> Loop::CountItems(Runtime& runtime) {
  if (length_) {
    return *length_;
  }
  if (const std::optional<std::size_t> length = LengthOf(iterable_)) {
    length_ = static_cast<Int>(*length);
    return *length_;
  }
  // Read the rest, and iterate over that from now on.
  ASHLAR_ASSIGN(std::vector<Value> rest, Collect(runtime, Value::Of(iterator_)));
  length_ = static_cast<Int>(rest.size()) + index_ + 1 + (after_ ? 1 : 0);
  ASHLAR_ASSIGN(const Value list, runtime.List(std::move(rest)));
  ASHLAR_ASSIGN(iterator_, jinja::Iterate(runtime, list));
  return *length_;
}

Result<std::string> Loop::Represent(Runtime&) const {
  return Unsupported("printing 'loop'; print one of its attributes");
}

Result<std::optional<Value>> Loop::GetAttribute(Runtime& runtime, std::string_view name) {
  using Attribute = std::optional<Value>;
  if (name == "index0") {
    return Attribute(Value::Integer(index_));
  }
  if (name == "index") {
    return Attribute(Value::Integer(index_ + 1));
  }
  if (name == "first") {
    return Attribute(Value::Bool(index_ == 0));
  }
  if (name == "last") {
    ASHLAR_TRY(Peek(runtime));
    return Attribute(Value::Bool(!after_.has_value()));
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    ASHLAR_ASSIGN(const Int length, CountItems(runtime));
    const Int passed = name == "length" ? 0 : name == "revindex" ? index_ : index_ + 1;
    return Attribute(Value::Integer(length - passed));
  }
  if (name == "previtem") {
    return Attribute(before_ ? *before_ : Value::MakeUndefined("there is no previous item"));
  }
  if (name == "nextitem") {
    ASHLAR_TRY(Peek(runtime));
    return Attribute(after_ ? *after_ : Value::MakeUndefined("there is no next item"));
  }
  if (name == "depth" || name == "depth0") {
    return Attribute(Value::Integer(recursion_depth_ + (name == "depth" ? 1 : 0)));
  }
  return FindMethod(runtime, name);
}

Result<std::optional<Value>> Loop::FindMethod(Runtime& runtime, std::string_view name) {
  if (name != "cycle" && name != "changed") {
    return std::optional<Value>();
  }
  ASHLAR_TRY(runtime.CheckDepth(depth()));
  return std::optional<Value>(Value::Of(
      std::make_shared<Method>(name == "cycle" ? "cycle" : "changed", Value::Of(shared_from_this()),
                               name == "cycle" ? &Cycle : &Changed)));
}

Result<Value> Loop::Call(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"loop", {"iterable"}, 1}, arguments));
  if (!recursion_) {
    return Invalid("the loop needs the word 'recursive' to be called");
  }
  ASHLAR_ASSIGN(const auto level, runtime.Enter());
  return recursion_(bound[0], recursion_depth_ + 1);
}

Result<Value> Loop::Cycle(Runtime&, const Value& self, const Arguments& arguments) {
  const auto& loop = static_cast<const Loop&>(*self.object());
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return Invalid("loop.cycle() needs at least one item, and no named arguments");
  }
  const Int count = static_cast<Int>(arguments.positional.size());
  return arguments.positional[static_cast<std::size_t>(std::max(loop.index_, Int{0}) % count)];
}

Result<Value> Loop::Changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  auto& loop = static_cast<Loop&>(*self.object());
  ASHLAR_ASSIGN(const Value values, runtime.Tuple(arguments.positional));
  if (loop.last_changed_) {
    ASHLAR_ASSIGN(const bool is_same, Equal(runtime, *loop.last_changed_, values));
    if (is_same) {
      return Value::Bool(false);
    }
  }
  loop.last_changed_ = values;
  return Value::Bool(true);
}

}  // namespace ashlar::text::jinja
