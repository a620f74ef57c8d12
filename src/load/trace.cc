#include "load/trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace ashlar::load {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytes = 60;
constexpr double kMaxTimestampMs = 1e12;  // 30 years

Error Wrong(std::string what) { return {ErrorCode::kCorrupt, std::move(what)}; }

Result<double> TimestampOf(const Json& object) {
  const auto found = object.find("timestamp");
  if (found == object.end()) return Wrong("'timestamp' is missing; it is a number of milliseconds");
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0 && value <= kMaxTimestampMs)) {
    return Wrong(fmt::format("'timestamp' is {}; it must be a number of milliseconds, 0 to {:g}",
                             found->dump().substr(0, kShownBytes), kMaxTimestampMs));
  }
  return value;
}

Result<std::uint64_t> LengthOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) {
    return Wrong(fmt::format("'{}' is missing; it is a number of tokens", name));
  }
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() == 0 ||
      found->get<std::uint64_t>() > kMaxTraceTokens) {
    return Wrong(fmt::format("'{}' is {}; it must be a whole number of tokens, 1 to {}", name,
                             found->dump().substr(0, kShownBytes), kMaxTraceTokens));
  }
  return found->get<std::uint64_t>();
}

Result<std::vector<std::uint64_t>> IdsOf(const Json& object, std::uint64_t tokens,
                                         std::uint64_t block_tokens) {
  const auto found = object.find("hash_ids");
  if (found == object.end()) return Wrong("'hash_ids' is missing; it is a list of numbers");
  if (!found->is_array()) {
    return Wrong(fmt::format("'hash_ids' is {}; it must be a list of numbers",
                             found->dump().substr(0, kShownBytes)));
  }
  const std::uint64_t blocks = (tokens + block_tokens - 1) / block_tokens;
  if (found->size() != blocks) {
    return Wrong(fmt::format("{} 'hash_ids' for {} tokens; in blocks of {} tokens there are {}",
                             found->size(), tokens, block_tokens, blocks));
  }
  std::vector<std::uint64_t> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_unsigned()) {
      return Wrong(fmt::format("'hash_ids' has {}; each must be a whole number from 0",
                               id.dump().substr(0, kShownBytes)));
    }
    ids.push_back(id.get<std::uint64_t>());
  }
  return ids;
}

Result<TraceRequest> ReadLine(std::string_view line, std::uint64_t block_tokens) {
  if (line.size() > kMaxTraceLineBytes) {
    return Wrong(fmt::format("the line has more than {} bytes", kMaxTraceLineBytes));
  }
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    const Json shown = line.substr(0, kShownBytes);
    return Wrong(fmt::format("{} is not a JSON object",
                             shown.dump(-1, ' ', true, Json::error_handler_t::replace)));
  }
  TraceRequest request;
  ASHLAR_ASSIGN(request.timestamp_ms, TimestampOf(object));
  ASHLAR_ASSIGN(request.input_tokens, LengthOf(object, "input_length"));
  ASHLAR_ASSIGN(request.output_tokens, LengthOf(object, "output_length"));
  ASHLAR_ASSIGN(request.hash_ids, IdsOf(object, request.input_tokens, block_tokens));
  return request;
}

// False at the end. Of a line that is too long, one byte too many is read: ReadLine refuses it.
bool NextLine(std::istream& in, std::string& line) {
  line.clear();
  char c = 0;
  while (line.size() <= kMaxTraceLineBytes && in.get(c)) {
    if (c == '\n') return true;
    line += c;
  }
  return !line.empty();
}

}  // namespace

Result<std::vector<TraceRequest>> ReadTrace(std::istream& in, std::string_view name,
                                            const TraceOptions& options) {
  std::vector<TraceRequest> requests;
  std::string line;
  for (std::size_t number = 1; NextLine(in, line); ++number) {
    const bool is_blank = line.find_first_not_of(" \t\r") == line.npos;
    if (is_blank && line.size() <= kMaxTraceLineBytes) continue;
    auto request = ReadLine(line, options.block_tokens);
    if (!request.ok()) {
      return MakeError(request.error().code, "{}:{}: {}", name, number, request.error().message);
    }
    requests.push_back(*std::move(request));
    if (requests.size() == options.max_requests) break;
  }
  if (in.bad()) return MakeError(ErrorCode::kIo, "{}: reading failed", name);
  if (requests.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: no requests in this trace", name);
  }
  std::ranges::stable_sort(requests, {}, &TraceRequest::timestamp_ms);
  return requests;
}

Result<std::vector<TraceRequest>> ReadTraceFile(const std::string& path,
                                                const TraceOptions& options) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return MakeError(ErrorCode::kNotFound, "cannot open the trace '{}'", path);
  return ReadTrace(in, path, options);
}

}  // namespace ashlar::load
