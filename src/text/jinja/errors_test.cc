// What a failing template says: the kind of error, the line, the thing that is wrong.
#include <gtest/gtest.h>

#include "text/jinja/testing/render.h"

namespace ashlar::text::jinja {
namespace {

using testing::Render;

struct Expected {
  ErrorCode code;
  std::string_view message;
};

void ExpectError(std::string_view source, const Expected& expected) {
  const Result<std::string> result = Render(source);
  ASSERT_FALSE(result.ok()) << source;
  EXPECT_EQ(result.error().code, expected.code) << source << ": " << result.error().message;
  EXPECT_EQ(result.error().message, expected.message) << source;
}

TEST(Errors, SyntaxNamesItsLine) {
  ExpectError("a\nb\n{{ 1 + }}",
              {ErrorCode::kInvalidArgument, "line 3: unexpected '}}', expected an expression"});
  ExpectError("\n{% if x %}\n\n",
              {ErrorCode::kInvalidArgument,
               "line 3: unexpected end of the template; 'if' is still open (expected 'elif' or "
               "'else' or 'endif')"});
  ExpectError("{{\n\n'x }}",
              {ErrorCode::kInvalidArgument, "line 3: the string that begins with ' has no end"});
  ExpectError("x{#\n", {ErrorCode::kInvalidArgument, "line 1: the comment has no end '#}'"});
  ExpectError("\r\n\r{{ $ }}", {ErrorCode::kInvalidArgument, "line 3: unexpected character '$'"});
}

TEST(Errors, LinesCountThroughStrippedSpaceAndComments) {
  ExpectError("a\n\n{#- x\n y -#}\n\n{{- nothing.x }}",
              {ErrorCode::kInvalidArgument, "line 6: 'nothing' is undefined"});
  ExpectError("{% raw %}\n\n{% endraw %}\n{{ 1 / 0 }}",
              {ErrorCode::kInvalidArgument, "line 4: division by zero"});
}

TEST(Errors, WhatIsOutsideTheSubsetIsUnsupported) {
  ExpectError("\n{% include 'x' %}",
              {ErrorCode::kUnsupported,
               "line 2: the tag 'include' is outside the subset of Jinja for chat templates"});
  ExpectError("{% frobnicate %}", {ErrorCode::kUnsupported, "line 1: unknown tag 'frobnicate'"});
  ExpectError("{% if x %}{% frobnicate %}",
              {ErrorCode::kUnsupported,
               "line 1: unknown tag 'frobnicate'; the innermost open block is 'if'"});
  ExpectError("\n\n{{ x | frobnicate }}",
              {ErrorCode::kUnsupported, "line 3: unknown filter 'frobnicate'"});
  ExpectError("{{ x | urlize }}",
              {ErrorCode::kUnsupported,
               "line 1: the filter 'urlize' is outside the subset of Jinja for chat templates"});
  ExpectError("{{ x is frobnicated }}",
              {ErrorCode::kUnsupported, "line 1: unknown test 'frobnicated'"});
  ExpectError(
      "{{ 'x'.encode() }}",
      {ErrorCode::kUnsupported,
       "line 1: the attribute 'encode' of 'str' objects is outside the subset for chat templates"});
  ExpectError("{{ {(1, 2): 3} }}",
              {ErrorCode::kUnsupported, "line 1: 'tuple' as the key of a dict"});
  ExpectError("{{ 9 ** 99 }}",
              {ErrorCode::kUnsupported, "line 1: an integer has more than 127 bits"});
  ExpectError("{{ strftime_now('%Q') }}",
              {ErrorCode::kUnsupported, "line 1: the directive %Q of strftime_now()"});
  ExpectError(
      "{{ [1] | map('string') }}",
      {ErrorCode::kUnsupported, "line 1: printing a 'generator' object; add `| list` or `| join`"});
}

TEST(Errors, AnUnknownFilterInABranchNotTakenIsNoError) {
  EXPECT_EQ(*Render("{% if false %}{{ x | frobnicate }}{% endif %}ok"), "ok");
  EXPECT_EQ(*Render("{{ x | frobnicate if false else 'ok' }}"), "ok");
  ExpectError("{% if true %}\n{{ x | frobnicate }}{% endif %}",
              {ErrorCode::kUnsupported, "line 2: unknown filter 'frobnicate'"});
  ExpectError("{% if true %}{% endif %}{{ x | frobnicate }}",
              {ErrorCode::kUnsupported, "line 1: unknown filter 'frobnicate'"});
}

TEST(Errors, RaiseExceptionSaysWhatTheTemplateSays) {
  ExpectError("\n\n{{ raise_exception('Roles must alternate: ' ~ 1) }}",
              {ErrorCode::kInvalidArgument, "Roles must alternate: 1"});
}

TEST(Errors, RuntimeErrorsNameTheInnermostLine) {
  ExpectError("{% macro m(x) %}\n{{ x.a.b }}\n{% endmacro %}\n\n{{ m({}) }}",
              {ErrorCode::kInvalidArgument, "line 2: 'dict' object has no attribute 'a'"});
  ExpectError("{% for a, b in [[1, 2],\n[3]] %}{% endfor %}",
              {ErrorCode::kInvalidArgument, "line 1: 1 values cannot be assigned to 2 names"});
  ExpectError(
      "{{ [1,\n2,\n3 + 'x'] }}",
      {ErrorCode::kInvalidArgument, "line 3: unsupported operand types for +: 'int' and 'str'"});
}

TEST(Errors, LongNamesAreCutInMessages) {
  const std::string name(1000, 'n');
  const Result<std::string> result = Render("{{ " + name + ".x }}");
  ASSERT_FALSE(result.ok());
  EXPECT_LT(result.error().message.size(), 120u);
}

TEST(Errors, AnEscapeCutInsideACharacterIsQuotedWhole) {
  ExpectError("{{ '\\u0\xD0\x9A\xC6\x99' }}",
              {ErrorCode::kInvalidArgument,
               "line 1: a truncated escape '\\u0' in a string; it needs 4 hexadecimal digits"});
}

TEST(Errors, BytesThatAreNotUtf8AreRefused) {
  EXPECT_EQ(Render("a\xFF").error().message, "the template is not UTF-8");
  nlohmann::ordered_json context = {{"x", "\xC3"}};
  EXPECT_EQ(Render("\n{{ x }}", context).error().message,
            "line 2: a string of 1 bytes in the context is not UTF-8");
  EXPECT_EQ(Render("x", nlohmann::ordered_json::array()).error().message,
            "the context of a template must be an object, not array");
}

}  // namespace
}  // namespace ashlar::text::jinja
