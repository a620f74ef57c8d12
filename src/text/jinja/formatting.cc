#include "text/jinja/formatting.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/string_search.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

constexpr int kMaxPrecision = 1000;

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

// Digits at `*pos` as a number, `otherwise` when there are none.
Result<Int> ReadCount(std::string_view text, std::size_t* pos, Int otherwise) {
  Int value = 0;
  const std::size_t start = *pos;
  while (*pos < text.size() && IsDecimalDigit(text[*pos])) {
    value = value * 10 + (text[(*pos)++] - '0');
    if (value > static_cast<Int>(kMaxStringBytes)) {
      return Exhausted("a format's width or precision is more than {}", kMaxStringBytes);
    }
  }
  return *pos == start ? otherwise : value;
}

// "1234567.5" -> "1,234,567.5".
std::string Grouped(const std::string& digits, char separator) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) {
      out += separator;
    }
    out += digits[i];
  }
  return out + digits.substr(end);
}

std::string IntegerDigits(Int value, const FieldSpec& spec) {
  const char type = spec.type;
  using Unsigned = unsigned __int128;
  Unsigned rest =
      value < 0 ? Unsigned{0} - static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  const char lower = static_cast<char>(type | 0x20);
  const unsigned base = lower == 'x' ? 16 : lower == 'o' ? 8 : lower == 'b' ? 2 : 10;
  // A name of its own: GCC 12 with UBSan indexes a conditional string by an uninitialised value.
  const std::string_view alphabet = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += alphabet[static_cast<unsigned>(rest % base)];
    rest /= base;
  } while (rest != 0);
  std::reverse(digits.begin(), digits.end());
  return spec.is_alternate && base != 10 ? std::string("0") + type + digits : digits;
}

// |value| in C's notation of `type`, which is Python's for these types.
std::string FloatDigits(double value, char type, const FieldSpec& spec) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (std::isnan(value) || std::isinf(value)) {
    const std::string name = std::isnan(value) ? "nan" : "inf";
    return type >= 'A' && type <= 'Z' ? ToUpper(name) : name;
  }
  const std::string format = std::string(spec.is_alternate ? "%#.*" : "%.*") + type;
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, std::fabs(value));
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  (void)std::snprintf(out.data(), out.size(), format.c_str(), precision, std::fabs(value));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

Result<std::string> NumberDigits(const Value& value, const FieldSpec& spec) {
  const bool is_float_type =
      spec.type != 0 && std::string_view("fFeEgG%").find(spec.type) != std::string_view::npos;
  if (value.IsIntegral() && !is_float_type) {
    if (spec.precision >= 0) {
      return Invalid("a precision is not allowed for an integer");
    }
    if (spec.type == 'c') {
      return Unsupported("the format type 'c'");
    }
    return IntegerDigits(value.integer(), spec);
  }
  if (spec.type == 0 && spec.precision < 0) {
    const std::string shown = FloatRepr(std::fabs(value.number()));
    return shown;
  }
  if (spec.type != 0 && !is_float_type) {
    return Invalid("unknown format code '{}' for a float", spec.type);
  }
  if (spec.type == '%') {
    return FloatDigits(value.number() * 100, 'f', spec) + "%";
  }
  const std::string digits = FloatDigits(value.number(), spec.type == 0 ? 'g' : spec.type, spec);
  const bool looks_whole =
      spec.type == 0 && digits.find_first_not_of("0123456789") == std::string::npos;
  return looks_whole ? digits + ".0" : digits;
}

}  // namespace

Result<std::string> FormatField(Runtime& runtime, const Value& value, const FieldSpec& spec) {
  if (spec.precision > kMaxPrecision && value.IsNumber()) {
    return Exhausted("a precision of {}; at most {} is allowed", spec.precision, kMaxPrecision);
  }
  const bool is_text = !value.IsNumber() || (value.IsBool() && spec.type == 0);
  if (is_text) {
    if (spec.type != 0 && spec.type != 's') {
      return Invalid("unknown format code '{}' for an object of type '{}'", spec.type,
                     TypeName(value));
    }
    if (!value.IsString() && !value.IsBool() &&
        (spec.width > 0 || spec.align != 0 || spec.precision >= 0)) {
      return Invalid("a value of type '{}' takes no format specification", TypeName(value));
    }
    ASHLAR_ASSIGN(std::string text, Str(runtime, value));
    if (spec.precision >= 0) {
      text.resize(ByteOffset(text, static_cast<std::size_t>(spec.precision)));
    }
    const Padding padding = spec.align == '>'   ? Padding::kLeft
                            : spec.align == '^' ? Padding::kCenter
                                                : Padding::kRight;
    return PadTo(runtime, text, spec.width, spec.fill, padding);
  }
  ASHLAR_ASSIGN(std::string digits, NumberDigits(value, spec));
  if (spec.group != 0) {
    digits = Grouped(digits, spec.group);
  }
  const bool is_negative = value.IsFloat() ? std::signbit(value.real()) : value.integer() < 0;
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align == '=') {
    ASHLAR_ASSIGN(const std::string padded,
                  PadTo(runtime, digits, spec.width - static_cast<Int>(sign.size()), spec.fill,
                        Padding::kLeft));
    return sign + padded;
  }
  const Padding padding = spec.align == '<'   ? Padding::kRight
                          : spec.align == '^' ? Padding::kCenter
                                              : Padding::kLeft;
  return PadTo(runtime, sign + digits, spec.width, spec.fill, padding);
}

namespace {

// One "format % values".
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime),
        format_(format.bytes()),
        is_markup_(format.text().is_markup()),
        values_(values) {}

  Result<std::string> Run() {
    while (pos_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', pos_), format_.size());
      out_ += format_.substr(pos_, percent - pos_);
      pos_ = percent + 1;
      if (percent < format_.size()) {
        ASHLAR_TRY(Convert());
        ASHLAR_TRY(runtime_.CheckStringBytes(out_.size()));
      }
    }
    const bool is_all_used = values_.IsTuple()
                                 ? next_ == values_.items().size()
                                 : next_ == 1 || values_.IsDict() || values_.IsSequence();
    if (!is_all_used) {
      return Invalid("not all values were used by the format");
    }
    return std::move(out_);
  }

 private:
  Result<Value> TakeValue() {
    if (values_.IsTuple()) {
      if (next_ == values_.items().size()) {
        return Invalid("not enough values for the format");
      }
      return values_.items()[next_++];
    }
    if (next_++ > 0) {
      return Invalid("not enough values for the format");
    }
    return values_;
  }

  Result<Value> NamedValue() {
    const std::size_t end = format_.find(')', pos_);
    if (end == std::string_view::npos) {
      return Invalid("a name in the format has no ')'");
    }
    const std::string_view name = format_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    if (!values_.IsDict()) {
      return Invalid("a format with names needs a dict");
    }
    const Value* found = values_.dict().Find(name);
    return found != nullptr ? Result<Value>(*found)
                            : Invalid("the format's name '{}' is not in the dict", Excerpt(name));
  }

  Result<Int> Count(Int otherwise) {
    if (pos_ >= format_.size() || format_[pos_] != '*') {
      return ReadCount(format_, &pos_, otherwise);
    }
    ++pos_;
    ASHLAR_ASSIGN(const Value value, TakeValue());
    if (!value.IsIntegral()) {
      return Invalid("* in a format needs an integer");
    }
    return value.integer();
  }

  Status Convert() {
    std::optional<Value> value;
    if (pos_ < format_.size() && format_[pos_] == '(') {
      ASHLAR_ASSIGN(value, NamedValue());
    }
    FieldSpec spec;
    bool is_left = false;
    bool is_zero = false;
    for (; pos_ < format_.size() &&
           std::string_view("-+ #0").find(format_[pos_]) != std::string_view::npos;
         ++pos_) {
      const char flag = format_[pos_];
      is_left = is_left || flag == '-';
      is_zero = is_zero || flag == '0';
      spec.is_alternate = spec.is_alternate || flag == '#';
      spec.sign = flag == '+' || (flag == ' ' && spec.sign != '+') ? flag : spec.sign;
    }
    ASHLAR_ASSIGN(spec.width, Count(0));
    is_left = is_left || spec.width < 0;
    spec.width = spec.width < 0 ? -spec.width : spec.width;
    if (pos_ < format_.size() && format_[pos_] == '.') {
      ++pos_;
      ASHLAR_ASSIGN(const Int precision, Count(0));
      spec.precision = static_cast<int>(std::clamp(precision, Int{0}, Int{1} << 30));
    }
    if (pos_ < format_.size() &&
        std::string_view("hlL").find(format_[pos_]) != std::string_view::npos) {
      ++pos_;
    }
    if (pos_ >= format_.size()) {
      return Invalid("the format ends in the middle of a conversion");
    }
    spec.type = format_[pos_++];
    if (spec.type == '%') {
      out_ += '%';
      return {};
    }
    if (!value) {
      ASHLAR_ASSIGN(value, TakeValue());
    }
    const bool is_number = spec.type != 's' && spec.type != 'r';
    spec.align = is_left ? '<' : is_zero && is_number ? '=' : '>';
    spec.fill = spec.align == '=' ? "0" : " ";
    return AppendValue(*value, spec);
  }

  Status AppendValue(const Value& value, FieldSpec spec) {
    if (spec.type == 's' || spec.type == 'r') {
      std::string text;
      ASHLAR_TRY(spec.type == 's' ? AppendStr(runtime_, value, &text)
                                  : AppendRepr(runtime_, value, &text));
      const bool escapes = is_markup_ && !(value.IsString() && value.text().is_markup());
      ASHLAR_ASSIGN(const Value shown,
                    runtime_.String(escapes ? EscapeHtml(text) : std::move(text)));
      spec.type = 's';
      ASHLAR_ASSIGN(const std::string field, FormatField(runtime_, shown, spec));
      out_ += field;
      return {};
    }
    if (std::string_view("diuxXofFeEgG").find(spec.type) == std::string_view::npos) {
      return Unsupported("the conversion %{} in a format", spec.type);
    }
    ASHLAR_TRY(CheckDefined(value));
    if (!value.IsNumber()) {
      return Invalid("%{} needs a number, not '{}'", spec.type, TypeName(value));
    }
    Value number = value;
    if (std::string_view("diu").find(spec.type) != std::string_view::npos) {
      if (value.IsFloat() && !(std::fabs(value.real()) < 1e37)) {
        return Invalid("%d cannot show {}", FloatRepr(value.real()));
      }
      number = Value::Integer(value.IsFloat() ? static_cast<Int>(value.real()) : value.integer());
      spec.type = 'd';
    } else if (value.IsBool()) {
      number = Value::Integer(value.integer());
    }
    ASHLAR_ASSIGN(const std::string field, FormatField(runtime_, number, spec));
    out_ += field;
    return {};
  }

  Runtime& runtime_;
  const std::string_view format_;
  const bool is_markup_;
  const Value& values_;
  std::size_t pos_ = 0;
  std::size_t next_ = 0;
  std::string out_;
};

}  // namespace

Result<Value> FormatPercent(Runtime& runtime, const Value& format, const Value& values) {
  ASHLAR_TRY(runtime.SpendBytes(format.bytes().size()));
  ASHLAR_ASSIGN(std::string text, PercentFormatter(runtime, format, values).Run());
  return runtime.StringLike(format, std::move(text));
}

}  // namespace ashlar::text::jinja
