// str's methods. Arguments are positional, as most of Python's are; positions count code points.
#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/formatting.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

template <std::string (*kMap)(std::string_view)>
Result<Value> Mapped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"string method", {}, 0}, arguments));
  ASHLAR_TRY(runtime.Spend(self.bytes().size() / 8));
  return runtime.StringLike(self, kMap(self.bytes()));
}

Result<Value> CaseFolded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"casefold", {}, 0}, arguments));
  ASHLAR_TRY(runtime.Spend(self.bytes().size() / 8));
  return runtime.String(CaseFold(self.bytes()));
}

enum class Side { kLeft, kRight, kBoth };

template <Side kSide>
Result<Value> Strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"strip", {"chars"}, 0}, arguments));
  const bool has_chars = bound.HasValue(0);
  std::string chars;
  if (has_chars) {
    ASHLAR_ASSIGN(const std::string_view given, bound.Text(0, ""));
    chars = self.text().is_markup() && !bound[0].text().is_markup() ? EscapeHtml(given)
                                                                    : std::string(given);
    ASHLAR_TRY(runtime.Spend(1 + self.bytes().size() * (1 + chars.size() / 64) / 64));
  }
  std::string_view text = self.bytes();
  if (kSide != Side::kRight) {
    text = has_chars ? StripLeft(text, chars) : StripLeft(text);
  }
  if (kSide != Side::kLeft) {
    text = has_chars ? StripRight(text, chars) : StripRight(text);
  }
  if (text.size() == self.bytes().size()) {
    return self;
  }
  return runtime.StringLike(self, std::string(text));
}

template <bool kIsAtEnd>
Result<Value> HasAffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(
      const BoundArguments bound,
      BoundArguments::Bind({kIsAtEnd ? "endswith" : "startswith", {"affix", "start", "end"}, 1},
                           arguments));
  ASHLAR_ASSIGN(const std::string_view text, Section(runtime, self, bound, 1));
  std::vector<Value> affixes = {bound[0]};
  if (bound[0].IsTuple()) {
    affixes = bound[0].items();
  }
  ASHLAR_TRY(runtime.Spend(affixes.size()));
  for (const Value& affix : affixes) {
    if (!affix.IsString()) {
      return Invalid("startswith and endswith need a string or a tuple of strings, not '{}'",
                     TypeName(affix));
    }
    if (kIsAtEnd ? text.ends_with(affix.bytes()) : text.starts_with(affix.bytes())) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

template <bool kIsSuffix>
Result<Value> RemoveAffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"removeprefix/removesuffix", {"affix"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string_view affix, bound.Text(0, ""));
  std::string_view text = self.bytes();
  if (kIsSuffix && text.ends_with(affix)) {
    text.remove_suffix(affix.size());
  } else if (!kIsSuffix && text.starts_with(affix)) {
    text.remove_prefix(affix.size());
  }
  return runtime.String(std::string(text));
}

template <bool kIsFromRight>
Result<Value> Split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"split", {"sep", "maxsplit"}, 0}, arguments));
  ASHLAR_ASSIGN(const Int limit, bound.Integer(1, -1));
  const std::size_t cap = runtime.limits().live_bytes / sizeof(Text);
  const std::size_t most =
      limit < 0 || limit > static_cast<Int>(cap) ? cap : static_cast<std::size_t>(limit);
  std::vector<std::string_view> parts;
  ASHLAR_TRY(runtime.SpendBytes(self.bytes().size()));
  if (bound.HasValue(0)) {
    ASHLAR_ASSIGN(const std::string_view separator, bound.Text(0, ""));
    if (separator.empty()) {
      return Invalid("split(): the separator is empty");
    }
    parts = kIsFromRight ? SplitRight(self.bytes(), separator, most)
                         : SplitLeft(self.bytes(), separator, most);
  } else {
    parts = kIsFromRight ? SplitSpaceRight(self.bytes(), most) : SplitSpaceLeft(self.bytes(), most);
  }
  if (parts.size() > cap) {
    return Exhausted("split(): more than {} parts", cap);
  }
  return ListOfStrings(runtime, self, parts);
}

Result<Value> SplitLinesOf(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"splitlines", {"keepends"}, 0}, arguments));
  ASHLAR_TRY(runtime.Spend(self.bytes().size()));
  return ListOfStrings(
      runtime, self,
      SplitLines(self.bytes(), bound.Truth(0) ? LineEnds::kKept : LineEnds::kDropped));
}

template <bool kIsFromRight>
Result<Value> Partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"partition", {"sep"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string_view separator, bound.Text(0, ""));
  if (separator.empty()) {
    return Invalid("partition(): the separator is empty");
  }
  const std::string_view text = self.bytes();
  const std::size_t at = kIsFromRight ? FindLastText(text, separator) : FindText(text, separator);
  std::array<std::string_view, 3> parts = {text, "", ""};
  if (at != std::string_view::npos) {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else if (kIsFromRight) {
    parts = {"", "", text};
  }
  std::vector<Value> values;
  for (const std::string_view part : parts) {
    ASHLAR_ASSIGN(Value value, runtime.StringLike(self, std::string(part)));
    values.push_back(std::move(value));
  }
  return runtime.Tuple(std::move(values));
}

// find, rfind: -1 when it is not there; index, rindex: an error.
template <bool kIsFromRight, bool kMustBeThere>
Result<Value> Find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"find", {"sub", "start", "end"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string_view wanted, bound.Text(0, ""));
  ASHLAR_ASSIGN(const std::string_view text, Section(runtime, self, bound, 1));
  const std::size_t at = text.data() == nullptr ? std::string_view::npos
                         : kIsFromRight         ? FindLastText(text, wanted)
                                                : FindText(text, wanted);
  if (at == std::string_view::npos) {
    return kMustBeThere
               ? Result<Value>(Invalid("index(): '{}' is not in the string", Excerpt(wanted)))
               : Value::Integer(-1);
  }
  const std::size_t before = static_cast<std::size_t>(text.data() - self.bytes().data()) + at;
  return Value::Integer(
      static_cast<Int>(CountChars(std::string_view(self.bytes()).substr(0, before))));
}

Result<Value> Count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"count", {"sub", "start", "end"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string_view wanted, bound.Text(0, ""));
  ASHLAR_ASSIGN(const std::string_view text, Section(runtime, self, bound, 1));
  if (wanted.empty()) {
    return Value::Integer(text.data() == nullptr ? Int{0} : static_cast<Int>(CountChars(text)) + 1);
  }
  Int count = 0;
  std::string_view rest = text;
  for (std::size_t at = FindText(rest, wanted); at != std::string_view::npos;
       at = FindText(rest, wanted)) {
    rest.remove_prefix(at + wanted.size());
    ++count;
  }
  return Value::Integer(count);
}

Result<Value> ReplaceIn(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"replace", {"old", "new", "count"}, 2}, arguments));
  ASHLAR_ASSIGN(std::string_view old_text, bound.Text(0, ""));
  ASHLAR_ASSIGN(std::string_view new_text, bound.Text(1, ""));
  ASHLAR_ASSIGN(const Int limit, bound.Integer(2, -1));
  std::string escaped_old;
  std::string escaped_new;
  if (self.text().is_markup()) {
    escaped_old = bound[0].text().is_markup() ? std::string(old_text) : EscapeHtml(old_text);
    escaped_new = bound[1].text().is_markup() ? std::string(new_text) : EscapeHtml(new_text);
    old_text = escaped_old;
    new_text = escaped_new;
  }
  ASHLAR_ASSIGN(std::string text, Replace(runtime, self.bytes(), old_text, new_text, limit));
  return runtime.StringLike(self, std::move(text));
}

Result<Value> Join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"join", {"iterable"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime, bound[0]));
  std::string out;
  for (std::size_t i = 0;; ++i) {
    ASHLAR_ASSIGN(const std::optional<Value> item, iterator->Next(runtime));
    if (!item) {
      return runtime.StringLike(self, std::move(out));
    }
    if (!item->IsString()) {
      return Invalid("join(): item {} is of type '{}', not a string", i, TypeName(*item));
    }
    ASHLAR_TRY(runtime.CheckStringBytes(out.size() + self.bytes().size() + item->bytes().size()));
    ASHLAR_TRY(runtime.SpendBytes(self.bytes().size() + item->bytes().size()));
    out += i > 0 ? self.bytes() : "";
    out += self.text().is_markup() && !item->text().is_markup() ? EscapeHtml(item->bytes())
                                                                : item->bytes();
  }
}

template <Side kSide>
Result<Value> Pad(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"center/ljust/rjust", {"width", "fillchar"}, 1}, arguments));
  ASHLAR_ASSIGN(const Int width, bound.Integer(0, 0));
  ASHLAR_ASSIGN(const std::string_view fill, bound.Text(1, " "));
  if (CountChars(fill) != 1) {
    return Invalid("the fill character must be one character long");
  }
  const Padding padding = kSide == Side::kBoth   ? Padding::kCenter
                          : kSide == Side::kLeft ? Padding::kRight
                                                 : Padding::kLeft;
  ASHLAR_ASSIGN(std::string text, PadTo(runtime, self.bytes(), width, fill, padding));
  return runtime.StringLike(self, std::move(text));
}

Result<Value> ZeroFill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"zfill", {"width"}, 1}, arguments));
  ASHLAR_ASSIGN(const Int width, bound.Integer(0, 0));
  const std::string& text = self.bytes();
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  ASHLAR_ASSIGN(std::string filled, PadTo(runtime, std::string_view(text).substr(has_sign ? 1 : 0),
                                          width - (has_sign ? 1 : 0), "0", Padding::kLeft));
  return runtime.StringLike(self, (has_sign ? text.substr(0, 1) : "") + filled);
}

Result<Value> ExpandTabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"expandtabs", {"tabsize"}, 0}, arguments));
  ASHLAR_ASSIGN(const Int size, bound.Integer(0, 8));
  if (size > 1000) {
    return Exhausted("expandtabs(): a tab of {} columns; at most 1000 are allowed", size);
  }
  std::string out;
  Int column = 0;
  ASHLAR_TRY(runtime.Spend(self.text().chars));
  for (std::size_t pos = 0; pos < self.bytes().size();) {
    ASHLAR_TRY(runtime.CheckStringBytes(out.size()));
    const char32_t c = NextChar(self.bytes(), &pos);
    if (c == '\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      AppendChar(&out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return runtime.StringLike(self, std::move(out));
}

// True when there is a character and all are of the class.
template <bool (*kIsInClass)(char32_t)>
Result<Value> IsAll(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"string test", {}, 0}, arguments));
  ASHLAR_TRY(runtime.SpendBytes(self.bytes().size()));
  for (std::size_t pos = 0; pos < self.bytes().size();) {
    if (!kIsInClass(NextChar(self.bytes(), &pos))) {
      return Value::Bool(false);
    }
  }
  return Value::Bool(!self.bytes().empty());
}

bool IsAlphanumeric(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

template <bool (*kTest)(std::string_view)>
Result<Value> IsWhole(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(BoundArguments::Bind({"string test", {}, 0}, arguments));
  ASHLAR_TRY(runtime.SpendBytes(self.bytes().size()));
  return Value::Bool(kTest(self.bytes()));
}

bool IsPrintableText(std::string_view text) {
  for (std::size_t pos = 0; pos < text.size();) {
    if (!IsPrintable(NextChar(text, &pos))) {
      return false;
    }
  }
  return true;
}

bool IsAsciiText(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsIdentifierText(std::string_view text) {
  std::size_t pos = 0;
  if (text.empty() || !IsIdentifierStart(NextChar(text, &pos))) {
    return false;
  }
  while (pos < text.size()) {
    if (!IsIdentifierPart(NextChar(text, &pos))) {
      return false;
    }
  }
  return true;
}

}  // namespace

MethodBody FindStringMethod(std::string_view name) {
  using Entry = std::pair<std::string_view, MethodBody>;
  static constexpr std::array<Entry, 43> kMethods = {{
      {"capitalize", &Mapped<&Capitalize>},
      {"casefold", &CaseFolded},
      {"center", &Pad<Side::kBoth>},
      {"count", &Count},
      {"endswith", &HasAffix<true>},
      {"expandtabs", &ExpandTabs},
      {"find", &Find<false, false>},
      {"format", &FormatBraces},
      {"index", &Find<false, true>},
      {"isalnum", &IsAll<&IsAlphanumeric>},
      {"isalpha", &IsAll<&IsAlpha>},
      {"isascii", &IsWhole<&IsAsciiText>},
      {"isdecimal", &IsAll<&IsDecimal>},
      {"isdigit", &IsAll<&IsDigit>},
      {"isidentifier", &IsWhole<&IsIdentifierText>},
      {"islower", &IsWhole<&IsLowerText>},
      {"isnumeric", &IsAll<&IsNumeric>},
      {"isprintable", &IsWhole<&IsPrintableText>},
      {"isspace", &IsAll<&IsSpace>},
      {"istitle", &IsWhole<&IsTitleText>},
      {"isupper", &IsWhole<&IsUpperText>},
      {"join", &Join},
      {"ljust", &Pad<Side::kLeft>},
      {"lower", &Mapped<&ToLower>},
      {"lstrip", &Strip<Side::kLeft>},
      {"partition", &Partition<false>},
      {"removeprefix", &RemoveAffix<false>},
      {"removesuffix", &RemoveAffix<true>},
      {"replace", &ReplaceIn},
      {"rfind", &Find<true, false>},
      {"rindex", &Find<true, true>},
      {"rjust", &Pad<Side::kRight>},
      {"rpartition", &Partition<true>},
      {"rsplit", &Split<true>},
      {"rstrip", &Strip<Side::kRight>},
      {"split", &Split<false>},
      {"splitlines", &SplitLinesOf},
      {"startswith", &HasAffix<false>},
      {"strip", &Strip<Side::kBoth>},
      {"swapcase", &Mapped<&SwapCase>},
      {"title", &Mapped<&ToTitle>},
      {"upper", &Mapped<&ToUpper>},
      {"zfill", &ZeroFill},
  }};
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [name](const Entry& entry) { return entry.first == name; });
  return found != kMethods.end() ? found->second : nullptr;
}

}  // namespace ashlar::text::jinja
