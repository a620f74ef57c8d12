// The variable `loop` of a `for` block.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

class Loop final : public Object {
 public:
  // Renders the block over another value, for `loop(value)` of recursive loops.
  using Recursion = std::function<Result<Value>(const Value& iterable, int depth)>;

  // `depth`: 0 for the outermost of a recursive loop. `recursion` is empty when it is not
  // recursive.
  Loop(Value iterable, std::shared_ptr<Iterator> iterator, int depth, Recursion recursion)
      : Object(DepthOf(iterable) + 1),
        iterable_(std::move(iterable)),
        iterator_(std::move(iterator)),
        recursion_depth_(depth),
        recursion_(std::move(recursion)) {}

  // The next item, or nothing.
  Result<std::optional<Value>> Advance(Runtime& runtime);
  // Lets go of all items; a template may have kept the loop.
  void Finish();

  std::string_view TypeName() const override { return "LoopContext"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  Result<std::optional<Value>> GetAttribute(Runtime& runtime, std::string_view name) override;
  bool IsCallable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override;

 private:
  // Reads one item ahead: whether there is a next one (in after_).
  Status Peek(Runtime& runtime);
  Result<Int> CountItems(Runtime& runtime);
  Result<std::optional<Value>> FindMethod(Runtime& runtime, std::string_view name);
  static Result<Value> Cycle(Runtime& runtime, const Value& self, const Arguments& arguments);
  static Result<Value> Changed(Runtime& runtime, const Value& self, const Arguments& arguments);

  Value iterable_;
  std::shared_ptr<Iterator> iterator_;
  int recursion_depth_;
  Recursion recursion_;
  Int index_ = -1;
  std::optional<Int> length_;
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<Value> after_;
  std::optional<Value> last_changed_;
};

}  // namespace ashlar::text::jinja
