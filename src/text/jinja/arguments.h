// The arguments of a call, matched with a function's parameters.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// Parameters of a builtin; unused places are empty. The first `required` have no default.
struct Signature {
  std::string_view name;
  std::array<std::string_view, 5> parameters = {};
  int required = 0;
};

class BoundArguments {
 public:
  // Errors: too many, too few, unknown or doubled arguments.
  static Result<BoundArguments> Bind(const Signature& signature, const Arguments& arguments);

  bool Has(std::size_t index) const { return values_[index].has_value(); }
  // Given, and not None.
  bool HasValue(std::size_t index) const { return Has(index) && !values_[index]->IsNone(); }
  // Precondition: Has(index).
  const Value& operator[](std::size_t index) const { return *values_[index]; }
  // None when it is not given.
  Value OrNone(std::size_t index) const { return values_[index].value_or(Value::None()); }
  // False when it is not given.
  bool Truth(std::size_t index) const { return Has(index) && IsTrue(*values_[index]); }
  // Errors: not an integer.
  Result<Int> Integer(std::size_t index, Int otherwise) const;
  // Errors: not a string.
  Result<std::string_view> Text(std::size_t index, std::string_view otherwise) const;

 private:
  std::string_view name_;
  std::array<std::optional<Value>, 5> values_;
};

}  // namespace ashlar::text::jinja
