// Text as Python's str sees it: code points over UTF-8, its notion of white space, lines and letter
// case.
//
// All inputs are valid UTF-8 unless said otherwise. Properties are utf8proc's; full case mappings
// (one letter to several) and the final sigma follow the Unicode standard's SpecialCasing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::text::jinja {

bool IsValidUtf8(std::string_view bytes);  // any bytes
std::size_t CountChars(std::string_view text);
// The code point at byte `*pos`, which moves behind it. Precondition: *pos < text.size().
char32_t NextChar(std::string_view text, std::size_t* pos);
// The code point that ends at byte `end` (its first byte in `*start`). Precondition: end > 0.
char32_t PreviousChar(std::string_view text, std::size_t end, std::size_t* start);
void AppendChar(std::string* out, char32_t c);  // precondition: c is a scalar value
// Byte position of code point `index`, text.size() when there are no more.
std::size_t ByteOffset(std::string_view text, std::size_t index);
std::vector<std::string_view> SplitChars(std::string_view text);

// Classes, as str.isspace() and its like.
bool IsSpace(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
bool IsPrintable(char32_t c);
bool IsIdentifierStart(char32_t c);
bool IsIdentifierPart(char32_t c);

std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
std::string_view StripLeft(std::string_view text, std::string_view chars);
std::string_view StripRight(std::string_view text, std::string_view chars);
// str.splitlines(): all of Unicode's line ends.
enum class LineEnds { kDropped, kKept };
std::vector<std::string_view> SplitLines(std::string_view text, LineEnds ends);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);
// First letter as a title, the rest lower case.
std::string Capitalize(std::string_view text);
// The first letter of every run of letters.
std::string ToTitle(std::string_view text);

}  // namespace ashlar::text::jinja
