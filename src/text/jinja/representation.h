// Values as text: Python's str() and repr(), and json.dumps().
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// str(value), at the end of `out`; nothing for undefined.
Status AppendStr(Runtime& runtime, const Value& value, std::string* out);
Result<std::string> Str(Runtime& runtime, const Value& value);
// As Str, as a value; a string is returned as it is (markup stays markup).
Result<Value> ToText(Runtime& runtime, const Value& value);
// repr(value).
Status AppendRepr(Runtime& runtime, const Value& value, std::string* out);
// repr() of a float: the shortest digits that read back the same.
std::string FloatRepr(double value);
// The first characters of `text`, for messages.
std::string Excerpt(std::string_view text);

struct JsonStyle {
  bool is_ascii = false;  // \uXXXX for what is not ASCII
  bool is_indented = false;
  std::string indent;  // of one level, when indented
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sorts_keys = false;
};
// json.dumps(value).
Status AppendJson(Runtime& runtime, const Value& value, const JsonStyle& style, std::string* out);

// The five characters that HTML gives a meaning, as entities.
std::string EscapeHtml(std::string_view text);

}  // namespace ashlar::text::jinja
