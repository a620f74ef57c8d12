#include "plan/config_fields.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace ashlar::plan {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kShownBytes = 60;  // of a value, in a message

// Whether brackets are nested deeper than kMaxDepth: the parser's memory is bounded by the text's.
bool IsTooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_string = !is_string;
    if (is_string) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  if (IsTooDeep(text)) {
    return MakeError(ErrorCode::kCorrupt, "JSON nested deeper than {} levels", kMaxDepth);
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    return MakeError(ErrorCode::kCorrupt, "not valid JSON at byte {}", error.byte);
  } catch (const Json::exception&) {  // e.g. a number out of range
    return MakeError(ErrorCode::kCorrupt, "JSON with a number that is out of range");
  }
}

ConfigFields::Found ConfigFields::Find(Names names) const {
  for (const std::string_view name : names) {
    const auto entry = object_.find(name);
    if (entry != object_.end() && !entry->is_null()) return {.name = name, .value = &*entry};
  }
  return {};
}

Error ConfigFields::Bad(const Found& found, std::string_view right) const {
  return MakeError(ErrorCode::kCorrupt, "{}: field \"{}\" is {}; {}", where_, found.name,
                   Shown(*found.value), right);
}

Error ConfigFields::Missing(Names names) const {
  return MakeError(ErrorCode::kCorrupt, "{}: field \"{}\" is missing", where_, names.front());
}

Error ConfigFields::Wrong(Names names, std::string_view right) const {
  const Found found = Find(names);
  return found.value == nullptr ? Missing(names) : Bad(found, right);
}

Result<std::uint64_t> ConfigFields::CountOf(const Found& found, const Json& value,
                                            Limits limits) const {
  const bool is_count =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!is_count || value.get<std::uint64_t>() < limits.low ||
      value.get<std::uint64_t>() > limits.high) {
    return Bad(found,
               fmt::format("it must be a whole number from {} to {}", limits.low, limits.high));
  }
  return value.get<std::uint64_t>();
}

Result<std::uint64_t> ConfigFields::Count(Names names, Limits limits,
                                          std::optional<std::uint64_t> fallback) const {
  const Found found = Find(names);
  if (found.value != nullptr) return CountOf(found, *found.value, limits);
  if (fallback) return *fallback;
  return Missing(names);
}

Result<std::uint32_t> ConfigFields::Count32(Names names, Limits limits,
                                            std::optional<std::uint32_t> fallback) const {
  ASHLAR_ASSIGN(const std::uint64_t value, Count(names, limits, fallback));
  ASHLAR_CHECK(value <= std::numeric_limits<std::uint32_t>::max(), "limits of {}", names.front());
  return static_cast<std::uint32_t>(value);
}

Result<bool> ConfigFields::Flag(Names names, bool fallback) const {
  const Found found = Find(names);
  if (found.value == nullptr) return fallback;
  if (!found.value->is_boolean()) return Bad(found, "it must be true or false");
  return found.value->get<bool>();
}

Result<std::string> ConfigFields::Text(Names names) const {
  const Found found = Find(names);
  if (found.value == nullptr) return std::string();
  if (!found.value->is_string()) return Bad(found, "it must be a text");
  return found.value->get<std::string>();
}

Result<std::vector<std::uint32_t>> ConfigFields::CountByLayer(
    Names names, Limits limits, std::size_t layers, std::optional<std::uint32_t> fallback) const {
  const Found found = Find(names);
  if (found.value == nullptr || !found.value->is_array()) {
    ASHLAR_ASSIGN(const std::uint32_t same, Count32(names, limits, fallback));
    return std::vector<std::uint32_t>(layers, same);
  }
  if (found.value->size() != layers) {
    return Bad(found, fmt::format("a list must have one number for each of the {} layers", layers));
  }
  std::vector<std::uint32_t> counts;
  counts.reserve(layers);
  for (const Json& value : *found.value) {
    ASHLAR_ASSIGN(const std::uint64_t count, CountOf(found, value, limits));
    counts.push_back(static_cast<std::uint32_t>(count));
  }
  return counts;
}

Result<std::vector<std::string>> ConfigFields::WordsByLayer(Names names, std::size_t layers) const {
  const Found found = Find(names);
  std::vector<std::string> words;
  if (found.value == nullptr) return words;
  if (!found.value->is_array() || found.value->size() != layers) {
    return Bad(found,
               fmt::format("it must be a list with one word for each of the {} layers", layers));
  }
  words.reserve(layers);
  for (const Json& value : *found.value) {
    if (!value.is_string()) return Bad(found, "it must be a list of words");
    words.push_back(value.get<std::string>());
  }
  return words;
}

}  // namespace ashlar::plan
