#include "text/jinja/filters.h"

#include <algorithm>
#include <array>
#include <map>

#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

const Filter* FindFilter(std::string_view name) {
  static const auto* const kByName = [] {
    auto* by_name = new std::map<std::string_view, const Filter*>();
    for (const auto filters :
         {TextFilters(), SequenceFilters(), SelectionFilters(), ConversionFilters()}) {
      for (const Filter& filter : filters) {
        by_name->emplace(filter.signature.name, &filter);
      }
    }
    return by_name;
  }();
  const auto found = kByName->find(name);
  return found != kByName->end() ? found->second : nullptr;
}

// Filters of the reference that no chat template has a use for.
constexpr std::array<std::string_view, 7> kOutsideTheSubset = {
    "filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"};

// Merge sort, bottom up: std::stable_sort cannot stop at an error of the comparison.
Status SortIndices(Runtime& runtime, const std::vector<Value>& keys, Order direction,
                   std::vector<std::size_t>* order) {
  std::vector<std::size_t> merged(order->size());
  for (std::size_t width = 1; width < order->size(); width *= 2) {
    for (std::size_t start = 0; start < order->size(); start += 2 * width) {
      const std::size_t middle = std::min(start + width, order->size());
      const std::size_t end = std::min(start + 2 * width, order->size());
      std::size_t left = start;
      std::size_t right = middle;
      for (std::size_t i = start; i < end; ++i) {
        bool takes_right = left == middle;
        if (left < middle && right < end) {
          const Value& left_key = keys[(*order)[left]];
          const Value& right_key = keys[(*order)[right]];
          ASHLAR_ASSIGN(takes_right, direction == Order::kDescending
                                         ? Less(runtime, left_key, right_key)
                                         : Less(runtime, right_key, left_key));
        }
        merged[i] = (*order)[takes_right ? right++ : left++];
      }
    }
    std::swap(*order, merged);
  }
  return {};
}

}  // namespace

bool HasFilter(std::string_view name) { return FindFilter(name) != nullptr; }

std::string UnknownFilter(std::string_view name) {
  if (std::find(kOutsideTheSubset.begin(), kOutsideTheSubset.end(), name) !=
      kOutsideTheSubset.end()) {
    return fmt::format("the filter '{}' is outside the subset of Jinja for chat templates", name);
  }
  return fmt::format("unknown filter '{}'", Excerpt(name));
}

Result<Value> CallFilter(Runtime& runtime, std::string_view name, const Value& input,
                         const Arguments& arguments) {
  const Filter* filter = FindFilter(name);
  if (filter == nullptr) {
    return Unsupported("{}", UnknownFilter(name));
  }
  if (filter->variadic_body != nullptr) {
    return filter->variadic_body(runtime, input, arguments);
  }
  ASHLAR_ASSIGN(const BoundArguments bound, BoundArguments::Bind(filter->signature, arguments));
  return filter->body(runtime, input, bound);
}

Result<AttributePath> AttributePath::Parse(Runtime& runtime, const Value& attribute) {
  AttributePath path;
  if (attribute.IsNone()) {
    return path;
  }
  if (!attribute.IsString()) {
    path.parts_.push_back(attribute);
    return path;
  }
  for (const std::string_view part : SplitLeft(attribute.bytes(), ".", std::string::npos)) {
    const bool is_index =
        !part.empty() && part.size() < 18 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    ASHLAR_ASSIGN(const Value name, runtime.String(std::string(part)));
    path.parts_.push_back(is_index ? Value::Integer(std::stoll(std::string(part))) : name);
  }
  return path;
}

Result<Value> AttributePath::Get(Runtime& runtime, const Value& item,
                                 const std::optional<Value>& otherwise) const {
  Value value = item;
  for (const Value& part : parts_) {
    ASHLAR_TRY(runtime.Spend());
    ASHLAR_ASSIGN(value, GetItem(runtime, value, part));
    if (value.IsUndefined() && otherwise) {
      value = *otherwise;
    }
  }
  return value;
}

Result<Value> ComparisonKey(Runtime& runtime, Value value, Case letter_case) {
  if (letter_case == Case::kMatters || !value.IsString()) {
    return value;
  }
  ASHLAR_TRY(runtime.Spend(value.bytes().size() / 8));
  return runtime.String(ToLower(value.bytes()));
}

Result<std::vector<Value>> SortedByKeys(Runtime& runtime, const std::vector<Value>& values,
                                        const std::vector<Value>& keys, Order direction) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  ASHLAR_TRY(SortIndices(runtime, keys, direction, &order));
  std::vector<Value> sorted;
  sorted.reserve(values.size());
  for (const std::size_t i : order) {
    sorted.push_back(values[i]);
  }
  return sorted;
}

}  // namespace ashlar::text::jinja
