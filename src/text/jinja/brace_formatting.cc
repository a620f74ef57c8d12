// str.format() of formatting.h.
#include <algorithm>

#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

// [[fill]align][sign][#][0][width][,][.precision][type]
Result<FieldSpec> ParseSpec(std::string_view text) {
  FieldSpec spec;
  const std::string_view whole = text;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const auto skip = [&text](std::string_view chars) -> char {
    if (text.empty() || chars.find(text[0]) == std::string_view::npos) {
      return 0;
    }
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const auto count = [&text]() -> Int {
    Int value = 0;
    while (!text.empty() && IsDecimalDigit(text[0])) {
      value = std::min(value * 10 + (text[0] - '0'), Int{1} << 30);
      text.remove_prefix(1);
    }
    return value;
  };
  const std::size_t fill = ByteOffset(text, 1);
  if (fill < text.size() && is_align(text[fill])) {
    spec.fill = text.substr(0, fill);
    text.remove_prefix(fill);
  }
  spec.align = skip("<>^=");
  if (const char sign = skip("+- "); sign != 0) {
    spec.sign = sign;
  }
  spec.is_alternate = skip("#") != 0;
  if (skip("0") != 0 && spec.align == 0) {
    spec.align = '=';
    spec.fill = "0";
  }
  spec.width = count();
  spec.group = skip(",_");
  if (skip(".") != 0) {
    if (text.empty() || !IsDecimalDigit(text[0])) {
      return Invalid("the format '{}' has no precision behind '.'", Excerpt(whole));
    }
    spec.precision = static_cast<int>(count());
  }
  spec.type = skip("sdbcoxXfFeEgGn%");
  if (!text.empty() || spec.type == 'n') {
    return Invalid("the format '{}' is not understood", Excerpt(whole));
  }
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Value& format, const Arguments& arguments)
      : runtime_(runtime), is_markup_(format.text().is_markup()), arguments_(arguments) {}

  Result<std::string> Run(std::string_view format, int depth) {
    std::string out;
    for (std::size_t pos = 0; pos < format.size();) {
      const char c = format[pos];
      if (c != '{' && c != '}') {
        out += c;
        ++pos;
        continue;
      }
      if (pos + 1 < format.size() && format[pos + 1] == c) {
        out += c;
        pos += 2;
        continue;
      }
      if (c == '}') {
        return Invalid("a single '}}' in a format; write '}}}}'");
      }
      std::size_t end = pos + 1;
      for (int open = 1; end < format.size() && open > 0; ++end) {
        open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
      }
      if (format[end - 1] != '}' || end - 1 == pos) {
        return Invalid("a '{{' in a format has no end '}}'");
      }
      ASHLAR_ASSIGN(const std::string field, Field(format.substr(pos + 1, end - pos - 2), depth));
      out += field;
      ASHLAR_TRY(runtime_.CheckStringBytes(out.size()));
      pos = end;
    }
    return out;
  }

 private:
  // name!conversion:spec
  Result<std::string> Field(std::string_view field, int depth) {
    ASHLAR_TRY(runtime_.Spend());
    const std::size_t name_end = std::min(field.find_first_of("!:"), field.size());
    ASHLAR_ASSIGN(Value value, Lookup(field.substr(0, name_end)));
    std::size_t pos = name_end;
    if (pos < field.size() && field[pos] == '!') {
      const char conversion = pos + 1 < field.size() ? field[pos + 1] : '\0';
      if (conversion != 's' && conversion != 'r') {
        return Unsupported("the conversion !{} in a format; !s and !r are known", conversion);
      }
      std::string text;
      ASHLAR_TRY(conversion == 's' ? AppendStr(runtime_, value, &text)
                                   : AppendRepr(runtime_, value, &text));
      ASHLAR_ASSIGN(value, runtime_.String(std::move(text)));
      pos += 2;
    }
    if (pos < field.size() && field[pos] != ':') {
      return Invalid("expected ':' in the format field '{}'", Excerpt(field));
    }
    std::string spec_text(pos < field.size() ? field.substr(pos + 1) : "");
    if (spec_text.find('{') != std::string::npos) {
      if (depth > 0) {
        return Invalid("format fields are nested too deep");
      }
      ASHLAR_ASSIGN(spec_text, Run(spec_text, depth + 1));
    }
    ASHLAR_ASSIGN(const FieldSpec spec, ParseSpec(spec_text));
    ASHLAR_ASSIGN(std::string text, FormatField(runtime_, value, spec));
    const bool escapes =
        is_markup_ && depth == 0 && !(value.IsString() && value.text().is_markup());
    return escapes ? EscapeHtml(text) : text;
  }

  Result<Value> Argument(std::string_view name) {
    if (name.empty() || std::all_of(name.begin(), name.end(), IsDecimalDigit)) {
      std::size_t index = next_;
      if (name.empty()) {
        ++next_;
        is_automatic_ = true;
      } else if (is_automatic_ || name.size() > 9) {
        return Invalid("a format cannot mix {{}} and {{{}}}", Excerpt(name));
      } else {
        index = static_cast<std::size_t>(std::stoul(std::string(name)));
      }
      if (index >= arguments_.positional.size()) {
        return Invalid("the format needs argument {}; {} were given", index,
                       arguments_.positional.size());
      }
      return arguments_.positional[index];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) {
        return value;
      }
    }
    return Invalid("the format needs the argument '{}'", Excerpt(name));
  }

  // argument(.attribute | [key])*
  Result<Value> Lookup(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    ASHLAR_ASSIGN(Value value, Argument(path.substr(0, end)));
    std::string_view rest = path.substr(end);
    while (!rest.empty()) {
      ASHLAR_TRY(runtime_.Spend());
      if (rest[0] == '.') {
        const std::size_t stop = std::min(rest.find_first_of(".[", 1), rest.size());
        ASHLAR_ASSIGN(value, GetAttribute(runtime_, value, rest.substr(1, stop - 1)));
        rest.remove_prefix(stop);
        continue;
      }
      const std::size_t stop = rest.find(']');
      if (rest[0] != '[' || stop == std::string_view::npos) {
        return Invalid("the format's field '{}' is not understood", Excerpt(path));
      }
      const std::string_view key = rest.substr(1, stop - 1);
      const bool is_index =
          !key.empty() && key.size() < 10 && std::all_of(key.begin(), key.end(), IsDecimalDigit);
      ASHLAR_ASSIGN(const Value text, runtime_.String(std::string(key)));
      const Value index = is_index ? Value::Integer(std::stol(std::string(key))) : text;
      ASHLAR_ASSIGN(value, GetItem(runtime_, value, index));
      rest.remove_prefix(stop + 1);
    }
    return value;
  }

  Runtime& runtime_;
  const bool is_markup_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool is_automatic_ = false;
};

}  // namespace

Result<Value> FormatBraces(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASHLAR_TRY(runtime.SpendBytes(self.bytes().size()));
  ASHLAR_ASSIGN(std::string text, BraceFormatter(runtime, self, arguments).Run(self.bytes(), 0));
  return runtime.StringLike(self, std::move(text));
}

}  // namespace ashlar::text::jinja
