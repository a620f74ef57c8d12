// Filters that yield some or other of a sequence's items, one by one, as they are asked for: map,
// select, reject, selectattr, rejectattr, unique, items.
#include <algorithm>
#include <array>
#include <set>

#include "text/jinja/filters.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/tests.h"

namespace ashlar::text::jinja {
namespace {

int DepthOf(const Arguments& arguments) {
  int depth = 0;
  for (const Value& value : arguments.positional) {
    depth = std::max(depth, jinja::DepthOf(value));
  }
  for (const auto& [name, value] : arguments.named) {
    depth = std::max(depth, jinja::DepthOf(value));
  }
  return depth;
}

// The items of `source` through `next_of`, which says what an item becomes, or nothing to leave it
// out. A value that is false gives no items, even if it cannot be iterated over (None).
template <typename Function>
Result<Value> Lazily(Runtime& runtime, const Value& source, int depth, Function next_of) {
  std::shared_ptr<Iterator> iterator;
  auto next = [source, iterator, next_of = std::move(next_of)](
                  Runtime& inner) mutable -> Result<std::optional<Value>> {
    if (!IsTrue(source)) {
      return std::optional<Value>();
    }
    if (iterator == nullptr) {
      ASHLAR_ASSIGN(iterator, Iterate(inner, source));
    }
    while (true) {
      ASHLAR_ASSIGN(const std::optional<Value> item, iterator->Next(inner));
      if (!item) {
        return std::optional<Value>();
      }
      ASHLAR_ASSIGN(std::optional<Value> result, next_of(inner, *item));
      if (result) {
        return result;
      }
    }
  };
  return runtime.MakeIterator(std::move(next), std::max(jinja::DepthOf(source), depth) + 1);
}

Result<Value> MapAttribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"map", {"attribute", "default"}, 1}, arguments));
  ASHLAR_ASSIGN(AttributePath path, AttributePath::Parse(runtime, bound[0]));
  std::optional<Value> otherwise =
      bound.HasValue(1) ? std::optional<Value>(bound[1]) : std::nullopt;
  return Lazily(runtime, input, DepthOf(arguments),
                [path = std::move(path), otherwise = std::move(otherwise)](
                    Runtime& inner, const Value& item) -> Result<std::optional<Value>> {
                  ASHLAR_ASSIGN(Value value, path.Get(inner, item, otherwise));
                  return std::optional<Value>(std::move(value));
                });
}

Result<Value> Map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    return MapAttribute(runtime, input, arguments);
  }
  if (!arguments.positional[0].IsString()) {
    return Invalid("map() needs the name of a filter, not '{}'", TypeName(arguments.positional[0]));
  }
  Arguments rest = arguments;
  const std::string name = rest.positional[0].bytes();
  rest.positional.erase(rest.positional.begin());
  if (!HasFilter(name)) {
    return Unsupported("{}", UnknownFilter(name));
  }
  return Lazily(runtime, input, DepthOf(arguments),
                [name, rest = std::move(rest)](Runtime& inner,
                                               const Value& item) -> Result<std::optional<Value>> {
                  ASHLAR_ASSIGN(Value value, CallFilter(inner, name, item, rest));
                  return std::optional<Value>(std::move(value));
                });
}

// The items for which a test (by default: is it true?) gives `kWanted`. With kHasAttribute the
// first argument names the attribute to test.
template <bool kWanted, bool kHasAttribute>
Result<Value> Select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Arguments rest = arguments;
  AttributePath path;
  if (kHasAttribute) {
    if (rest.positional.empty()) {
      return Invalid("selectattr() and rejectattr() need the name of an attribute");
    }
    ASHLAR_ASSIGN(path, AttributePath::Parse(runtime, rest.positional[0]));
    rest.positional.erase(rest.positional.begin());
  }
  std::string test;
  if (!rest.positional.empty()) {
    if (!rest.positional[0].IsString()) {
      return Invalid("the name of a test must be a string, not '{}'", TypeName(rest.positional[0]));
    }
    test = rest.positional[0].bytes();
    rest.positional.erase(rest.positional.begin());
    if (!HasTest(test)) {
      return Unsupported("{}", UnknownTest(test));
    }
  }
  return Lazily(runtime, input, DepthOf(arguments),
                [path = std::move(path), test, rest = std::move(rest)](
                    Runtime& inner, const Value& item) -> Result<std::optional<Value>> {
                  ASHLAR_ASSIGN(const Value subject, path.Get(inner, item));
                  bool is_true = IsTrue(subject);
                  if (!test.empty()) {
                    ASHLAR_ASSIGN(is_true, CallTest(inner, test, subject, rest));
                  }
                  return is_true == kWanted ? std::optional<Value>(item) : std::nullopt;
                });
}

struct KeyOrder {
  bool operator()(const Value& a, const Value& b) const { return KeyLess(a, b); }
};

Result<Value> Unique(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, arguments.OrNone(1)));
  const Case letter_case = arguments.Truth(0) ? Case::kMatters : Case::kIgnored;
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  std::vector<Value> unique;
  std::set<Value, KeyOrder> seen;
  for (const Value& item : items) {
    ASHLAR_ASSIGN(Value key, path.Get(runtime, item));
    ASHLAR_ASSIGN(key, ComparisonKey(runtime, std::move(key), letter_case));
    if (!IsKey(key)) {
      return Invalid("unique() cannot compare values of type '{}'", TypeName(key));
    }
    ASHLAR_TRY(runtime.Spend());
    if (seen.insert(std::move(key)).second) {
      unique.push_back(item);
    }
  }
  ASHLAR_ASSIGN(const Value list, runtime.List(std::move(unique)));
  return Lazily(runtime, list, 0, [](Runtime&, const Value& item) -> Result<std::optional<Value>> {
    return std::optional<Value>(item);
  });
}

Result<Value> Items(Runtime& runtime, const Value& input, const BoundArguments&) {
  if (!input.IsDict() && !input.IsUndefined()) {
    return Invalid("items() needs a dict, not '{}'", TypeName(input));
  }
  const Value view = input.IsUndefined()
                         ? input
                         : Value::Of(std::make_shared<DictView>(input, DictView::Part::kItems));
  return Lazily(runtime, view, 0, [](Runtime&, const Value& item) -> Result<std::optional<Value>> {
    return std::optional<Value>(item);
  });
}

constexpr std::array kFilters = {
    Filter{{"items"}, &Items},
    Filter{{"map"}, nullptr, &Map},
    Filter{{"reject"}, nullptr, &Select<false, false>},
    Filter{{"rejectattr"}, nullptr, &Select<false, true>},
    Filter{{"select"}, nullptr, &Select<true, false>},
    Filter{{"selectattr"}, nullptr, &Select<true, true>},
    Filter{{"unique", {"case_sensitive", "attribute"}}, &Unique},
};

}  // namespace

std::span<const Filter> SelectionFilters() { return kFilters; }

}  // namespace ashlar::text::jinja
