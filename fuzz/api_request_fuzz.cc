// A JSON body, through the parser of every endpoint. What is refused must be refused with a 4xx in
// the error shape; what is accepted must be within the limits of its fields.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/json.h"
#include "server/request_parser.h"

namespace ashlar::server {
namespace {

const RequestLimits kLimits{.vocab_size = 1000, .max_sequences = 64, .max_messages = 64};

void CheckError(const ApiError& error) {
  ASHLAR_CHECK(error.status == 400 && !error.message.empty());
  ASHLAR_CHECK(ParseJson(ErrorBody(error)).ok());
}

void CheckOptions(const GenerationOptions& options) {
  ASHLAR_CHECK(options.n >= 1 && options.n <= kLimits.max_n && options.best_of >= options.n);
  ASHLAR_CHECK(options.top_logprobs.value_or(0) <= kLimits.max_top_logprobs);
  ASHLAR_CHECK(options.stop.size() <= kLimits.max_stop_strings);
  ASHLAR_CHECK(options.sampling.temperature >= 0 && options.sampling.temperature <= 100);
  ASHLAR_CHECK(options.sampling.top_p > 0 && options.sampling.top_p <= 1);
  for (const auto& [token, bias] : options.sampling.logit_bias) {
    ASHLAR_CHECK(token >= 0 && static_cast<std::size_t>(token) < kLimits.vocab_size);
    ASHLAR_CHECK(bias >= -100 && bias <= 100);
  }
}

void Exercise(std::string_view text) {
  const auto body = ParseJson(text);
  if (!body.ok()) {
    CheckError(body.error());
    return;
  }
  ASHLAR_CHECK(ParseJson(DumpJson(*body)).ok());
  if (const auto request = ParseCompletionRequest(*body, kLimits); request.ok()) {
    CheckOptions(request->options);
    ASHLAR_CHECK(request->prompts.size() * request->options.best_of <= kLimits.max_sequences);
  } else {
    CheckError(request.error());
  }
  if (const auto request = ParseChatRequest(*body, kLimits); request.ok()) {
    CheckOptions(request->options);
    for (const Json& message : request->chat.messages) {
      ASHLAR_CHECK(message["role"].is_string());
      ASHLAR_CHECK(message["content"].is_string() || message["content"].is_null());
    }
  } else {
    CheckError(request.error());
  }
  if (const auto request = ParseTokenizeRequest(*body, kLimits); !request.ok()) {
    CheckError(request.error());
  }
  if (const auto request = ParseDetokenizeRequest(*body, kLimits); !request.ok()) {
    CheckError(request.error());
  }
}

}  // namespace
}  // namespace ashlar::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ashlar::server::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
