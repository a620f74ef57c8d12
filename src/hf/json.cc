#include "hf/json.h"

#include <utility>

#include "base/mapped_file.h"
#include "gguf/describe.h"

namespace ashlar::hf {
namespace {

// A config has 3 levels, a tokenizer 5.
constexpr std::size_t kMaxDepth = 64;

template <typename T>
std::optional<T> As(const Element& value) {
  T typed{};
  if (value.get(typed) != simdjson::SUCCESS) return std::nullopt;
  return typed;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The text with whole numbers of more digits than 64 bits hold written as fractions: many a
// tokenizer_config.json has a length of 10^30.
std::string WithWideNumbers(std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  std::string wide;
  wide.reserve(text.size() + 16);
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (is_in_string || !IsDigit(c)) {
      if (c == '"') is_in_string = !is_in_string;
      const std::size_t count = is_in_string && c == '\\' && i + 1 < text.size() ? 2 : 1;
      wide += text.substr(i, count);
      i += count;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && IsDigit(text[end])) ++end;
    const std::string_view before = text.substr(0, i);
    const bool is_whole =
        !before.ends_with('.') && !before.ends_with('e') && !before.ends_with('E') &&
        !before.ends_with('+') && !before.ends_with("e-") && !before.ends_with("E-") &&
        std::string_view(".eE").find(end < text.size() ? text[end] : ' ') == std::string_view::npos;
    wide += text.substr(i, end - i);
    if (is_whole && end - i > kMostDigits) wide += ".0";
    i = end;
  }
  return wide;
}

}  // namespace

Result<Json> Json::Parse(std::string_view text, std::string name) {
  Json json;
  json.name_ = std::move(name);
  json.parser_ = std::make_unique<simdjson::dom::parser>();
  const auto allocated = json.parser_->allocate(text.size(), kMaxDepth);
  if (allocated != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kResourceExhausted, "'{}': no memory for {} bytes of JSON",
                     json.name_, text.size());
  }
  Element root;
  auto parsed = json.parser_->parse(text.data(), text.size(), true).get(root);
  if (parsed == simdjson::NUMBER_ERROR) {
    const std::string wide = WithWideNumbers(text);
    if (json.parser_->allocate(wide.size(), kMaxDepth) == simdjson::SUCCESS) {
      parsed = json.parser_->parse(wide.data(), wide.size(), true).get(root);
    }
  }
  if (parsed != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kCorrupt, "'{}' is no JSON that is read here ({})", json.name_,
                     simdjson::error_message(parsed));
  }
  if (root.get(json.root_) != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kCorrupt, "'{}' holds {}; an object is needed", json.name_,
                     Shown(root));
  }
  return json;
}

Result<Json> Json::Read(const std::string& path, std::uint64_t most_bytes) {
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().size() > most_bytes) {
    return MakeError(ErrorCode::kUnsupported, "'{}' has {} bytes; at most {} are read", path,
                     file.bytes().size(), most_bytes);
  }
  return Parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::string Shown(const Element& value) {
  if (const auto text = TextIn(value)) return gguf::Quote(*text);
  if (ArrayIn(value)) return "an array";
  if (ObjectIn(value)) return "an object";
  return simdjson::minify(value);
}

std::optional<std::string_view> TextIn(const Element& value) { return As<std::string_view>(value); }
std::optional<std::uint64_t> CountIn(const Element& value) { return As<std::uint64_t>(value); }
std::optional<double> NumberIn(const Element& value) { return As<double>(value); }
std::optional<bool> FlagIn(const Element& value) { return As<bool>(value); }
std::optional<Array> ArrayIn(const Element& value) { return As<Array>(value); }
std::optional<Object> ObjectIn(const Element& value) { return As<Object>(value); }
bool IsNull(const Element& value) { return value.is_null(); }

std::optional<Element> FieldOf(const Object& object, std::string_view name) {
  for (const auto field : object) {
    if (field.key == name) {
      return IsNull(field.value) ? std::nullopt : std::optional(field.value);
    }
  }
  return std::nullopt;
}

}  // namespace ashlar::hf
