// Python's operators on values: arithmetic, comparison, membership, attributes, subscripts.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// left op right, with Python's rules for each pair of types.
Result<Value> Apply(Runtime& runtime, Arithmetic op, const Value& left, const Value& right);
Result<Value> Negate(const Value& value);
Result<Value> Positive(const Value& value);
// The error of using an undefined value; ok for the others.
Status CheckDefined(const Value& value);

// ==. Costs a step for every pair of items compared.
Result<bool> Equal(Runtime& runtime, const Value& a, const Value& b);
// a < b; an error for types that have no order between them.
Result<bool> Less(Runtime& runtime, const Value& a, const Value& b);
Result<bool> Compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);
// item in container.
Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item);

// object.name: the attribute or method, else the item, else undefined.
Result<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name);
// object[key]: the item, else the attribute, else undefined.
Result<Value> GetItem(Runtime& runtime, const Value& object, const Value& key);
// object[start:stop:step]; None for a bound that is left out.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};
Result<Value> GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

}  // namespace ashlar::text::jinja
