#include "text/jinja/methods.h"

#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace ashlar::text::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool IsOneOf(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Value> DictGet(Runtime&, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"get", {"key", "default"}, 1}, arguments));
  if (!IsKey(bound[0])) {
    if (bound[0].IsUndefined()) {
      return bound.OrNone(1);
    }
    return Invalid("'{}' cannot be a key of a dict", TypeName(bound[0]));
  }
  const Value* found = self.dict().Find(bound[0]);
  return found != nullptr ? *found : bound.OrNone(1);
}

template <DictView::Part kPart>
Result<Value> DictPart(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"dict view", {}, 0}, arguments));
  ASHLAR_TRY(runtime.CheckDepth(DepthOf(self)));
  return Value::Of(std::make_shared<DictView>(self, kPart));
}

// Containers never change, so a copy is the thing itself.
Result<Value> Copy(Runtime&, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"copy", {}, 0}, arguments));
  return self;
}

Result<Value> SequenceCount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"count", {"value"}, 1}, arguments));
  Int count = 0;
  for (const Value& item : self.items()) {
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, item, bound[0]));
    count += is_equal ? 1 : 0;
  }
  return Value::Integer(count);
}

Result<Value> SequenceIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"index", {"value"}, 1}, arguments));
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    ASHLAR_ASSIGN(const bool is_equal, Equal(runtime, self.items()[i], bound[0]));
    if (is_equal) {
      return Value::Integer(static_cast<Int>(i));
    }
  }
  return Invalid("index(): the value is not in the {}", TypeName(self));
}

MethodBody FindBody(const Value& object, std::string_view name) {
  using Entry = std::pair<std::string_view, MethodBody>;
  static constexpr std::array<Entry, 5> kDictMethods = {{
      {"get", &DictGet},
      {"items", &DictPart<DictView::Part::kItems>},
      {"keys", &DictPart<DictView::Part::kKeys>},
      {"values", &DictPart<DictView::Part::kValues>},
      {"copy", &Copy},
  }};
  static constexpr std::array<Entry, 3> kSequenceMethods = {
      {{"count", &SequenceCount}, {"index", &SequenceIndex}, {"copy", &Copy}}};
  const auto find = [name](const auto& table) -> MethodBody {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [name](const Entry& entry) { return entry.first == name; });
    return found != table.end() ? found->second : nullptr;
  };
  if (object.IsString()) {
    return FindStringMethod(name);
  }
  if (object.IsDict()) {
    return find(kDictMethods);
  }
  if (object.IsSequence() && (object.IsList() || name != "copy")) {
    return find(kSequenceMethods);
  }
  return nullptr;
}

// Attributes that Python's types have and we do not.
bool IsKnownToPython(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return IsOneOf(name, {"encode", "translate", "maketrans", "format_map", "unescape",
                            "striptags", "escape"});
    case Kind::kDict:
      return name == "fromkeys";
    case Kind::kBool:
    case Kind::kInt:
      return IsOneOf(name, {"real", "imag", "numerator", "denominator", "bit_length", "bit_count",
                            "conjugate", "to_bytes", "from_bytes", "as_integer_ratio"});
    case Kind::kFloat:
      return IsOneOf(
          name, {"real", "imag", "conjugate", "is_integer", "as_integer_ratio", "hex", "fromhex"});
    default:
      return false;
  }
}

bool IsMutating(const Value& object, std::string_view name) {
  if (object.IsDict()) {
    return IsOneOf(name, {"clear", "pop", "popitem", "setdefault", "update"});
  }
  return object.IsList() &&
         IsOneOf(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
}

}  // namespace

Result<std::optional<Value>> FindMethod(Runtime& runtime, const Value& object,
                                        std::string_view name) {
  if (object.IsSequence() && object.sequence().kind == SequenceKind::kGroup &&
      (name == "grouper" || name == "list")) {
    return std::optional<Value>(object.items()[name == "grouper" ? 0 : 1]);
  }
  if (IsMutating(object, name)) {
    return std::optional<Value>(Value::MakeUndefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, TypeName(object))));
  }
  if (const MethodBody body = FindBody(object, name); body != nullptr) {
    ASHLAR_TRY(runtime.CheckDepth(DepthOf(object)));
    return std::optional<Value>(Value::Of(std::make_shared<Method>("", object, body)));
  }
  if (IsKnownToPython(object, name)) {
    return Unsupported(
        "the attribute '{}' of '{}' objects is outside the subset for chat templates", name,
        TypeName(object));
  }
  return std::optional<Value>();
}

}  // namespace ashlar::text::jinja
