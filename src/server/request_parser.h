// JSON bodies to typed requests. Every error is a 400 that names the field, its value and what
// would be right. Fields that would change the answer and that we do not do are errors; other
// unknown fields are ignored, as OpenAI clients send many.
#pragma once

#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/json.h"
#include "server/request.h"

namespace ashlar::server {

ApiResult<CompletionRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits);
ApiResult<ChatRequest> ParseChatRequest(const Json& body, const RequestLimits& limits);
ApiResult<TokenizeRequest> ParseTokenizeRequest(const Json& body, const RequestLimits& limits);
ApiResult<DetokenizeRequest> ParseDetokenizeRequest(const Json& body, const RequestLimits& limits);

// The parts, each in a file of its own.

// generation_fields.cc: what completions and chat share, but logprobs and max_tokens.
void ReadGenerationOptions(FieldReader& fields, const RequestLimits& limits,
                           GenerationOptions& out);
// Fails for fields that are set to something we do not do.
void RejectUnsupported(FieldReader& fields);

// chat_fields.cc: messages, tools, template settings.
void ReadChatPrompt(FieldReader& fields, const RequestLimits& limits, ChatPrompt& out);

}  // namespace ashlar::server
