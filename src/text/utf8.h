// UTF-8 as bytes: where code points begin and end, and what can never become one.
//
// Well-formed means Unicode's table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : std::uint8_t {
  kWhole,       // one code point
  kIncomplete,  // the text ends inside what may still become a code point
  kInvalid,     // bytes that no continuation can repair
};

struct Utf8Sequence {
  Utf8Kind kind;
  // Bytes it takes: 1 to 4. For kInvalid the longest prefix of a well-formed sequence, at least 1
  // (the unit that Unicode, browsers and Python replace by one U+FFFD).
  std::uint8_t bytes;
};

// The sequence at the front of `text`. Precondition: !text.empty().
Utf8Sequence FirstSequence(std::string_view text);

// Bytes of the longest prefix that is whole code points.
std::size_t WholePrefix(std::string_view text);

// Every kInvalid and kIncomplete sequence replaced by one U+FFFD.
std::string ReplaceInvalid(std::string_view text);

}  // namespace ashlar::text
