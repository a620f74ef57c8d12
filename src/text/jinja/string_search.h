// Splitting, replacing and padding of strings, shared by methods and filters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace ashlar::text::jinja {

// Positions of the first and the last occurrence, or npos; linear in the text whatever it holds
// (std::string's find is not).
std::size_t FindText(std::string_view text, std::string_view wanted);
std::size_t FindLastText(std::string_view text, std::string_view wanted);

// At most `most` cuts; std::string::npos for any number. The separator is not empty.
std::vector<std::string_view> SplitLeft(std::string_view text, std::string_view separator,
                                        std::size_t most);
std::vector<std::string_view> SplitRight(std::string_view text, std::string_view separator,
                                         std::size_t most);
// At runs of white space; none of the parts is empty.
std::vector<std::string_view> SplitSpaceLeft(std::string_view text, std::size_t most);
std::vector<std::string_view> SplitSpaceRight(std::string_view text, std::size_t most);

// The first `limit` occurrences (all when negative); an empty `old_text` stands between all
// characters.
Result<std::string> Replace(Runtime& runtime, std::string_view text, std::string_view old_text,
                            std::string_view new_text, Int limit);

enum class Padding { kLeft, kRight, kCenter };  // where the fill goes
// `fill` is one character.
Result<std::string> PadTo(Runtime& runtime, std::string_view text, Int width, std::string_view fill,
                          Padding padding);

// The part of `self` between the optional code point positions bound[first] and bound[first + 1];
// data() is nullptr when the start is behind the end.
Result<std::string_view> Section(Runtime& runtime, const Value& self, const BoundArguments& bound,
                                 std::size_t first);

// Strings that are markup when `like` is.
Result<Value> ListOfStrings(Runtime& runtime, const Value& like,
                            const std::vector<std::string_view>& parts);

// str.isupper(), .islower(), .istitle(): there is a cased letter, and all are as the name says.
bool IsUpperText(std::string_view text);
bool IsLowerText(std::string_view text);
bool IsTitleText(std::string_view text);

}  // namespace ashlar::text::jinja
