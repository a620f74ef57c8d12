// Cuts a template into tokens, with the reference's white-space rules: trim_blocks (the line end
// behind a block tag goes), lstrip_blocks (blanks before a block tag that begins its line go), and
// the signs
// `{%-`, `-%}`, `{%+`, `+%}`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

enum class TokenKind {
  kData,           // text outside tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of data, names, operators; strings without quotes and escapes
  Value number;      // of kNumber
};

// All tokens; the last is kEnd. Comments are gone, raw blocks are data. Errors: kInvalidArgument,
// kResourceExhausted (source too long), each with its line.
Result<std::vector<Token>> Tokenize(std::string_view source, const Limits& limits);

// "line 3: ..." in front of a message.
Error AtLine(int line, Error error);

}  // namespace ashlar::text::jinja
