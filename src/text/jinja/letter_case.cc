// Letter case of unicode.h. utf8proc maps a letter to a letter; the tables here are the letters
// that become several (SpecialCasing.txt of the Unicode standard, unconditional mappings).
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

struct Expansion {
  char32_t letter;
  const char32_t* letters;
};

constexpr Expansion kUpperExpansions[] = {
    {0x00DF, U"SS"},
    {0x0149, U"\u02BCN"},
    {0x01F0, U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552"},
    {0x1E96, U"H\u0331"},
    {0x1E97, U"T\u0308"},
    {0x1E98, U"W\u030A"},
    {0x1E99, U"Y\u030A"},
    {0x1E9A, U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342"},
    {0x1F80, U"\u1F08\u0399"},
    {0x1F81, U"\u1F09\u0399"},
    {0x1F82, U"\u1F0A\u0399"},
    {0x1F83, U"\u1F0B\u0399"},
    {0x1F84, U"\u1F0C\u0399"},
    {0x1F85, U"\u1F0D\u0399"},
    {0x1F86, U"\u1F0E\u0399"},
    {0x1F87, U"\u1F0F\u0399"},
    {0x1F88, U"\u1F08\u0399"},
    {0x1F89, U"\u1F09\u0399"},
    {0x1F8A, U"\u1F0A\u0399"},
    {0x1F8B, U"\u1F0B\u0399"},
    {0x1F8C, U"\u1F0C\u0399"},
    {0x1F8D, U"\u1F0D\u0399"},
    {0x1F8E, U"\u1F0E\u0399"},
    {0x1F8F, U"\u1F0F\u0399"},
    {0x1F90, U"\u1F28\u0399"},
    {0x1F91, U"\u1F29\u0399"},
    {0x1F92, U"\u1F2A\u0399"},
    {0x1F93, U"\u1F2B\u0399"},
    {0x1F94, U"\u1F2C\u0399"},
    {0x1F95, U"\u1F2D\u0399"},
    {0x1F96, U"\u1F2E\u0399"},
    {0x1F97, U"\u1F2F\u0399"},
    {0x1F98, U"\u1F28\u0399"},
    {0x1F99, U"\u1F29\u0399"},
    {0x1F9A, U"\u1F2A\u0399"},
    {0x1F9B, U"\u1F2B\u0399"},
    {0x1F9C, U"\u1F2C\u0399"},
    {0x1F9D, U"\u1F2D\u0399"},
    {0x1F9E, U"\u1F2E\u0399"},
    {0x1F9F, U"\u1F2F\u0399"},
    {0x1FA0, U"\u1F68\u0399"},
    {0x1FA1, U"\u1F69\u0399"},
    {0x1FA2, U"\u1F6A\u0399"},
    {0x1FA3, U"\u1F6B\u0399"},
    {0x1FA4, U"\u1F6C\u0399"},
    {0x1FA5, U"\u1F6D\u0399"},
    {0x1FA6, U"\u1F6E\u0399"},
    {0x1FA7, U"\u1F6F\u0399"},
    {0x1FA8, U"\u1F68\u0399"},
    {0x1FA9, U"\u1F69\u0399"},
    {0x1FAA, U"\u1F6A\u0399"},
    {0x1FAB, U"\u1F6B\u0399"},
    {0x1FAC, U"\u1F6C\u0399"},
    {0x1FAD, U"\u1F6D\u0399"},
    {0x1FAE, U"\u1F6E\u0399"},
    {0x1FAF, U"\u1F6F\u0399"},
    {0x1FB2, U"\u1FBA\u0399"},
    {0x1FB3, U"\u0391\u0399"},
    {0x1FB4, U"\u0386\u0399"},
    {0x1FB6, U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399"},
    {0x1FBC, U"\u0391\u0399"},
    {0x1FC2, U"\u1FCA\u0399"},
    {0x1FC3, U"\u0397\u0399"},
    {0x1FC4, U"\u0389\u0399"},
    {0x1FC6, U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399"},
    {0x1FCC, U"\u0397\u0399"},
    {0x1FD2, U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0399"},
    {0x1FF3, U"\u03A9\u0399"},
    {0x1FF4, U"\u038F\u0399"},
    {0x1FF6, U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0399"},
    {0x1FFC, U"\u03A9\u0399"},
    {0xFB00, U"FF"},
    {0xFB01, U"FI"},
    {0xFB02, U"FL"},
    {0xFB03, U"FFI"},
    {0xFB04, U"FFL"},
    {0xFB05, U"ST"},
    {0xFB06, U"ST"},
    {0xFB13, U"\u0544\u0546"},
    {0xFB14, U"\u0544\u0535"},
    {0xFB15, U"\u0544\u053B"},
    {0xFB16, U"\u054E\u0546"},
    {0xFB17, U"\u0544\u053D"},
};
constexpr Expansion kTitleExpansions[] = {
    {0x00DF, U"Ss"},
    {0x0149, U"\u02BCN"},
    {0x01F0, U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0582"},
    {0x1E96, U"H\u0331"},
    {0x1E97, U"T\u0308"},
    {0x1E98, U"W\u030A"},
    {0x1E99, U"Y\u030A"},
    {0x1E9A, U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342"},
    {0x1FB2, U"\u1FBA\u0345"},
    {0x1FB4, U"\u0386\u0345"},
    {0x1FB6, U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0345"},
    {0x1FC2, U"\u1FCA\u0345"},
    {0x1FC4, U"\u0389\u0345"},
    {0x1FC6, U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0345"},
    {0x1FD2, U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0345"},
    {0x1FF4, U"\u038F\u0345"},
    {0x1FF6, U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0345"},
    {0xFB00, U"Ff"},
    {0xFB01, U"Fi"},
    {0xFB02, U"Fl"},
    {0xFB03, U"Ffi"},
    {0xFB04, U"Ffl"},
    {0xFB05, U"St"},
    {0xFB06, U"St"},
    {0xFB13, U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0565"},
    {0xFB15, U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0576"},
    {0xFB17, U"\u0544\u056D"},
};

// The letters `c` expands to, or nullptr. Tables are sorted by letter.
template <std::size_t kSize>
const char32_t* FindExpansion(const Expansion (&table)[kSize], char32_t c) {
  const auto* found = std::lower_bound(
      std::begin(table), std::end(table), c,
      [](const Expansion& entry, char32_t wanted) { return entry.letter < wanted; });
  return found != std::end(table) && found->letter == c ? found->letters : nullptr;
}

void AppendExpansion(std::string* out, const char32_t* letters) {
  for (; *letters != 0; ++letters) {
    AppendChar(out, *letters);
  }
}

char32_t Simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

void AppendUpper(std::string* out, char32_t c) {
  if (const char32_t* letters = FindExpansion(kUpperExpansions, c); letters != nullptr) {
    AppendExpansion(out, letters);
  } else {
    AppendChar(out, Simple(utf8proc_toupper, c));
  }
}

void AppendTitle(std::string* out, char32_t c) {
  if (const char32_t* letters = FindExpansion(kTitleExpansions, c); letters != nullptr) {
    AppendExpansion(out, letters);
  } else {
    AppendChar(out, Simple(utf8proc_totitle, c));
  }
}

bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Letters and marks that the final-sigma rule looks through.
bool IsCaseIgnorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F ||
             c == 0x5F4 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 ||
             c == 0xFE13 || c == 0xFE52 || c == 0xFE55 || c == 0xFF07 || c == 0xFF0E || c == 0xFF1A;
  }
}

// A sigma ends a word when a cased letter stands before it and none after it.
bool IsFinalSigma(std::string_view text, std::size_t start, std::size_t end) {
  std::size_t before = start;
  bool follows_letter = false;
  while (before > 0) {
    const char32_t c = PreviousChar(text, before, &before);
    if (!IsCaseIgnorable(c)) {
      follows_letter = IsCased(c);
      break;
    }
  }
  if (!follows_letter) {
    return false;
  }
  while (end < text.size()) {
    const char32_t c = NextChar(text, &end);
    if (!IsCaseIgnorable(c)) {
      return !IsCased(c);
    }
  }
  return true;
}

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

// Lower case of the letter at [start, end) of text.
void AppendLower(std::string* out, std::string_view text, std::size_t start, std::size_t end,
                 char32_t c) {
  if (c == kCapitalSigma) {
    AppendChar(out, IsFinalSigma(text, start, end) ? kFinalSigma : kSmallSigma);
  } else if (c == 0x130) {  // the one letter with two in lower case: I with a dot above
    AppendChar(out, 'i');
    AppendChar(out, 0x307);
  } else {
    AppendChar(out, Simple(utf8proc_tolower, c));
  }
}

}  // namespace

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    AppendUpper(&out, NextChar(text, &pos));
  }
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    AppendLower(&out, text, start, pos, c);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    if (IsUpper(c)) {
      AppendLower(&out, text, start, pos, c);
    } else if (IsLower(c)) {
      AppendUpper(&out, c);
    } else {
      AppendChar(&out, c);
    }
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  std::string out =
      size < 0 ? std::string(text)
               : std::string(reinterpret_cast<const char*>(folded), static_cast<std::size_t>(size));
  free(folded);  // NOLINT: utf8proc allocates with malloc
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    if (start == 0) {
      AppendTitle(&out, c);
    } else {
      AppendLower(&out, text, start, pos, c);
    }
  }
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  bool follows_letter = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    if (follows_letter) {
      AppendLower(&out, text, start, pos, c);
    } else {
      AppendTitle(&out, c);
    }
    follows_letter = IsCased(c);
  }
  return out;
}

}  // namespace ashlar::text::jinja
