#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "trace/lines.h"
#include "trace/prefix_names.h"

namespace ashlar::trace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytes = 60;
constexpr double kMaxTimestampMs = 1e12;  // 30 years
constexpr std::size_t kMaxNameBytes = 64;

Error Wrong(std::string what) { return {ErrorCode::kCorrupt, std::move(what)}; }

std::string Shown(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kShownBytes);
}

Result<double> TimestampOf(const Json& object) {
  const auto found = object.find("timestamp");
  if (found == object.end()) return Wrong("'timestamp' is missing; it is a number of milliseconds");
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0 && value <= kMaxTimestampMs)) {
    return Wrong(fmt::format("'timestamp' is {}; it must be a number of milliseconds, 0 to {:g}",
                             Shown(*found), kMaxTimestampMs));
  }
  return value;
}

Result<std::uint64_t> LengthOf(const Json& object, const char* name, std::uint64_t least) {
  const auto found = object.find(name);
  if (found == object.end()) {
    return Wrong(fmt::format("'{}' is missing; it is a number of tokens", name));
  }
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() < least ||
      found->get<std::uint64_t>() > kMaxTokens) {
    return Wrong(fmt::format("'{}' is {}; it must be a whole number of tokens, {} to {}", name,
                             Shown(*found), least, kMaxTokens));
  }
  return found->get<std::uint64_t>();
}

Status ReadIds(const Json& object, std::uint64_t block_tokens, Request& request) {
  const auto found = object.find("hash_ids");
  if (found == object.end()) return Wrong("'hash_ids' is missing; it is a list of numbers");
  if (!found->is_array()) {
    return Wrong(fmt::format("'hash_ids' is {}; it must be a list of numbers", Shown(*found)));
  }
  const std::uint64_t blocks = (request.input_tokens + block_tokens - 1) / block_tokens;
  if (found->size() != blocks) {
    return Wrong(fmt::format("{} 'hash_ids' for {} tokens; in blocks of {} tokens there are {}",
                             found->size(), request.input_tokens, block_tokens, blocks));
  }
  request.hash_ids.reserve(blocks);
  for (const Json& id : *found) {
    if (!id.is_number_unsigned()) {
      return Wrong(fmt::format("'hash_ids' has {}; each must be a whole number from 0", Shown(id)));
    }
    request.hash_ids.push_back(id.get<std::uint64_t>());
  }
  return {};
}

Status ReadPrefixes(const Json& value, Request& request) {
  auto names = value.is_string() ? DecodeNames(value.get_ref<const std::string&>()) : std::nullopt;
  if (!names) {
    return Wrong(
        fmt::format("'prefixes' is {}; it must be base64, 4 characters a token", Shown(value)));
  }
  if (names->size() != request.input_tokens + request.output_tokens) {
    return Wrong(fmt::format("'prefixes' has {} tokens for {} of the prompt and {} of the output",
                             names->size(), request.input_tokens, request.output_tokens));
  }
  request.prefixes = *std::move(names);
  return {};
}

Status ReadName(const Json& object, const char* name, std::string& text) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (!found->is_string() || found->get_ref<const std::string&>().size() > kMaxNameBytes) {
    return Wrong(fmt::format("'{}' is {}; it must be a text of at most {} bytes", name,
                             Shown(*found), kMaxNameBytes));
  }
  text = found->get<std::string>();
  return {};
}

Status ReadPriority(const Json& object, Request& request) {
  const auto found = object.find("priority");
  if (found == object.end()) return {};
  using Limits = std::numeric_limits<std::int32_t>;
  const bool is_whole =
      found->is_number_integer() &&
      !(found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{Limits::max()});
  const std::int64_t value = is_whole ? found->get<std::int64_t>() : 0;
  if (!is_whole || value < Limits::min()) {
    return Wrong(fmt::format("'priority' is {}; it must be a whole number, {} to {}", Shown(*found),
                             Limits::min(), Limits::max()));
  }
  request.priority = static_cast<std::int32_t>(value);
  return {};
}

}  // namespace

Status ReadJsonLine(std::string_view line, std::uint64_t block_tokens, Request& request) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    return Wrong(fmt::format("{} is not a JSON object, or is cut off",
                             Shown(Json(line.substr(0, kShownBytes)))));
  }
  ASHLAR_ASSIGN(request.timestamp_ms, TimestampOf(object));
  ASHLAR_ASSIGN(request.input_tokens, LengthOf(object, "input_length", 1));
  const auto prefixes = object.find("prefixes");
  const bool is_own = prefixes != object.end();
  // A request may end without a token; in other traces such a line is a fault.
  ASHLAR_ASSIGN(request.output_tokens, LengthOf(object, "output_length", is_own ? 0 : 1));
  request.max_tokens = request.output_tokens;
  if (object.contains("max_tokens")) {
    ASHLAR_ASSIGN(request.max_tokens, LengthOf(object, "max_tokens", request.output_tokens));
  }
  request.hash_ids.clear();
  request.prefixes.clear();
  request.scope.clear();
  request.tenant.clear();
  request.priority = 0;
  if (!is_own) return ReadIds(object, block_tokens, request);
  ASHLAR_TRY(ReadName(object, "scope", request.scope));
  ASHLAR_TRY(ReadName(object, "tenant", request.tenant));
  ASHLAR_TRY(ReadPriority(object, request));
  return ReadPrefixes(*prefixes, request);
}

std::string FormatLine(const Request& request) {
  nlohmann::ordered_json line = {{"timestamp", request.timestamp_ms},
                                 {"input_length", request.input_tokens},
                                 {"output_length", request.output_tokens},
                                 {"max_tokens", request.max_tokens}};
  if (!request.scope.empty()) line["scope"] = request.scope;
  if (!request.tenant.empty()) line["tenant"] = request.tenant;
  if (request.priority != 0) line["priority"] = request.priority;
  line["prefixes"] = EncodeNames(request.prefixes);
  return line.dump();
}

}  // namespace ashlar::trace
