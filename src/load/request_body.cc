#include "load/request_body.h"

#include <utility>

namespace ashlar::load {

using Json = nlohmann::json;

std::string_view PathOf(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
}

std::string MakeBody(const BodyOptions& options, std::span<const std::string> texts,
                     std::uint64_t max_tokens) {
  Json body = {{"model", options.model},
               {"max_tokens", max_tokens},
               {"temperature", options.temperature},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (options.ignores_eos) body["ignore_eos"] = true;
  if (options.endpoint == Endpoint::kChat) {
    Json messages = Json::array();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
    }
    body["messages"] = std::move(messages);
  } else {
    std::string prompt;
    for (const std::string& text : texts) prompt += text;
    body["prompt"] = std::move(prompt);
  }
  body.update(options.extra);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ashlar::load
