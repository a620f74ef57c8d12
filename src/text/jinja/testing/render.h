// One call from a template to its text, for tests and the fuzzer.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/jinja/evaluator.h"
#include "text/jinja/limits.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace ashlar::text::jinja::testing {

// 2024-07-26 09:05:03, a Friday.
inline constexpr std::chrono::local_seconds kNow =
    std::chrono::local_days(std::chrono::year(2024) / std::chrono::July / 26) +
    std::chrono::hours(9) + std::chrono::minutes(5) + std::chrono::seconds(3);

inline Result<std::string> Render(
    std::string_view source,
    const nlohmann::ordered_json& context = nlohmann::ordered_json::object(),
    const Limits& limits = {}) {
  ASHLAR_ASSIGN(const Program program, Parse(source, limits));
  Runtime runtime(limits, kNow);
  return Evaluator(program, context, runtime).Run();
}

inline Result<std::string> Render(std::string_view source, const Limits& limits) {
  return Render(source, nlohmann::ordered_json::object(), limits);
}

}  // namespace ashlar::text::jinja::testing
