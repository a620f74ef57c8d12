#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace ashlar::text::jinja {
namespace {

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool Contains(std::string_view chars, std::string_view one) {
  return chars.find(one) != std::string_view::npos;
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  std::size_t pos = 0;
  while (pos < bytes.size()) {
    if (static_cast<unsigned char>(bytes[pos]) < 0x80) {
      ++pos;
      continue;
    }
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + pos,
                         static_cast<utf8proc_ssize_t>(bytes.size() - pos), &c);
    if (length <= 0) {
      return false;
    }
    pos += static_cast<std::size_t>(length);
  }
  return true;
}

std::size_t CountChars(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), IsContinuation));
}

char32_t NextChar(std::string_view text, std::size_t* pos) {
  const auto byte = [&](std::size_t i) -> char32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const std::size_t i = *pos;
  const char32_t lead = byte(i);
  if (lead < 0x80) {
    *pos = i + 1;
    return lead;
  }
  if (lead < 0xE0) {
    *pos = std::min(i + 2, text.size());
    return ((lead & 0x1F) << 6) | (byte(i + 1) & 0x3F);
  }
  if (lead < 0xF0) {
    *pos = std::min(i + 3, text.size());
    return ((lead & 0x0F) << 12) | ((byte(i + 1) & 0x3F) << 6) | (byte(i + 2) & 0x3F);
  }
  *pos = std::min(i + 4, text.size());
  return ((lead & 0x07) << 18) | ((byte(i + 1) & 0x3F) << 12) | ((byte(i + 2) & 0x3F) << 6) |
         (byte(i + 3) & 0x3F);
}

char32_t PreviousChar(std::string_view text, std::size_t end, std::size_t* start) {
  std::size_t first = end - 1;
  while (first > 0 && IsContinuation(text[first])) {
    --first;
  }
  *start = first;
  std::size_t pos = first;
  return NextChar(text, &pos);
}

void AppendChar(std::string* out, char32_t c) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t ByteOffset(std::string_view text, std::size_t index) {
  std::size_t pos = 0;
  while (pos < text.size() && index > 0) {
    ++pos;
    while (pos < text.size() && IsContinuation(text[pos])) {
      ++pos;
    }
    --index;
  }
  return pos;
}

std::vector<std::string_view> SplitChars(std::string_view text) {
  std::vector<std::string_view> chars;
  std::size_t pos = 0;
  while (pos < text.size()) {
    const std::size_t start = pos;
    (void)NextChar(text, &pos);
    chars.push_back(text.substr(start, pos - start));
  }
  return chars;
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsAlpha(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t c) {
  // Nd, and the superscripts, subscripts and encircled digits whose Numeric_Type is Digit.
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) ||
         c == 0x24FF || (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) ||
         (c >= 0x278A && c <= 0x2792) || (c >= 0x1369 && c <= 0x1371) || c == 0x19DA ||
         (c >= 0x10A40 && c <= 0x10A43) || (c >= 0x10E60 && c <= 0x10E68) ||
         (c >= 0x11052 && c <= 0x1105A) || (c >= 0x1F100 && c <= 0x1F10A);
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return IsDigit(c) || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool IsUpper(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
         (c >= 0x24B6 && c <= 0x24CF) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool IsLower(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
         (c >= 0x2B0 && c <= 0x2B8) || (c >= 0x2C0 && c <= 0x2C1) || (c >= 0x2E0 && c <= 0x2E4) ||
         c == 0x345 || c == 0x37A || (c >= 0x1D2C && c <= 0x1D6A) || c == 0x1D78 ||
         (c >= 0x1D9B && c <= 0x1DBF) || c == 0x2071 || c == 0x207F ||
         (c >= 0x2090 && c <= 0x209C) || (c >= 0x2170 && c <= 0x217F) ||
         (c >= 0x24D0 && c <= 0x24E9) || (c >= 0x2C7C && c <= 0x2C7D) ||
         (c >= 0xA69C && c <= 0xA69D) || c == 0xA770 || (c >= 0xA7F8 && c <= 0xA7F9) ||
         (c >= 0xAB5C && c <= 0xAB5F) || c == 0x10780 || (c >= 0x10783 && c <= 0x10785) ||
         (c >= 0x10787 && c <= 0x107B0) || (c >= 0x107B2 && c <= 0x107BA);
}

bool IsTitle(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }

bool IsPrintable(char32_t c) {
  if (c == ' ') {
    return true;
  }
  const utf8proc_category_t category = Category(c);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

bool IsIdentifierStart(char32_t c) {
  return c == '_' || IsAlpha(c) || Category(c) == UTF8PROC_CATEGORY_NL;
}

bool IsIdentifierPart(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return IsIdentifierStart(c) || category == UTF8PROC_CATEGORY_ND ||
         category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_PC;
}

std::string_view StripLeft(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::size_t next = pos;
    if (!IsSpace(NextChar(text, &next))) {
      break;
    }
    pos = next;
  }
  return text.substr(pos);
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    std::size_t start = 0;
    if (!IsSpace(PreviousChar(text, text.size(), &start))) {
      break;
    }
    text = text.substr(0, start);
  }
  return text;
}

std::string_view StripLeft(std::string_view text, std::string_view chars) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::size_t next = pos;
    (void)NextChar(text, &next);
    if (!Contains(chars, text.substr(pos, next - pos))) {
      break;
    }
    pos = next;
  }
  return text.substr(pos);
}

std::string_view StripRight(std::string_view text, std::string_view chars) {
  while (!text.empty()) {
    std::size_t start = 0;
    (void)PreviousChar(text, text.size(), &start);
    if (!Contains(chars, text.substr(start))) {
      break;
    }
    text = text.substr(0, start);
  }
  return text;
}

std::vector<std::string_view> SplitLines(std::string_view text, LineEnds ends) {
  std::vector<std::string_view> lines;
  std::size_t line_start = 0;
  std::size_t pos = 0;
  while (pos < text.size()) {
    const std::size_t end = pos;
    const char32_t c = NextChar(text, &pos);
    if (!IsLineEnd(c)) {
      continue;
    }
    if (c == '\r' && pos < text.size() && text[pos] == '\n') {
      ++pos;
    }
    lines.push_back(text.substr(line_start, (ends == LineEnds::kKept ? pos : end) - line_start));
    line_start = pos;
  }
  if (line_start < text.size()) {
    lines.push_back(text.substr(line_start));
  }
  return lines;
}

}  // namespace ashlar::text::jinja
