// Diagnostics go to stderr; stdout belongs to results. Levels: debug, info, warning, error.
//
// Two formats, one line each:
//   text   I 12:34:56.789 serving tiny on http://127.0.0.1:8080/v1
//   json   {"ts":"2026-01-31T12:34:56.789012Z","level":"info","msg":"serving ..."}
// A line may have fields: name=value behind the message, or members of the object.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace ashlar {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
std::string_view NameOf(LogLevel level);  // "debug", "info", "warning", "error"

enum class LogFormat : std::uint8_t { kText, kJson };

struct LogOptions {
  std::string level = "info";   // as NameOf says
  std::string format = "text";  // "text" or "json"
};

// Sends spdlog's default logger to stderr. Errors: kInvalidArgument for an unknown level or format.
Status InitLog(const LogOptions& options);

struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool> value;
};

// One line with fields. From any thread; waits for stderr.
void LogFields(LogLevel level, std::string_view message, std::span<const LogField> fields);
bool IsLogged(LogLevel level);

struct LogLine {
  std::int64_t time_us = 0;  // since 1970, UTC
  LogLevel level = LogLevel::kInfo;
  std::string_view message;
  std::span<const LogField> fields = {};
};
// A line of the JSON format, without its end. Numbers that JSON has not become null.
std::string FormatJsonLine(const LogLine& line);
// The message and its fields in the text format.
std::string FormatTextMessage(std::string_view message, std::span<const LogField> fields);

}  // namespace ashlar

#define ASHLAR_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define ASHLAR_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define ASHLAR_LOG_WARNING(...) ::spdlog::warn(__VA_ARGS__)
#define ASHLAR_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
