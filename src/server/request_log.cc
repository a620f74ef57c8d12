#include "server/request_log.h"

#include <string_view>
#include <vector>

#include "base/log.h"

namespace ashlar::server {
namespace {

// Microseconds are as fine as anybody reads.
double Milliseconds(std::int64_t ns) { return static_cast<double>(ns / 1000) / 1000; }

// What was routine stays routine only while it goes well.
LogLevel LevelOf(const RequestRecord& record) {
  if (record.status >= 500) return LogLevel::kWarning;
  return record.is_routine && record.status < 400 ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

void RequestLog::OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) {
  const LogLevel level = LevelOf(record);
  if (!IsLogged(level)) return;
  std::vector<LogField> fields = {{"id", std::string_view(record.id)},
                                  {"method", std::string_view(record.method)},
                                  {"route", record.route},
                                  {"status", std::int64_t{record.status}},
                                  {"ms", Milliseconds(duration_ns)}};
  if (!record.tenant.empty()) fields.push_back({"tenant", std::string_view(record.tenant)});
  if (record.client_left) fields.push_back({"client_left", true});
  if (const auto& generation = record.generation) {
    fields.insert(fields.end(), {{"sequences", generation->sequences},
                                 {"prompt_tokens", generation->prompt_tokens},
                                 {"cached_tokens", generation->cached_tokens},
                                 {"completion_tokens", generation->completion_tokens},
                                 {"queue_ms", Milliseconds(generation->queue_ns)},
                                 {"ttft_ms", Milliseconds(generation->ttft_ns)}});
    if (generation->ending) fields.push_back({"finish", NameOf(*generation->ending)});
  }
  LogFields(level, "request", fields);
}

}  // namespace ashlar::server
