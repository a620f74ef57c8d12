// The template engine on any bytes: a template, and behind a zero byte the JSON of its context (a
// small conversation when there is none).
//
// Whatever comes: no crash, no hang, no more memory than the limits say; text and messages are
// UTF-8; and rendering the same again gives the same.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/jinja/testing/render.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

using nlohmann::ordered_json;

// Small enough that an input at its limits takes a fraction of a second under the sanitizers.
constexpr Limits kLimits = {.steps = 100'000, .string_bytes = 1 << 20, .live_bytes = 16 << 20};

const ordered_json& Conversation() {
  static const auto* const kConversation = new ordered_json(ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief. é 你好"},
      {"role": "user", "content": [{"type": "text", "text": " a <b> "}, {"type": "image"}]},
      {"role": "assistant", "content": null,
       "tool_calls": [{"id": "call00001", "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]},
      {"role": "tool", "content": "42", "tool_call_id": "call00001"},
      {"role": "user", "content": "And?\n"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
               "parameters": {"type": "object", "properties": {"x": {"type": "array"}}, "required": ["x"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "s": "text, more text"})"));
  return *kConversation;
}

void Check(std::string_view input) {
  const std::size_t zero = input.find('\0');
  const std::string_view source = input.substr(0, zero);
  ordered_json context = Conversation();
  if (zero != std::string_view::npos) {
    const std::string_view text = input.substr(zero + 1);
    context = ordered_json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  }
  const Result<std::string> first = testing::Render(source, context, kLimits);
  const Result<std::string> second = testing::Render(source, context, kLimits);
  ASHLAR_CHECK(first.ok() == second.ok());
  if (first.ok()) {
    ASHLAR_CHECK(*first == *second);
    ASHLAR_CHECK(first->size() <= kLimits.string_bytes);
    ASHLAR_CHECK(IsValidUtf8(*first));
  } else {
    ASHLAR_CHECK(first.error().message == second.error().message);
    ASHLAR_CHECK(!first.error().message.empty() && IsValidUtf8(first.error().message), "{}",
                 first.error().message);
  }
}

}  // namespace
}  // namespace ashlar::text::jinja

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ashlar::text::jinja::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
