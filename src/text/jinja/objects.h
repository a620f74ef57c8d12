// The objects that are not tied to the evaluator: ranges, dict views, functions, methods,
// namespaces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// range(start, stop, step): a sequence that stores no items.
class Range final : public Object {
 public:
  Range(Int start, Int stop, Int step, std::size_t length)
      : Object(0), start_(start), stop_(stop), step_(step), length_(length) {}

  std::string_view TypeName() const override { return "range"; }
  bool IsTrue() const override { return length_ > 0; }
  Result<std::string> Represent(Runtime& runtime) const override;
  std::optional<std::size_t> Length() const override { return length_; }
  bool IsIndexable() const override { return true; }
  Value At(std::size_t index) const override {
    return Value::Integer(start_ + step_ * static_cast<Int>(index));
  }

 private:
  Int start_;
  Int stop_;
  Int step_;
  std::size_t length_;
};

// What dict.keys(), .values() and .items() return: not a list, has a length, cannot be subscripted.
class DictView final : public Object {
 public:
  enum class Part { kKeys, kValues, kItems };
  DictView(Value dict, Part part)
      : Object(DepthOf(dict) + 1), dict_(std::move(dict)), part_(part) {}

  std::string_view TypeName() const override;
  bool IsTrue() const override { return *Length() > 0; }
  Result<std::string> Represent(Runtime& runtime) const override;
  std::optional<std::size_t> Length() const override { return dict_.dict().entries.size(); }
  Result<std::shared_ptr<Iterator>> Iterate(Runtime& runtime) override;

 private:
  Value dict_;
  Part part_;
};

// A global function: range, dict, namespace...
class Function final : public Object {
 public:
  using Body = Result<Value> (*)(Runtime&, const Arguments&);
  Function(std::string_view name, Body body) : Object(0), name_(name), body_(body) {}

  std::string_view TypeName() const override { return "function"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  bool IsCallable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, arguments);
  }

 private:
  std::string_view name_;
  Body body_;
};

// A method with the value it belongs to: `message.content.strip`.
class Method final : public Object {
 public:
  using Body = Result<Value> (*)(Runtime&, const Value& self, const Arguments&);
  Method(std::string_view name, Value self, Body body)
      : Object(DepthOf(self) + 1), name_(name), self_(std::move(self)), body_(body) {}

  std::string_view TypeName() const override { return "builtin_function_or_method"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  bool IsCallable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, self_, arguments);
  }

 private:
  std::string_view name_;
  Value self_;
  Body body_;
};

// namespace(...): the one thing whose attributes `set` can change.
class Namespace final : public Object {
 public:
  explicit Namespace(Charge charge) : Object(0), charge_(std::move(charge)) {}

  std::string_view TypeName() const override { return "Namespace"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  Result<std::optional<Value>> GetAttribute(Runtime& runtime, std::string_view name) override;
  // Names that begin with an underscore are refused, as the reference does.
  Status Set(Runtime& runtime, std::string_view name, Value value);
  void Clear() { attributes_.clear(); }

 private:
  Charge charge_;
  Entries attributes_;
};

// cycler(a, b, ...): next() and current go round the items.
class Cycler final : public Object {
 public:
  Cycler(std::vector<Value> items, int depth) : Object(depth), items_(std::move(items)) {}

  std::string_view TypeName() const override { return "Cycler"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  Result<std::optional<Value>> GetAttribute(Runtime& runtime, std::string_view name) override;

 private:
  static Result<Value> Next(Runtime& runtime, const Value& self, const Arguments& arguments);
  static Result<Value> Reset(Runtime& runtime, const Value& self, const Arguments& arguments);

  std::vector<Value> items_;
  std::size_t position_ = 0;
};

// joiner(', '): nothing the first time it is called, then the separator.
class Joiner final : public Object {
 public:
  Joiner(Value separator, int depth) : Object(depth), separator_(std::move(separator)) {}

  std::string_view TypeName() const override { return "Joiner"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  bool IsCallable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override;

 private:
  Value separator_;
  bool is_used_ = false;
};

}  // namespace ashlar::text::jinja
