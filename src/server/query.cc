#include "server/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "server/router.h"

namespace ashlar::server {
namespace {

constexpr std::size_t kMaxShownBytes = 100;

std::string_view Shown(std::string_view text) { return text.substr(0, kMaxShownBytes); }

ApiError Bad(std::string_view name, std::string message) {
  return {.message = std::move(message), .param = std::string(Shown(name))};
}

}  // namespace

ApiResult<Query> Query::Parse(std::string_view text,
                              std::initializer_list<std::string_view> known) {
  Query query;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    std::string name = PercentDecode(part.substr(0, equals));
    if (std::ranges::find(known, name) == known.end()) {
      return Bad(name,
                 known.size() == 0
                     ? fmt::format("unknown query parameter '{}'; there are none here", Shown(name))
                     : fmt::format("unknown query parameter '{}'; use {}", Shown(name),
                                   fmt::join(known, ", ")));
    }
    if (query.Text(name)) {
      return Bad(name, fmt::format("the query parameter '{}' is given twice", Shown(name)));
    }
    if (query.values_.size() == kMaxParameters) {
      return Bad("", fmt::format("more than {} query parameters", kMaxParameters));
    }
    query.values_.emplace_back(std::move(name), equals == std::string_view::npos
                                                    ? std::string()
                                                    : PercentDecode(part.substr(equals + 1)));
  }
  return query;
}

std::optional<std::string_view> Query::Text(std::string_view name) const {
  const auto found = std::ranges::find(
      values_, name, [](const auto& value) -> std::string_view { return value.first; });
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

ApiResult<bool> Query::Flag(std::string_view name) const {
  const std::optional<std::string_view> value = Text(name);
  if (!value || *value == "false" || *value == "0") return false;
  if (value->empty() || *value == "true" || *value == "1") return true;
  return Bad(name, fmt::format("'{}' is '{}'; use true or false", name, Shown(*value)));
}

ApiResult<std::optional<std::uint64_t>> Query::Number(std::string_view name, std::uint64_t least,
                                                      std::uint64_t most) const {
  const std::optional<std::string_view> value = Text(name);
  if (!value) return std::optional<std::uint64_t>();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size() || number < least ||
      number > most) {
    return Bad(name, fmt::format("'{}' is '{}'; use a whole number from {} to {}", name,
                                 Shown(*value), least, most));
  }
  return std::optional(number);
}

}  // namespace ashlar::server
