// Diagnostics go to stderr; stdout belongs to results. Levels: debug, info, warning, error.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/result.h"

namespace ashlar {

// Sends spdlog's default logger to stderr at `level`. Errors: kInvalidArgument for an unknown
// level.
Status InitLog(std::string_view level);

}  // namespace ashlar

#define ASHLAR_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define ASHLAR_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define ASHLAR_LOG_WARNING(...) ::spdlog::warn(__VA_ARGS__)
#define ASHLAR_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
