#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

using nlohmann::ordered_json;

Result<Value> StringFromJson(Runtime& runtime, const std::string& text) {
  if (!IsValidUtf8(text)) {
    return Invalid("a string of {} bytes in the context is not UTF-8", text.size());
  }
  return runtime.String(text);
}

Result<Value> ListFromJson(Runtime& runtime, const ordered_json& json) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const ordered_json& item : json) {
    ASHLAR_ASSIGN(Value value, FromJson(runtime, item));
    items.push_back(std::move(value));
  }
  return runtime.List(std::move(items));
}

Result<Value> DictFromJson(Runtime& runtime, const ordered_json& json) {
  Entries entries;
  entries.reserve(json.size());
  for (const auto& [name, item] : json.items()) {
    ASHLAR_ASSIGN(Value key, StringFromJson(runtime, name));
    ASHLAR_ASSIGN(Value value, FromJson(runtime, item));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return runtime.MakeDict(std::move(entries));
}

void AppendUnicodeEscape(char32_t c, std::string* out) {
  if (c >= 0x10000) {
    const std::uint32_t offset = static_cast<std::uint32_t>(c) - 0x10000;
    *out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  } else {
    *out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
  }
}

void AppendJsonString(std::string_view text, const JsonStyle& style, std::string* out) {
  *out += '"';
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = NextChar(text, &pos);
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\f':
        *out += "\\f";
        break;
      case '\b':
        *out += "\\b";
        break;
      default:
        if (c < 0x20 || (style.is_ascii && c > 0x7E)) {
          AppendUnicodeEscape(c, out);
        } else {
          *out += text.substr(start, pos - start);
        }
    }
  }
  *out += '"';
}

// Writes values one level deep at a time, knowing the indentation so far.
class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, std::string* out)
      : runtime_(runtime), style_(style), out_(out) {}

  Status Write(const Value& value) {
    ASHLAR_TRY(runtime_.Spend());
    ASHLAR_TRY(runtime_.CheckStringBytes(out_->size()));
    switch (value.kind()) {
      case Kind::kNone:
        *out_ += "null";
        return {};
      case Kind::kBool:
        *out_ += value.boolean() ? "true" : "false";
        return {};
      case Kind::kInt:
      case Kind::kFloat:
        *out_ += Number(value);
        return {};
      case Kind::kString:
        ASHLAR_TRY(runtime_.SpendBytes(value.bytes().size()));
        AppendJsonString(value.bytes(), style_, out_);
        return {};
      case Kind::kSequence: {
        ASHLAR_ASSIGN(const auto level, runtime_.Enter());
        return WriteList(value.items());
      }
      case Kind::kDict: {
        ASHLAR_ASSIGN(const auto level, runtime_.Enter());
        return WriteDict(value.dict());
      }
      default:
        return Invalid("a value of type '{}' cannot be written as JSON", TypeName(value));
    }
  }

 private:
  static std::string Number(const Value& value) {
    if (value.IsInt()) {
      return fmt::format("{}", value.integer());
    }
    if (std::isnan(value.real())) {
      return "NaN";
    }
    if (std::isinf(value.real())) {
      return value.real() < 0 ? "-Infinity" : "Infinity";
    }
    return FloatRepr(value.real());
  }

  Status NewLine() {
    if (!style_.is_indented) {
      return {};
    }
    *out_ += '\n';
    for (int i = 0; i < depth_; ++i) {
      ASHLAR_TRY(runtime_.SpendBytes(style_.indent.size()));
      ASHLAR_TRY(runtime_.CheckStringBytes(out_->size() + style_.indent.size()));
      *out_ += style_.indent;
    }
    return {};
  }

  Status WriteList(const std::vector<Value>& items) {
    if (items.empty()) {
      *out_ += "[]";
      return {};
    }
    *out_ += '[';
    ++depth_;
    std::string_view separator;
    for (const Value& item : items) {
      *out_ += separator;
      separator = style_.item_separator;
      ASHLAR_TRY(NewLine());
      ASHLAR_TRY(Write(item));
    }
    --depth_;
    ASHLAR_TRY(NewLine());
    *out_ += ']';
    return {};
  }

  Status WriteKey(const Value& key) {
    if (key.IsString()) {
      return Write(key);
    }
    *out_ += '"';
    ASHLAR_TRY(Write(key));
    *out_ += '"';
    return {};
  }

  Status WriteDict(const Dict& dict) {
    if (dict.entries.empty()) {
      *out_ += "{}";
      return {};
    }
    std::vector<std::size_t> order(dict.entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (style_.sorts_keys) {
      ASHLAR_TRY(CheckSameKeys(dict));
      std::sort(order.begin(), order.end(), [&dict](std::size_t a, std::size_t b) {
        return KeyLess(dict.entries[a].first, dict.entries[b].first);
      });
    }
    *out_ += '{';
    ++depth_;
    std::string_view separator;
    for (const std::size_t i : order) {
      *out_ += separator;
      separator = style_.item_separator;
      ASHLAR_TRY(NewLine());
      ASHLAR_TRY(WriteKey(dict.entries[i].first));
      *out_ += style_.key_separator;
      ASHLAR_TRY(Write(dict.entries[i].second));
    }
    --depth_;
    ASHLAR_TRY(NewLine());
    *out_ += '}';
    return {};
  }

  static Status CheckSameKeys(const Dict& dict) {
    const Value& first = dict.entries.front().first;
    for (const auto& [key, value] : dict.entries) {
      if (key.IsString() != first.IsString() || key.IsNone() != first.IsNone()) {
        return Invalid("keys of types '{}' and '{}' cannot be sorted", TypeName(first),
                       TypeName(key));
      }
    }
    return {};
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string* out_;
  int depth_ = 0;
};

}  // namespace

Result<Value> FromJson(Runtime& runtime, const ordered_json& json) {
  ASHLAR_TRY(runtime.Spend());
  ASHLAR_ASSIGN(const auto level, runtime.Enter());
  switch (json.type()) {
    case ordered_json::value_t::null:
      return Value::None();
    case ordered_json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value::Integer(json.get<std::int64_t>());
    case ordered_json::value_t::number_unsigned:
      return Value::Integer(json.get<std::uint64_t>());
    case ordered_json::value_t::number_float:
      return Value::Float(json.get<double>());
    case ordered_json::value_t::string:
      return StringFromJson(runtime, json.get_ref<const std::string&>());
    case ordered_json::value_t::array:
      return ListFromJson(runtime, json);
    case ordered_json::value_t::object:
      return DictFromJson(runtime, json);
    default:
      return Invalid("a value of type '{}' in the context; JSON values are known",
                     json.type_name());
  }
}

Status AppendJson(Runtime& runtime, const Value& value, const JsonStyle& style, std::string* out) {
  ASHLAR_TRY(JsonWriter(runtime, style, out).Write(value));
  return runtime.CheckStringBytes(out->size());
}

}  // namespace ashlar::text::jinja
