// Requests as JSON, for /v1/completions or /v1/chat/completions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace ashlar::load {

enum class Endpoint : std::uint8_t { kCompletions, kChat };

struct BodyOptions {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;
  double temperature = 0;
  bool ignores_eos = true;  // so that answers have the length asked for
  nlohmann::json extra =
      nlohmann::json::object();  // fields that are added, or take another's place
};

std::string_view PathOf(Endpoint endpoint);  // "/v1/..."

// A streamed request with usage. `texts`: what user and assistant said, in turn, the user first and
// last; for completions they are one text. Bytes that are not UTF-8 become U+FFFD.
std::string MakeBody(const BodyOptions& options, std::span<const std::string> texts,
                     std::uint64_t max_tokens);

}  // namespace ashlar::load
