#include "text/jinja/string_search.h"

#include <string.h>  // NOLINT: memmem is not in <cstring>

#include <algorithm>

#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {

std::size_t FindText(std::string_view text, std::string_view wanted) {
  const void* found = memmem(text.data(), text.size(), wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t FindLastText(std::string_view text, std::string_view wanted) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted_backwards(wanted.rbegin(), wanted.rend());
  const std::size_t at = FindText(backwards, wanted_backwards);
  return at == std::string_view::npos ? at : text.size() - at - wanted.size();
}

std::vector<std::string_view> SplitLeft(std::string_view text, std::string_view separator,
                                        std::size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const std::size_t at = FindText(text, separator);
    if (at == std::string_view::npos) {
      break;
    }
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitRight(std::string_view text, std::string_view separator,
                                         std::size_t most) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string separator_backwards(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  std::size_t end = text.size();
  for (const std::string_view part : SplitLeft(backwards, separator_backwards, most)) {
    parts.push_back(text.substr(end - part.size(), part.size()));
    end -= std::min(end, part.size() + separator.size());
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitSpaceLeft(std::string_view text, std::size_t most) {
  std::vector<std::string_view> parts;
  text = StripLeft(text);
  while (!text.empty() && parts.size() < most) {
    std::size_t end = 0;
    std::size_t next = 0;
    while (end < text.size() && !IsSpace(NextChar(text, &next))) {
      end = next;
    }
    parts.push_back(text.substr(0, end));
    text = StripLeft(text.substr(end));
  }
  if (!text.empty()) {
    parts.push_back(text);
  }
  return parts;
}

std::vector<std::string_view> SplitSpaceRight(std::string_view text, std::size_t most) {
  std::vector<std::string_view> parts;
  text = StripRight(text);
  while (!text.empty() && parts.size() < most) {
    std::size_t start = text.size();
    std::size_t previous = start;
    while (start > 0 && !IsSpace(PreviousChar(text, start, &previous))) {
      start = previous;
    }
    parts.push_back(text.substr(start));
    text = StripRight(text.substr(0, start));
  }
  if (!text.empty()) {
    parts.push_back(text);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<std::string> Replace(Runtime& runtime, std::string_view text, std::string_view old_text,
                            std::string_view new_text, Int limit) {
  ASHLAR_TRY(runtime.SpendBytes(text.size()));
  std::string out;
  std::size_t pos = 0;
  const auto has_room = [&limit] { return limit < 0 || limit-- > 0; };
  if (old_text.empty()) {
    while (has_room()) {
      ASHLAR_TRY(runtime.SpendBytes(new_text.size()));
      ASHLAR_TRY(runtime.CheckStringBytes(out.size() + new_text.size()));
      out += new_text;
      if (pos == text.size()) {
        return out;
      }
      const std::size_t start = pos;
      (void)NextChar(text, &pos);
      out += text.substr(start, pos - start);
    }
    out += text.substr(pos);
    return out;
  }
  for (std::size_t at = FindText(text, old_text); at != std::string_view::npos && has_room();) {
    ASHLAR_TRY(runtime.SpendBytes(new_text.size()));
    ASHLAR_TRY(runtime.CheckStringBytes(out.size() + at - pos + new_text.size()));
    out += text.substr(pos, at - pos);
    out += new_text;
    pos = at + old_text.size();
    const std::size_t more = FindText(text.substr(pos), old_text);
    at = more == std::string_view::npos ? more : pos + more;
  }
  out += text.substr(pos);
  return out;
}

Result<std::string> PadTo(Runtime& runtime, std::string_view text, Int width, std::string_view fill,
                          Padding padding) {
  const Int length = static_cast<Int>(CountChars(text));
  if (width <= length) {
    return std::string(text);
  }
  const Int limit = static_cast<Int>(runtime.limits().string_bytes);
  if (width > limit) {
    return Exhausted("a field of {} characters; at most {} are allowed", width, limit);
  }
  const Int missing = width - length;
  ASHLAR_TRY(
      runtime.CheckStringBytes(text.size() + static_cast<std::size_t>(missing) * fill.size()));
  ASHLAR_TRY(runtime.SpendBytes(static_cast<std::size_t>(missing) * fill.size()));
  Int left = 0;
  switch (padding) {
    case Padding::kLeft:
      left = missing;
      break;
    case Padding::kRight:
      break;
    case Padding::kCenter:  // Python's rule for the odd one
      left = missing / 2 + (missing & width & 1);
      break;
  }
  std::string out;
  for (Int i = 0; i < left; ++i) {
    out += fill;
  }
  out += text;
  for (Int i = left; i < missing; ++i) {
    out += fill;
  }
  return out;
}

Result<std::string_view> Section(Runtime& runtime, const Value& self, const BoundArguments& bound,
                                 std::size_t first) {
  const std::string_view text = self.bytes();
  ASHLAR_TRY(runtime.SpendBytes(text.size()));
  const Int length = static_cast<Int>(self.text().chars);
  Int start = 0;
  Int end = length;
  if (bound.HasValue(first)) {
    ASHLAR_ASSIGN(start, bound.Integer(first, 0));
    start = start < 0 ? std::max(Int{0}, start + length) : start;
  }
  if (bound.HasValue(first + 1)) {
    ASHLAR_ASSIGN(end, bound.Integer(first + 1, 0));
    end = end < 0 ? std::max(Int{0}, end + length) : std::min(end, length);
  }
  if (start > end) {
    return std::string_view();
  }
  const std::size_t from = ByteOffset(text, static_cast<std::size_t>(start));
  return text.substr(from, ByteOffset(text.substr(from), static_cast<std::size_t>(end - start)));
}

Result<Value> ListOfStrings(Runtime& runtime, const Value& like,
                            const std::vector<std::string_view>& parts) {
  std::vector<Value> values;
  values.reserve(parts.size());
  for (const std::string_view part : parts) {
    ASHLAR_ASSIGN(Value value, runtime.StringLike(like, std::string(part)));
    values.push_back(std::move(value));
  }
  return runtime.List(std::move(values));
}

bool IsUpperText(std::string_view text) {
  bool has_letter = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = NextChar(text, &pos);
    if (IsLower(c) || IsTitle(c)) {
      return false;
    }
    has_letter = has_letter || IsUpper(c);
  }
  return has_letter;
}

bool IsLowerText(std::string_view text) {
  bool has_letter = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = NextChar(text, &pos);
    if (IsUpper(c) || IsTitle(c)) {
      return false;
    }
    has_letter = has_letter || IsLower(c);
  }
  return has_letter;
}

bool IsTitleText(std::string_view text) {
  bool has_letter = false;
  bool follows_letter = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = NextChar(text, &pos);
    const bool is_capital = IsUpper(c) || IsTitle(c);
    if ((is_capital && follows_letter) || (IsLower(c) && !follows_letter)) {
      return false;
    }
    follows_letter = is_capital || IsLower(c);
    has_letter = has_letter || follows_letter;
  }
  return has_letter;
}

}  // namespace ashlar::text::jinja
