// Filters that make text of text.
#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

template <std::string (*kMap)(std::string_view)>
Result<Value> Mapped(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(const Value text, ToText(runtime, input));
  ASHLAR_TRY(runtime.Spend(text.bytes().size() / 8));
  return runtime.StringLike(text, kMap(text.bytes()));
}

// The filter's own notion: words begin behind white space, hyphens and opening brackets.
std::string TitleWords(std::string_view text) {
  const auto is_beginning = [](char32_t c) {
    return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    std::size_t next = pos;
    const bool is_gap = is_beginning(NextChar(text, &next));
    pos = next;
    while (pos < text.size() && is_beginning(NextChar(text, &next)) == is_gap) {
      pos = next;
    }
    const std::string_view run = text.substr(start, pos - start);
    const std::size_t first = ByteOffset(run, 1);
    out += ToUpper(run.substr(0, first)) + ToLower(run.substr(first));
    next = pos;
  }
  return out;
}

Result<Value> Trim(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const Value text, ToText(runtime, input));
  if (!arguments.HasValue(0)) {
    return runtime.StringLike(text, std::string(StripRight(StripLeft(text.bytes()))));
  }
  ASHLAR_ASSIGN(const std::string_view chars, arguments.Text(0, ""));
  ASHLAR_TRY(runtime.Spend(1 + text.bytes().size() * (1 + chars.size() / 64) / 64));
  return runtime.StringLike(text, std::string(StripRight(StripLeft(text.bytes(), chars), chars)));
}

Result<Value> ReplaceText(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const std::string text, Str(runtime, input));
  ASHLAR_ASSIGN(const std::string old_text, Str(runtime, arguments[0]));
  ASHLAR_ASSIGN(const std::string new_text, Str(runtime, arguments[1]));
  ASHLAR_ASSIGN(const Int limit,
                arguments.HasValue(2) ? arguments.Integer(2, -1) : Result<Int>(Int{-1}));
  ASHLAR_ASSIGN(std::string replaced, Replace(runtime, text, old_text, new_text, limit));
  return runtime.String(std::move(replaced));
}

Result<Value> Center(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_ASSIGN(const Value text, ToText(runtime, input));
  ASHLAR_ASSIGN(const Int width, arguments.Integer(0, 80));
  ASHLAR_ASSIGN(std::string padded, PadTo(runtime, text.bytes(), width, " ", Padding::kCenter));
  return runtime.StringLike(text, std::move(padded));
}

Result<Value> Indent(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  if (!input.IsString()) {
    return Invalid("indent() needs a string, not '{}'", TypeName(input));
  }
  std::string indent;
  if (arguments.Has(0) && arguments[0].IsString()) {
    indent = arguments[0].bytes();
  } else {
    ASHLAR_ASSIGN(const Int width, arguments.Integer(0, 4));
    ASHLAR_ASSIGN(indent, PadTo(runtime, "", width, " ", Padding::kLeft));
  }
  const bool indents_blank = arguments.Truth(2);
  ASHLAR_TRY(runtime.Spend(input.bytes().size() / 4));
  const std::string text = input.bytes() + "\n";  // so that the last line end is kept
  std::string out = arguments.Truth(1) ? indent : "";
  bool is_first = true;
  for (const std::string_view line : SplitLines(text, LineEnds::kDropped)) {
    ASHLAR_TRY(runtime.SpendBytes(indent.size() + line.size()));
    ASHLAR_TRY(runtime.CheckStringBytes(out.size() + indent.size() + line.size()));
    if (!is_first) {
      out += '\n';
      out += !line.empty() || indents_blank ? indent : "";
    }
    is_first = false;
    out += line;
  }
  return runtime.StringLike(input, std::move(out));
}

Result<Value> Truncate(Runtime& runtime, const Value& input, const BoundArguments& arguments) {
  ASHLAR_TRY(CheckDefined(input));
  if (!input.IsString()) {
    return Invalid("truncate() needs a string, not '{}'", TypeName(input));
  }
  ASHLAR_ASSIGN(const Int length, arguments.Integer(0, 255));
  ASHLAR_ASSIGN(const std::string_view end, arguments.Text(2, "..."));
  ASHLAR_ASSIGN(const Int leeway,
                arguments.HasValue(3) ? arguments.Integer(3, 5) : Result<Int>(Int{5}));
  const Int end_length = static_cast<Int>(CountChars(end));
  if (length < end_length || leeway < 0) {
    return Invalid("truncate() needs a length of at least {} and a leeway of at least 0",
                   end_length);
  }
  if (static_cast<Int>(input.text().chars) <= length + leeway) {
    return input;
  }
  std::string_view kept =
      std::string_view(input.bytes())
          .substr(0, ByteOffset(input.bytes(), static_cast<std::size_t>(length - end_length)));
  if (!arguments.Truth(1)) {
    kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  }
  return runtime.StringLike(input, std::string(kept) + std::string(end));
}

Result<Value> WordCount(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(const std::string text, Str(runtime, input));
  ASHLAR_TRY(runtime.Spend(text.size() / 8));
  Int count = 0;
  bool is_in_word = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = NextChar(text, &pos);
    const bool is_word = IsAlpha(c) || IsNumeric(c) || c == '_';
    count += is_word && !is_in_word ? 1 : 0;
    is_in_word = is_word;
  }
  return Value::Integer(count);
}

Result<Value> Escape(Runtime& runtime, const Value& input, const BoundArguments&) {
  if (input.IsString() && input.text().is_markup()) {
    return input;
  }
  ASHLAR_ASSIGN(const std::string text, Str(runtime, input));
  return runtime.String(EscapeHtml(text), TextKind::kMarkup);
}

Result<Value> ForceEscape(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(const std::string text, Str(runtime, input));
  return runtime.String(EscapeHtml(text), TextKind::kMarkup);
}

Result<Value> Safe(Runtime& runtime, const Value& input, const BoundArguments&) {
  ASHLAR_ASSIGN(std::string text, Str(runtime, input));
  return runtime.String(std::move(text), TextKind::kMarkup);
}

enum class UrlPart { kPath, kQuery };

std::string UrlQuote(std::string_view text, UrlPart part) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && part == UrlPart::kPath)) {
      out += c;
    } else if (c == ' ' && part == UrlPart::kQuery) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

Result<Value> UrlEncode(Runtime& runtime, const Value& input, const BoundArguments&) {
  const bool is_pairs = input.IsDict() || input.IsSequence();
  if (!is_pairs) {
    ASHLAR_ASSIGN(const std::string text, Str(runtime, input));
    ASHLAR_TRY(runtime.Spend(text.size() / 8));
    return runtime.String(UrlQuote(text, UrlPart::kPath));
  }
  Entries pairs;
  if (input.IsDict()) {
    pairs = input.dict().entries;
  } else {
    for (const Value& item : input.items()) {
      if (!item.IsSequence() || item.items().size() != 2) {
        return Invalid("urlencode() needs pairs of a name and a value");
      }
      pairs.emplace_back(item.items()[0], item.items()[1]);
    }
  }
  std::string out;
  for (const auto& [key, value] : pairs) {
    ASHLAR_ASSIGN(const std::string name, Str(runtime, key));
    ASHLAR_ASSIGN(const std::string text, Str(runtime, value));
    ASHLAR_TRY(runtime.Spend((name.size() + text.size()) / 8));
    ASHLAR_TRY(runtime.CheckStringBytes(out.size()));
    out += (out.empty() ? "" : "&") + UrlQuote(name, UrlPart::kQuery) + "=" +
           UrlQuote(text, UrlPart::kQuery);
  }
  return runtime.String(std::move(out));
}

Result<Value> Format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASHLAR_ASSIGN(const Value format, ToText(runtime, input));
  if (!arguments.named.empty() && !arguments.positional.empty()) {
    return Invalid("format() takes positional or named values, not both");
  }
  if (arguments.named.empty()) {
    ASHLAR_ASSIGN(const Value values, runtime.Tuple(arguments.positional));
    return FormatPercent(runtime, format, values);
  }
  Entries entries;
  for (const auto& [name, value] : arguments.named) {
    ASHLAR_ASSIGN(Value key, runtime.String(name));
    entries.emplace_back(std::move(key), value);
  }
  ASHLAR_ASSIGN(const Value values, runtime.MakeDict(std::move(entries)));
  return FormatPercent(runtime, format, values);
}

constexpr std::array kFilters = {
    Filter{{"capitalize"}, &Mapped<&Capitalize>},
    Filter{{"center", {"width"}}, &Center},
    Filter{{"e"}, &Escape},
    Filter{{"escape"}, &Escape},
    Filter{{"forceescape"}, &ForceEscape},
    Filter{{"format"}, nullptr, &Format},
    Filter{{"indent", {"width", "first", "blank"}}, &Indent},
    Filter{{"lower"}, &Mapped<&ToLower>},
    Filter{{"replace", {"old", "new", "count"}, 2}, &ReplaceText},
    Filter{{"safe"}, &Safe},
    Filter{{"title"}, &Mapped<&TitleWords>},
    Filter{{"trim", {"chars"}}, &Trim},
    Filter{{"truncate", {"length", "killwords", "end", "leeway"}}, &Truncate},
    Filter{{"upper"}, &Mapped<&ToUpper>},
    Filter{{"urlencode"}, &UrlEncode},
    Filter{{"wordcount"}, &WordCount},
};

}  // namespace

std::span<const Filter> TextFilters() { return kFilters; }

}  // namespace ashlar::text::jinja
