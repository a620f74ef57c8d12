// Renders chat templates, for tests and for people who write them.
//
// usage: render_template [REQUESTS]
// Reads one JSON object per line ("-" or nothing: standard input), {"template": text, "context":
// object, "now": "2024-07-26T09:05:03"}, and prints one per line: {"text": ...} or {"error": ...,
// "code": ...}.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_template.h"

namespace ashlar::text {
namespace {

using nlohmann::ordered_json;

nlohmann::json ToJson(const Error& error) {
  return {{"error", error.message}, {"code", std::string(ErrorCodeName(error.code))}};
}

Result<RenderOptions> ReadOptions(const ordered_json& request) {
  RenderOptions options;
  if (!request.contains("now")) {
    return options;
  }
  const std::string now = request["now"].is_string() ? request["now"].get<std::string>() : "";
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (std::sscanf(now.c_str(), "%d-%u-%uT%d:%d:%d", &year, &month, &day, &hour, &minute, &second) !=
      6) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "\"now\" is '{}'; write it as 2024-07-26T09:05:03", now);
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  options.now = std::chrono::local_days(date) + std::chrono::hours(hour) +
                std::chrono::minutes(minute) + std::chrono::seconds(second);
  return options;
}

Result<std::string> Render(const std::string& line) {
  const ordered_json request = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object() || !request.contains("template") || !request["template"].is_string()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a line must be an object with a string \"template\"");
  }
  ASHLAR_ASSIGN(const RenderOptions options, ReadOptions(request));
  ASHLAR_ASSIGN(const ChatTemplate chat_template,
                ChatTemplate::Parse(request["template"].get_ref<const std::string&>()));
  return chat_template.Render(request.value("context", ordered_json::object()), options);
}

int Run(std::istream& requests) {
  std::string line;
  while (std::getline(requests, line)) {
    const Result<std::string> text = Render(line);
    const nlohmann::json answer =
        text.ok() ? nlohmann::json{{"text", *text}} : ToJson(text.error());
    fmt::print("{}\n", answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ashlar::text

int main(int argc, char** argv) {
  if (argc > 2) {
    fmt::print(stderr, "usage: render_template [REQUESTS]\n");
    return 2;
  }
  if (argc == 1 || std::string(argv[1]) == "-") {
    return ashlar::text::Run(std::cin);
  }
  std::ifstream file(argv[1]);
  if (!file) {
    fmt::print(stderr, "render_template: cannot read '{}'\n", argv[1]);
    return 1;
  }
  return ashlar::text::Run(file);
}
