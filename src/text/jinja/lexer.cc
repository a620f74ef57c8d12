#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/numbers.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

// Line ends as \n, without the last one.
std::string NormalizeLines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

// Length of `text`'s leading white space.
std::size_t SpaceLength(std::string_view text) { return text.size() - StripLeft(text).size(); }

// The text of a number without the underscores between its digits.
std::string WithoutUnderscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

// Length of digits with single underscores between them, "1_000".
template <typename IsDigitFunction>
std::size_t DigitsLength(std::string_view text, IsDigitFunction is_digit) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t skip = length > 0 && text[length] == '_' ? 1 : 0;
    if (length + skip >= text.size() || !is_digit(text[length + skip])) {
      break;
    }
    length += skip + 1;
  }
  return length;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (pos_ < source_.size()) {
      ASHLAR_TRY(ReadRoot());
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(pos_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }
  Error Fail(Error error) const { return AtLine(line_, std::move(error)); }

  void Advance(std::size_t bytes) {
    const auto first = source_.begin() + static_cast<std::ptrdiff_t>(pos_);
    line_ += static_cast<int>(std::count(first, first + static_cast<std::ptrdiff_t>(bytes), '\n'));
    pos_ += bytes;
    is_line_start_ = bytes > 0 ? source_[pos_ - 1] == '\n' : is_line_start_;
  }

  void Add(TokenKind kind, std::string_view text) {
    tokens_.push_back({kind, line_, std::string(text), Value()});
  }

  // Data up to the next tag, and that tag's opening.
  Status ReadRoot() {
    std::size_t tag = pos_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        Add(TokenKind::kData, Rest());
        Advance(source_.size() - pos_);
        return {};
      }
      if (source_[tag + 1] == '%' || source_[tag + 1] == '{' || source_[tag + 1] == '#') {
        break;
      }
      ++tag;
    }
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char kind = source_[tag + 1];
    const std::size_t opening = 2 + (sign == '-' || sign == '+' ? 1u : 0u);
    AddData(tag - pos_, sign, kind);
    if (kind == '#') {
      return SkipComment(opening);
    }
    if (const std::size_t raw = kind == '%' ? RawLength(opening) : 0; raw > 0) {
      return ReadRaw(raw);
    }
    Add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    Advance(opening);
    return kind == '%' ? ReadTag("%}", TokenKind::kBlockEnd)
                       : ReadTag("}}", TokenKind::kVariableEnd);
  }

  // The next `length` bytes as data, stripped as the sign and the kind ({ % #) of the tag behind
  // them say.
  void AddData(std::size_t length, char sign, char kind) {
    std::string_view text = Rest().substr(0, length);
    if (sign == '-') {
      text = StripRight(text);
    } else if (sign != '+' && kind != '{') {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 == 0
      if ((line > 0 || is_line_start_) && StripLeft(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) {
      Add(TokenKind::kData, text);
    }
    Advance(length);
  }

  // Length of a tag's end at `at` (white space that it eats included); 0 when there is none.
  std::size_t EndLength(std::size_t at, std::string_view end) const {
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with('-') && text.substr(1).starts_with(end)) {
      return 1 + end.size() + SpaceLength(text.substr(1 + end.size()));
    }
    const bool is_variable = end == "}}";
    if (!is_variable && text.starts_with('+') && text.substr(1).starts_with(end)) {
      return 1 + end.size();
    }
    if (!text.starts_with(end)) {
      return 0;
    }
    return end.size() + (!is_variable && text.substr(end.size()).starts_with('\n') ? 1u : 0u);
  }

  Status SkipComment(std::size_t opening) {
    for (std::size_t at = pos_ + opening; at < source_.size(); ++at) {
      if (const std::size_t length = EndLength(at, "#}"); length > 0) {
        Advance(at + length - pos_);
        return {};
      }
    }
    return Fail(Invalid("the comment has no end '#}}'"));
  }

  // Length of `{% raw %}` at the position; 0 when it is another tag.
  std::size_t RawLength(std::size_t opening) const {
    const std::string_view text = Rest();
    std::size_t length = opening + SpaceLength(text.substr(opening));
    if (!text.substr(length).starts_with("raw")) {
      return 0;
    }
    length += 3;
    length += SpaceLength(text.substr(length));
    if (text.substr(length).starts_with("-%}")) {
      length += 3;
      return length + SpaceLength(text.substr(length));
    }
    return text.substr(length).starts_with("%}") ? length + 2 : 0;
  }

  Status ReadRaw(std::size_t opening) {
    Advance(opening);
    for (std::size_t at = source_.find("{%", pos_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      std::size_t end = at + 2;
      const char sign = end < source_.size() ? source_[end] : '\0';
      end += sign == '-' || sign == '+' ? 1 : 0;
      end += SpaceLength(std::string_view(source_).substr(end));
      if (!std::string_view(source_).substr(end).starts_with("endraw")) {
        continue;
      }
      end += 6;
      end += SpaceLength(std::string_view(source_).substr(end));
      const std::size_t length = EndLength(end, "%}");
      if (length > 0) {
        AddData(at - pos_, sign, '%');
        Advance(end + length - pos_);
        return {};
      }
    }
    return Fail(Invalid("the raw block has no end '{{% endraw %}}'"));
  }

  // The tokens of a tag, its end included.
  Status ReadTag(std::string_view end, TokenKind end_kind) {
    std::string open;  // the brackets that wait for their ends
    while (pos_ < source_.size()) {
      if (const std::size_t length = open.empty() ? EndLength(pos_, end) : 0; length > 0) {
        Add(end_kind, "");
        Advance(length);
        return {};
      }
      if (const std::size_t space = SpaceLength(Rest()); space > 0) {
        Advance(space);
        continue;
      }
      ASHLAR_TRY(ReadToken(&open));
    }
    return Fail(Invalid("unexpected end of the template inside a tag; '{}' is missing", end));
  }

  Status ReadToken(std::string* open) {
    const char first = source_[pos_];
    if (IsDecimalDigit(first)) {
      return ReadNumber();
    }
    if (first == '\'' || first == '"') {
      return ReadString();
    }
    std::size_t next = pos_;
    if (IsIdentifierStart(NextChar(source_, &next))) {
      std::size_t end = next;
      while (end < source_.size() && IsIdentifierPart(NextChar(source_, &next))) {
        end = next;
      }
      Add(TokenKind::kName, Rest().substr(0, end - pos_));
      Advance(end - pos_);
      return {};
    }
    for (const std::string_view op : kOperators) {
      if (At(op)) {
        ASHLAR_TRY(Balance(op, open));
        Add(TokenKind::kOperator, op);
        Advance(op.size());
        return {};
      }
    }
    return Fail(Invalid("unexpected character '{}'", Rest().substr(0, next - pos_)));
  }

  Status Balance(std::string_view op, std::string* open) {
    if (op == "(" || op == "[" || op == "{") {
      open->push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
    } else if (op == ")" || op == "]" || op == "}") {
      if (open->empty()) {
        return Fail(Invalid("unexpected '{}'", op));
      }
      if (open->back() != op[0]) {
        return Fail(Invalid("unexpected '{}', expected '{}'", op, open->back()));
      }
      open->pop_back();
    }
    return {};
  }

  // Length of a float at the position; 0 when it is an integer.
  std::size_t FloatLength() const {
    if (pos_ > 0 && source_[pos_ - 1] == '.') {
      return 0;
    }
    const std::string_view text = Rest();
    std::size_t length = DigitsLength(text, IsDecimalDigit);
    std::size_t fraction = 0;
    if (text.substr(length).starts_with('.')) {
      fraction = DigitsLength(text.substr(length + 1), IsDecimalDigit);
      length += fraction > 0 ? 1 + fraction : 0;
    }
    if (length < text.size() && (text[length] == 'e' || text[length] == 'E')) {
      std::size_t exponent = length + 1;
      exponent +=
          exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-') ? 1 : 0;
      const std::size_t digits =
          exponent < text.size() ? DigitsLength(text.substr(exponent), IsDecimalDigit) : 0;
      if (digits > 0) {
        return exponent + digits;
      }
    }
    return fraction > 0 ? length : 0;
  }

  Status ReadNumber() {
    if (const std::size_t length = FloatLength(); length > 0) {
      const std::string digits = WithoutUnderscores(Rest().substr(0, length));
      const double value = ReadDecimal(digits).value_or(0);
      AddNumber(length, Value::Float(value));
      return {};
    }
    int base = 10;
    const char kind =
        pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
    if (source_[pos_] == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
    }
    const auto is_digit = [base](char c) {
      const int digit = IsDecimalDigit(c)                        ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : 99;
      return digit < base;
    };
    // An underscore may follow the prefix: 0x_ff.
    const std::size_t prefix = base == 10 ? 0 : 2;
    const std::string_view text = Rest().substr(prefix);
    const std::size_t skip = prefix > 0 && text.starts_with('_') ? 1 : 0;
    const std::size_t digits = DigitsLength(text.substr(skip), is_digit);
    if (digits == 0) {
      AddNumber(1, Value::Integer(0));  // "0x" without digits: 0, then a name
      return {};
    }
    return ReadInteger(prefix + skip + digits, WithoutUnderscores(text.substr(skip, digits)), base);
  }

  Status ReadInteger(std::size_t length, const std::string& digits, int base) {
    if (base == 10 && digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
      return Fail(Invalid("unexpected digits after 0 in the number {}", digits));
    }
    Int value = 0;
    for (const char c : digits) {
      const int digit = IsDecimalDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit}, &value)) {
        return Fail(Unsupported("the integer {} has more than 127 bits", digits));
      }
    }
    AddNumber(length, Value::Integer(value));
    return {};
  }

  void AddNumber(std::size_t length, Value value) {
    tokens_.push_back(
        {TokenKind::kNumber, line_, std::string(Rest().substr(0, length)), std::move(value)});
    Advance(length);
  }

  Status ReadString() {
    const char quote = source_[pos_];
    std::size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
      return Fail(Invalid("the string that begins with {} has no end", quote));
    }
    const std::string_view body = std::string_view(source_).substr(pos_ + 1, end - pos_ - 1);
    std::string text;
    ASHLAR_TRY(Unescape(body, &text));
    Add(TokenKind::kString, text);
    Advance(end + 1 - pos_);
    return {};
  }

  Status Unescape(std::string_view body, std::string* out) {
    for (std::size_t i = 0; i < body.size();) {
      if (body[i] != '\\') {
        *out += body[i++];
        continue;
      }
      ASHLAR_TRY(UnescapeOne(body, &i, out));
    }
    return {};
  }

  // The escape at body[*i] (a backslash with a character behind it).
  Status UnescapeOne(std::string_view body, std::size_t* i, std::string* out) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = body[*i + 1];
    if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      *out += kMeanings[letter];
      *i += 2;
    } else if (c == '\n') {
      *i += 2;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      std::size_t end = *i + 1;
      for (; end < body.size() && end < *i + 4 && body[end] >= '0' && body[end] <= '7'; ++end) {
        value = value * 8 + static_cast<char32_t>(body[end] - '0');
      }
      AppendChar(out, value);
      *i = end;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return UnescapeHex(body, c == 'x' ? 2 : c == 'u' ? 4 : 8, i, out);
    } else if (c == 'N') {
      return Fail(Unsupported("the escape \\N{{...}} in a string; write the character itself"));
    } else {
      AppendUnknownEscape(body, i, out);
    }
    return {};
  }

  Status UnescapeHex(std::string_view body, std::size_t digits, std::size_t* i, std::string* out) {
    std::uint32_t value = 0;
    const std::string_view hex = body.substr(*i + 2, digits);
    const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex.size() < digits || read.ec != std::errc() || read.ptr != hex.data() + hex.size()) {
      // Quoted up to its last digit: what follows may be cut in the middle of a character.
      const auto read_digits = static_cast<std::size_t>(read.ptr - hex.data());
      return Fail(Invalid("a truncated escape '{}' in a string; it needs {} hexadecimal digits",
                          body.substr(*i, 2 + read_digits), digits));
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return Fail(
          Invalid("the escape '{}' in a string is not a character", body.substr(*i, 2 + digits)));
    }
    AppendChar(out, value);
    *i += 2 + digits;
    return {};
  }

  // An unknown escape stands for itself. The reference decodes strings from ASCII, so a letter
  // beyond it behind a backslash appears as its code.
  static void AppendUnknownEscape(std::string_view body, std::size_t* i, std::string* out) {
    std::size_t next = *i + 1;
    const char32_t c = NextChar(body, &next);
    *out += '\\';
    if (c < 0x80) {
      *out += static_cast<char>(c);
    } else if (c < 0x100) {
      *out += fmt::format("x{:02x}", static_cast<std::uint32_t>(c));
    } else if (c < 0x10000) {
      *out += fmt::format("u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      *out += fmt::format("U{:08x}", static_cast<std::uint32_t>(c));
    }
    *i = next;
  }

  const std::string source_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;  // what was read last ended a line
  std::vector<Token> tokens_;
};

}  // namespace

Error AtLine(int line, Error error) {
  error.message = fmt::format("line {}: {}", line, error.message);
  return error;
}

Result<std::vector<Token>> Tokenize(std::string_view source, const Limits& limits) {
  if (source.size() > limits.source_bytes) {
    return Exhausted("the template has {} bytes; at most {} are read", source.size(),
                     limits.source_bytes);
  }
  if (!IsValidUtf8(source)) {
    return Invalid("the template is not UTF-8");
  }
  return Lexer(NormalizeLines(source)).Run();
}

}  // namespace ashlar::text::jinja
