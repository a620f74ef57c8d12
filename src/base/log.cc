#include "base/log.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/json_text.h"

namespace ashlar {
namespace {

constexpr LogLevel kLevels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                                LogLevel::kError};
// What this logger gets is a whole line already.
constexpr std::string_view kWholeLines = "whole lines";

std::atomic<LogFormat> format_in_use{LogFormat::kText};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel LevelOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return LogLevel::kError;
  if (level == spdlog::level::warn) return LogLevel::kWarning;
  return level == spdlog::level::info ? LogLevel::kInfo : LogLevel::kDebug;
}

std::int64_t MicrosecondsOf(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// 2026-01-31T12:34:56.789012Z
void AppendTime(std::int64_t time_us, std::string& out) {
  const auto seconds = static_cast<std::time_t>(time_us / 1'000'000);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  fmt::format_to(std::back_inserter(out), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
                 parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                 parts.tm_sec, time_us % 1'000'000);
}

void AppendValue(const LogField& field, LogFormat format, std::string& out) {
  std::visit(
      [&](auto value) {
        using T = decltype(value);
        if constexpr (std::is_same_v<T, std::string_view>) {
          const bool is_word =
              !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
                return c > ' ' && c < 0x7F && c != '"' && c != '=';
              });
          if (format == LogFormat::kText && is_word) {
            out += value;
          } else {
            AppendJsonString(value, out);
          }
        } else if constexpr (std::is_same_v<T, double>) {
          if (std::isfinite(value)) {
            fmt::format_to(std::back_inserter(out), "{}", value);
          } else {
            out += "null";
          }
        } else {
          fmt::format_to(std::back_inserter(out), "{}", value);
        }
      },
      field.value);
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    const std::string line = logger == kWholeLines
                                 ? std::string(payload)
                                 : FormatJsonLine({.time_us = MicrosecondsOf(message.time),
                                                   .level = LevelOf(message.level),
                                                   .message = payload});
    out.append(line.data(), line.data() + line.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

// Beside the default logger, to the same sink.
std::shared_ptr<spdlog::logger>& WholeLines() {
  static std::shared_ptr<spdlog::logger> logger;
  return logger;
}

}  // namespace

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

Status InitLog(const LogOptions& options) {
  const auto* const level = std::find_if(std::begin(kLevels), std::end(kLevels), [&](LogLevel one) {
    return NameOf(one) == options.level;
  });
  if (level == std::end(kLevels)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "unknown log level '{}'; use debug, info, warning or error", options.level);
  }
  if (options.format != "text" && options.format != "json") {
    return MakeError(ErrorCode::kInvalidArgument, "unknown log format '{}'; use text or json",
                     options.format);
  }
  const bool is_json = options.format == "json";
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  if (is_json) sink->set_color_mode(spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("ashlar", sink);
  auto whole_lines = std::make_shared<spdlog::logger>(std::string(kWholeLines), sink);
  logger->set_level(SpdlogLevel(*level));
  whole_lines->set_level(SpdlogLevel(*level));
  if (is_json) {
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    sink->set_pattern("%^%L%$ %H:%M:%S.%e %v");
  }
  format_in_use = is_json ? LogFormat::kJson : LogFormat::kText;
  WholeLines() = std::move(whole_lines);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

bool IsLogged(LogLevel level) { return spdlog::should_log(SpdlogLevel(level)); }

void LogFields(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!IsLogged(level)) return;
  if (format_in_use == LogFormat::kText || WholeLines() == nullptr) {
    spdlog::log(SpdlogLevel(level), "{}", FormatTextMessage(message, fields));
    return;
  }
  WholeLines()->log(SpdlogLevel(level), "{}",
                    FormatJsonLine({.time_us = MicrosecondsOf(std::chrono::system_clock::now()),
                                    .level = level,
                                    .message = message,
                                    .fields = fields}));
}

std::string FormatJsonLine(const LogLine& line) {
  std::string out = R"({"ts":")";
  AppendTime(line.time_us, out);
  out += R"(","level":")";
  out += NameOf(line.level);
  out += R"(","msg":)";
  AppendJsonString(line.message, out);
  for (const LogField& field : line.fields) {
    out.push_back(',');
    AppendJsonString(field.name, out);
    out.push_back(':');
    AppendValue(field, LogFormat::kJson, out);
  }
  out.push_back('}');
  return out;
}

std::string FormatTextMessage(std::string_view message, std::span<const LogField> fields) {
  std::string out(message);
  for (const LogField& field : fields) {
    out.push_back(' ');
    out += field.name;
    out.push_back('=');
    AppendValue(field, LogFormat::kText, out);
  }
  return out;
}

}  // namespace ashlar
