// The filters: `value | name(arguments)`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

bool HasFilter(std::string_view name);
// What to say about a filter that we do not have.
std::string UnknownFilter(std::string_view name);
Result<Value> CallFilter(Runtime& runtime, std::string_view name, const Value& input,
                         const Arguments& arguments);

// A filter has one of two bodies: with its arguments bound to a signature, or as they come.
struct Filter {
  Signature signature;
  Result<Value> (*body)(Runtime&, const Value& input, const BoundArguments&) = nullptr;
  Result<Value> (*variadic_body)(Runtime&, const Value& input, const Arguments&) = nullptr;
};
// By family; each in its own file.
std::span<const Filter> TextFilters();        // text_filters.cc
std::span<const Filter> SequenceFilters();    // sequence_filters.cc
std::span<const Filter> SelectionFilters();   // selection_filters.cc
std::span<const Filter> ConversionFilters();  // conversion_filters.cc

// What `attribute=` arguments name: "a.b.0" as a path; an integer as an index; None as nothing.
class AttributePath {
 public:
  static Result<AttributePath> Parse(Runtime& runtime, const Value& attribute);
  // The value at the path. Undefined on the way becomes `otherwise`, when there is one.
  Result<Value> Get(Runtime& runtime, const Value& item,
                    const std::optional<Value>& otherwise = std::nullopt) const;

 private:
  std::vector<Value> parts_;
};

enum class Case { kMatters, kIgnored };
enum class Order { kAscending, kDescending };

// A value to compare by: strings in lower case unless case matters.
Result<Value> ComparisonKey(Runtime& runtime, Value value, Case letter_case);
// Stable; costs a step for every comparison. `keys` and `values` are of one length.
Result<std::vector<Value>> SortedByKeys(Runtime& runtime, const std::vector<Value>& values,
                                        const std::vector<Value>& keys, Order direction);

}  // namespace ashlar::text::jinja
