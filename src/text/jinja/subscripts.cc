// Attributes, items and slices of operators.h.
#include <algorithm>
#include <array>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

Value Missing(const Value& object, std::string_view name) {
  return Value::MakeUndefined(
      fmt::format("'{}' object has no attribute '{}'", TypeName(object), Excerpt(name)));
}

// obj[key] where Python finds it; nothing where Python raises KeyError, IndexError or TypeError.
Result<std::optional<Value>> FindItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.IsDict()) {
    const Value* found = IsKey(key) ? object.dict().Find(key) : nullptr;
    return found == nullptr ? std::optional<Value>() : std::optional<Value>(*found);
  }
  const bool is_indexable = object.IsString() || object.IsSequence() ||
                            (object.IsObject() && object.object()->IsIndexable());
  if (!is_indexable || !key.IsIntegral()) {
    return std::optional<Value>();
  }
  const Int length = static_cast<Int>(*LengthOf(object));
  const Int index = key.integer() < 0 ? key.integer() + length : key.integer();
  if (index < 0 || index >= length) {
    return std::optional<Value>();
  }
  const std::size_t at = static_cast<std::size_t>(index);
  if (object.IsSequence()) {
    return std::optional<Value>(object.items()[at]);
  }
  if (object.IsObject()) {
    return std::optional<Value>(object.object()->At(at));
  }
  const std::string_view text = object.bytes();
  const bool is_ascii = object.text().chars == text.size();
  ASHLAR_TRY(runtime.SpendBytes(is_ascii ? 0 : text.size()));
  const std::size_t start = is_ascii ? at : ByteOffset(text, at);
  std::size_t end = start;
  (void)NextChar(text, &end);
  ASHLAR_ASSIGN(Value letter,
                runtime.StringLike(object, std::string(text.substr(start, end - start))));
  return std::optional<Value>(std::move(letter));
}

Result<std::optional<Value>> FindAttribute(Runtime& runtime, const Value& object,
                                           std::string_view name) {
  // Python's internals (`__class__`), which the sandbox hides.
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4 && !object.IsDict()) {
    return std::optional<Value>(Value::MakeUndefined(fmt::format(
        "access to attribute '{}' of '{}' object is unsafe.", Excerpt(name), TypeName(object))));
  }
  if (object.IsObject()) {
    return object.object()->GetAttribute(runtime, name);
  }
  return FindMethod(runtime, object, name);
}

// A bound of a slice, moved into [low, high].
Result<Int> Bound(const Value& value, Int otherwise, Int length, Int low, Int high) {
  if (value.IsNone()) {
    return otherwise;
  }
  ASHLAR_TRY(CheckDefined(value));
  if (!value.IsIntegral()) {
    return Invalid("slice indices must be integers or None, not '{}'", TypeName(value));
  }
  const Int index = value.integer() < 0 ? value.integer() + length : value.integer();
  return std::clamp(index, low, high);
}

struct Positions {
  Int start;
  Int step;
  std::size_t count;
};

Result<Positions> ResolveSlice(const SliceBounds& bounds, Int length) {
  Int step = 1;
  if (!bounds.step.IsNone()) {
    ASHLAR_TRY(CheckDefined(bounds.step));
    if (!bounds.step.IsIntegral()) {
      return Invalid("slice indices must be integers or None, not '{}'", TypeName(bounds.step));
    }
    step = bounds.step.integer();
  }
  if (step == 0) {
    return Invalid("slice step cannot be zero");
  }
  // More than the length either way is the same as the length; this keeps the sums below small.
  step = std::clamp(step, -length - 1, length + 1);
  const bool is_forward = step > 0;
  const Int low = is_forward ? 0 : -1;
  const Int high = is_forward ? length : length - 1;
  ASHLAR_ASSIGN(const Int start, Bound(bounds.start, is_forward ? low : high, length, low, high));
  ASHLAR_ASSIGN(const Int stop, Bound(bounds.stop, is_forward ? high : low, length, low, high));
  const Int span = is_forward ? stop - start : start - stop;
  const Int stride = is_forward ? step : -step;
  return Positions{start, step,
                   span <= 0 ? 0 : static_cast<std::size_t>((span + stride - 1) / stride)};
}

Result<Value> SliceString(Runtime& runtime, const Value& object, const Positions& positions) {
  const std::string_view text = object.bytes();
  if (positions.step == 1) {
    const bool is_ascii = object.text().chars == text.size();
    ASHLAR_TRY(runtime.SpendBytes(text.size()));
    const std::size_t first = static_cast<std::size_t>(positions.start);
    const std::size_t start = is_ascii ? std::min(first, text.size()) : ByteOffset(text, first);
    const std::size_t size =
        is_ascii ? positions.count : ByteOffset(text.substr(start), positions.count);
    return runtime.StringLike(object, std::string(text.substr(start, size)));
  }
  ASHLAR_TRY(runtime.Spend(2 * object.text().chars));
  const std::vector<std::string_view> letters = SplitChars(text);
  std::string out;
  for (std::size_t i = 0; i < positions.count; ++i) {
    out +=
        letters[static_cast<std::size_t>(positions.start + positions.step * static_cast<Int>(i))];
  }
  return runtime.StringLike(object, std::move(out));
}

}  // namespace

Result<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  ASHLAR_TRY(CheckDefined(object));
  ASHLAR_ASSIGN(std::optional<Value> attribute, FindAttribute(runtime, object, name));
  if (attribute) {
    return *std::move(attribute);
  }
  if (object.IsDict()) {
    const Value* found = object.dict().Find(name);
    if (found != nullptr) {
      return *found;
    }
  }
  return Missing(object, name);
}

Result<Value> GetItem(Runtime& runtime, const Value& object, const Value& key) {
  ASHLAR_TRY(CheckDefined(object));
  ASHLAR_ASSIGN(std::optional<Value> item, FindItem(runtime, object, key));
  if (item) {
    return *std::move(item);
  }
  if (!key.IsString()) {
    std::string shown;
    ASHLAR_TRY(AppendRepr(runtime, key, &shown));
    return Value::MakeUndefined(
        fmt::format("'{}' object has no element {}", TypeName(object), Excerpt(shown)));
  }
  ASHLAR_ASSIGN(std::optional<Value> attribute, FindAttribute(runtime, object, key.bytes()));
  return attribute ? *std::move(attribute) : Missing(object, key.bytes());
}

Result<Value> GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  ASHLAR_TRY(CheckDefined(object));
  const bool is_indexable = object.IsObject() && object.object()->IsIndexable();
  if (!object.IsString() && !object.IsSequence() && !is_indexable) {
    return Invalid("'{}' object cannot be sliced", TypeName(object));
  }
  ASHLAR_ASSIGN(const Positions positions,
                ResolveSlice(bounds, static_cast<Int>(*LengthOf(object))));
  if (object.IsString()) {
    return SliceString(runtime, object, positions);
  }
  ASHLAR_TRY(runtime.SpendBytes(positions.count * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(positions.count);
  for (std::size_t i = 0; i < positions.count; ++i) {
    const std::size_t at =
        static_cast<std::size_t>(positions.start + positions.step * static_cast<Int>(i));
    items.push_back(is_indexable ? object.object()->At(at) : object.items()[at]);
  }
  return runtime.MakeSequence(std::move(items),
                              object.IsTuple() ? SequenceKind::kTuple : SequenceKind::kList);
}

}  // namespace ashlar::text::jinja
