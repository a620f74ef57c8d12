#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <string>

namespace ashlar {

Status InitLog(std::string_view level) {
  const spdlog::level::level_enum parsed = [&] {
    if (level == "debug") return spdlog::level::debug;
    if (level == "info") return spdlog::level::info;
    if (level == "warning") return spdlog::level::warn;
    if (level == "error") return spdlog::level::err;
    return spdlog::level::off;
  }();
  if (parsed == spdlog::level::off) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "unknown log level '{}'; use debug, info, warning or error", level);
  }
  auto logger = std::make_shared<spdlog::logger>(
      "ashlar", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(parsed);
  logger->set_pattern("%^%L%$ %H:%M:%S.%e %v");
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace ashlar
