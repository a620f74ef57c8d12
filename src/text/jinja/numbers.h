// Numbers from text, as Python's int() and float() read them.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// int(text, base): spaces around, a sign, single underscores between digits, the prefix of its
// base; base 0 takes the prefix's. Nothing when it is no integer, or has more than 127 bits.
std::optional<Int> ReadInteger(std::string_view text, int base);

// float(text): as above, with fraction and exponent; "inf" and "nan" in any case.
std::optional<double> ReadFloat(std::string_view text);

// Digits with a fraction or an exponent, no sign, no underscores. Too large is infinity, too small
// is 0.
std::optional<double> ReadDecimal(std::string_view text);

}  // namespace ashlar::text::jinja
