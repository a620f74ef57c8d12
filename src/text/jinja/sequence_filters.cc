// Filters over all items of a sequence: first, last, sort, join, sum...
#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

// What arguments like case_sensitive= and reverse= ask for.
Case CaseOf(const BoundArguments& arguments, std::size_t index) {
  return arguments.Truth(index) ? Case::kMatters : Case::kIgnored;
}

Order OrderOf(const BoundArguments& arguments, std::size_t index) {
  return arguments.Truth(index) ? Order::kDescending : Order::kAscending;
}

Result<Value> First(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime, input));
  ASHLAR_ASSIGN(std::optional<Value> value, iterator->Next(runtime));
  return value ? *std::move(value) : Value::MakeUndefined("No first item, sequence was empty.");
}

bool IsReversible(const Value& input) {
  return input.IsUndefined() || input.IsString() || input.IsSequence() || input.IsDict() ||
         (input.IsObject() && (input.object()->IsIndexable() || input.object()->Length()));
}

Result<Value> Last(Runtime& runtime, const Value& input, const BoundArguments&) {
  if (!IsReversible(input)) {
    return Invalid("'{}' object is not reversible", TypeName(input));
  }
  if (input.IsString() && !input.bytes().empty()) {
    std::size_t start = 0;
    (void)PreviousChar(input.bytes(), input.bytes().size(), &start);
    return runtime.String(input.bytes().substr(start));
  }
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  return items.empty() ? Value::MakeUndefined("No last item, sequence was empty.") : items.back();
}

Result<Value> ToList(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(std::vector<Value> items, Collect(runtime, input));
  return runtime.List(std::move(items));
}

// An iterator over values that are there already.
Result<Value> IterateOver(Runtime& runtime, std::vector<Value> values) {
  ASHLAR_ASSIGN(const Value list, runtime.List(std::move(values)));
  return runtime.MakeIterator(
      [list, i = std::size_t{0}](Runtime&) mutable -> Result<std::optional<Value>> {
        return i < list.items().size() ? std::optional<Value>(list.items()[i++])
                                       : std::optional<Value>();
      },
      DepthOf(list));
}

Result<Value> Reverse(Runtime& runtime, const Value& input, const BoundArguments&) {
  if (input.IsString()) {
    SliceBounds backwards;
    backwards.step = Value::Integer(-1);
    return GetSlice(runtime, input, backwards);
  }
  ASHLAR_ASSIGN(std::vector<Value> items, Collect(runtime, input));
  std::reverse(items.begin(), items.end());
  return IsReversible(input) ? IterateOver(runtime, std::move(items))
                             : runtime.List(std::move(items));
}

Result<Value> Join(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const std::string separator,
                arguments.Has(0) ? Str(runtime, arguments[0]) : Result<std::string>(""));
  ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, arguments.OrNone(1)));
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime, input));
  std::string out;
  for (bool is_first = true;; is_first = false) {
    ASHLAR_ASSIGN(const std::optional<Value> item, iterator->Next(runtime));
    if (!item) {
      return runtime.String(std::move(out));
    }
    if (!is_first) {
      ASHLAR_TRY(runtime.SpendBytes(separator.size()));
      ASHLAR_TRY(runtime.CheckStringBytes(out.size() + separator.size()));
      out += separator;
    }
    ASHLAR_ASSIGN(const Value value, path.Get(runtime, *item));
    ASHLAR_TRY(AppendStr(runtime, value, &out));
  }
}

Result<std::vector<Value>> KeysOf(Runtime& runtime, const std::vector<Value>& items,
                                  const AttributePath& path, Case letter_case) {
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) {
    ASHLAR_ASSIGN(Value key, path.Get(runtime, item));
    ASHLAR_ASSIGN(key, ComparisonKey(runtime, std::move(key), letter_case));
    keys.push_back(std::move(key));
  }
  return keys;
}

// The attribute may be several, "age,name": the key is a list of their values.
Result<std::vector<Value>> SortKeys(Runtime& runtime, const std::vector<Value>& items,
                                    const Value& attribute, Case letter_case) {
  if (!attribute.IsString() || attribute.bytes().find(',') == std::string::npos) {
    ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, attribute));
    return KeysOf(runtime, items, path, letter_case);
  }
  std::vector<std::vector<Value>> columns;
  std::string_view rest = attribute.bytes();
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    ASHLAR_ASSIGN(const Value name, runtime.String(std::string(rest.substr(0, comma))));
    ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, name));
    ASHLAR_ASSIGN(std::vector<Value> column, KeysOf(runtime, items, path, letter_case));
    columns.push_back(std::move(column));
    if (comma == rest.size()) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  std::vector<Value> keys;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<Value> key;
    for (const std::vector<Value>& column : columns) {
      key.push_back(column[i]);
    }
    ASHLAR_ASSIGN(Value list, runtime.List(std::move(key)));
    keys.push_back(std::move(list));
  }
  return keys;
}

Result<Value> Sort(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  ASHLAR_ASSIGN(const std::vector<Value> keys,
                SortKeys(runtime, items, arguments.OrNone(2), CaseOf(arguments, 1)));
  ASHLAR_ASSIGN(std::vector<Value> sorted,
                SortedByKeys(runtime, items, keys, OrderOf(arguments, 0)));
  return runtime.List(std::move(sorted));
}

Result<Value> DictSort(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  if (!input.IsDict()) {
    return Invalid("dictsort() needs a dict, not '{}'", TypeName(input));
  }
  ASHLAR_ASSIGN(const std::string_view by, arguments.Text(1, "key"));
  if (by != "key" && by != "value") {
    return Invalid("dictsort() sorts by 'key' or 'value', not '{}'", Excerpt(by));
  }
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [name, value] : input.dict().entries) {
    ASHLAR_ASSIGN(Value pair, runtime.Tuple({name, value}));
    pairs.push_back(std::move(pair));
    ASHLAR_ASSIGN(Value key,
                  ComparisonKey(runtime, by == "key" ? name : value, CaseOf(arguments, 0)));
    keys.push_back(std::move(key));
  }
  ASHLAR_ASSIGN(std::vector<Value> sorted,
                SortedByKeys(runtime, pairs, keys, OrderOf(arguments, 2)));
  return runtime.List(std::move(sorted));
}

template <bool kIsMaximum>
Result<Value> Extreme(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  if (items.empty()) {
    return Value::MakeUndefined("No aggregated item, sequence was empty.");
  }
  ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, arguments.OrNone(1)));
  ASHLAR_ASSIGN(const std::vector<Value> keys, KeysOf(runtime, items, path, CaseOf(arguments, 0)));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    ASHLAR_ASSIGN(const bool is_better, kIsMaximum ? Less(runtime, keys[best], keys[i])
                                                   : Less(runtime, keys[i], keys[best]));
    best = is_better ? i : best;
  }
  return items[best];
}

Result<Value> Sum(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, arguments.OrNone(0)));
  Value total = arguments.Has(1) ? arguments[1] : Value::Integer(0);
  if (total.IsString()) {
    return Invalid("sum() cannot add strings; use `| join`");
  }
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  for (const Value& item : items) {
    ASHLAR_ASSIGN(const Value value, path.Get(runtime, item));
    ASHLAR_ASSIGN(total, Apply(runtime, Arithmetic::kAdd, total, value));
  }
  return total;
}

Result<Value> GroupBy(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const AttributePath path, AttributePath::Parse(runtime, arguments[0]));
  const std::optional<Value> otherwise =
      arguments.HasValue(1) ? std::optional<Value>(arguments[1]) : std::nullopt;
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  std::vector<Value> keys;
  std::vector<Value> pairs;
  for (const Value& item : items) {
    ASHLAR_ASSIGN(const Value name, path.Get(runtime, item, otherwise));
    ASHLAR_ASSIGN(Value key, ComparisonKey(runtime, name, CaseOf(arguments, 2)));
    ASHLAR_ASSIGN(Value pair, runtime.Tuple({key, name, item}));
    keys.push_back(std::move(key));
    pairs.push_back(std::move(pair));
  }
  ASHLAR_ASSIGN(const std::vector<Value> sorted,
                SortedByKeys(runtime, pairs, keys, Order::kAscending));
  std::vector<Value> groups;
  for (std::size_t i = 0; i < sorted.size();) {
    std::vector<Value> group;
    const std::size_t first = i;
    for (bool is_same = true; is_same;) {
      group.push_back(sorted[i++].items()[2]);
      is_same = i < sorted.size();
      if (is_same) {
        ASHLAR_ASSIGN(is_same, Equal(runtime, sorted[i].items()[0], sorted[first].items()[0]));
      }
    }
    ASHLAR_ASSIGN(Value list, runtime.List(std::move(group)));
    ASHLAR_ASSIGN(Value entry, runtime.MakeSequence({sorted[first].items()[1], std::move(list)},
                                                    SequenceKind::kGroup));
    groups.push_back(std::move(entry));
  }
  return runtime.List(std::move(groups));
}

// An error when a filter is asked for more items than memory may hold.
Status CheckCount(const Runtime& runtime, std::string_view filter, Int count) {
  const Int most = static_cast<Int>(runtime.limits().live_bytes / sizeof(Sequence));
  if (count > most) {
    return Exhausted("{}() of {} items; at most {} are allowed", filter, count, most);
  }
  return {};
}

Result<Value> Batch(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const Int size, arguments.Integer(0, 1));
  ASHLAR_TRY(CheckCount(runtime, "batch", arguments.HasValue(1) ? size : 0));
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  std::vector<Value> batches;
  std::vector<Value> batch;
  const auto flush = [&]() -> Status {
    ASHLAR_ASSIGN(Value list, runtime.List(std::exchange(batch, {})));
    batches.push_back(std::move(list));
    return {};
  };
  for (const Value& item : items) {
    if (static_cast<Int>(batch.size()) == size) {
      ASHLAR_TRY(flush());
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (arguments.HasValue(1) && static_cast<Int>(batch.size()) < size) {
      ASHLAR_TRY(runtime.Spend());
      batch.push_back(arguments[1]);
    }
    ASHLAR_TRY(flush());
  }
  return IterateOver(runtime, std::move(batches));
}

Result<Value> Slice(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const Int count, arguments.Integer(0, 1));
  ASHLAR_ASSIGN(const std::vector<Value> items, Collect(runtime, input));
  if (count == 0) {
    return Invalid("slice() into no slices");
  }
  ASHLAR_TRY(CheckCount(runtime, "slice", count));
  const Int length = static_cast<Int>(items.size());
  std::vector<Value> slices;
  Int start = 0;
  for (Int i = 0; i < count; ++i) {
    ASHLAR_TRY(runtime.Spend());
    const bool has_extra = i < length % count;
    const Int end = start + length / count + (has_extra ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<std::ptrdiff_t>(start),
                             items.begin() + static_cast<std::ptrdiff_t>(end));
    if (arguments.HasValue(1) && !has_extra) {
      slice.push_back(arguments[1]);
    }
    ASHLAR_ASSIGN(Value list, runtime.List(std::move(slice)));
    slices.push_back(std::move(list));
    start = end;
  }
  return IterateOver(runtime, std::move(slices));
}

constexpr std::array kFilters = {
    Filter{{"batch", {"linecount", "fill_with"}, 1}, &Batch},
    Filter{{"dictsort", {"case_sensitive", "by", "reverse"}}, &DictSort},
    Filter{{"first"}, &First},
    Filter{{"groupby", {"attribute", "default", "case_sensitive"}, 1}, &GroupBy},
    Filter{{"join", {"d", "attribute"}}, &Join},
    Filter{{"last"}, &Last},
    Filter{{"list"}, &ToList},
    Filter{{"max", {"case_sensitive", "attribute"}}, &Extreme<true>},
    Filter{{"min", {"case_sensitive", "attribute"}}, &Extreme<false>},
    Filter{{"reverse"}, &Reverse},
    Filter{{"slice", {"slices", "fill_with"}, 1}, &Slice},
    Filter{{"sort", {"reverse", "case_sensitive", "attribute"}}, &Sort},
    Filter{{"sum", {"attribute", "start"}}, &Sum},
};

}  // namespace

std::span<const Filter> SequenceFilters() { return kFilters; }

}  // namespace ashlar::text::jinja
