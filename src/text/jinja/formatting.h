// Python's two ways to format: "%s is %d" % values and "{} is {:>4}".format(values).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// format % values: a tuple of values, a dict for %(name)s, or one value. Conversions s r d i u f F
// e E g G x X o c %; flags - + 0 # and space; width and precision, also as *.
Result<Value> FormatPercent(Runtime& runtime, const Value& format, const Value& values);

// The method str.format: {} {0} {name} {0.attribute} {0[key]} {:spec} {!r}, {{ and }}.
Result<Value> FormatBraces(Runtime& runtime, const Value& self, const Arguments& arguments);

// A number or text in a field, by Python's format specification
// [[fill]align][sign][#][0][width][,][.precision][type].
struct FieldSpec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, or 0 for the type's own
  char sign = '-';
  bool is_alternate = false;
  char group = 0;  // ',' or '_'
  Int width = 0;
  int precision = -1;
  char type = 0;
};
Result<std::string> FormatField(Runtime& runtime, const Value& value, const FieldSpec& spec);

}  // namespace ashlar::text::jinja
