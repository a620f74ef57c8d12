// The JSON of answers, in OpenAI's shapes, as text. Pure functions of what has been generated; no
// threads, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/service.h"
#include "server/choice_stream.h"
#include "server/json.h"
#include "server/token_text.h"
#include "text/tokenizer.h"

namespace ashlar::server {

enum class ApiKind { kCompletion, kChat };

// What every object of one answer begins with.
struct AnswerIdentity {
  ApiKind kind = ApiKind::kCompletion;
  std::string id;            // "cmpl-..." or "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string system_fingerprint;
};

struct UsageTotals {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t dropped_tokens = 0;  // left behind where the text outgrew the context
};

Json UsageJson(const UsageTotals& usage);

// The logprobs of a choice as JSON text, grown token by token: as a document they would take
// twenty times the memory.
//
//   chat         {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}
//   completion   parallel arrays "tokens", "token_logprobs", "top_logprobs", "text_offset"
class LogprobsText {
 public:
  // `tokenizer` must outlive it.
  LogprobsText(ApiKind kind, const text::Tokenizer& tokenizer, TokenNaming naming);

  void Append(const TokenEntry& entry);
  std::size_t bytes() const;
  // The whole of it, which leaves nothing behind.
  std::string Take();

 private:
  Json ChatToken(TokenId token, float logprob) const;
  void AppendChat(const TokenEntry& entry);
  void AppendCompletion(const TokenEntry& entry);

  const ApiKind kind_;
  const text::Tokenizer& tokenizer_;
  const TokenNaming naming_;
  // The elements of "content", or of the four arrays, in order.
  std::array<std::string, 4> elements_;
};

// How tokens are named in answers of this kind.
TokenNaming NamingOf(ApiKind kind, bool with_token_ids);

// null, "the stop string", or a token id: as vLLM reports beside finish_reason.
Json StopReasonJson(const StopReason& reason);

// Appends text as it stands between the quotes of a JSON string.
void AppendEscaped(std::string_view text, std::string& out);

// One whole choice: {"index", "text" or "message", "logprobs", "finish_reason", "stop_reason"}.
struct ChoiceFields {
  std::size_t index = 0;
  std::string_view escaped_text;  // see AppendEscaped
  std::string_view logprobs;      // JSON; empty: null
  std::string_view finish_reason;
  StopReason stop_reason;
};
void AppendChoice(ApiKind kind, const ChoiceFields& fields, std::string& out);

// A whole answer but its choices, which are written between the two, separated by commas.
std::string AnswerHead(const AnswerIdentity& identity);
std::string AnswerTail(const UsageTotals& usage);

// Writes the chunks of a streamed answer as server-sent events. What all chunks share is printed
// once.
class ChunkWriter {
 public:
  // `with_usage`: every chunk but the last has "usage": null, as OpenAI does when usage was asked
  // for.
  ChunkWriter(const AnswerIdentity& identity, bool with_usage);

  void AppendRole(std::size_t index, std::string& out) const;  // chat only: the first of a choice
  // `logprobs`: JSON; empty: null.
  void AppendText(std::size_t index, std::string_view text, std::string_view logprobs,
                  std::string& out) const;
  void AppendFinish(std::size_t index, std::string_view finish_reason,
                    const StopReason& stop_reason, std::string& out) const;
  void AppendUsage(const UsageTotals& usage, std::string& out) const;
  static void AppendError(std::string_view error_body, std::string& out);
  static void AppendDone(std::string& out);

 private:
  void AppendChoice(std::string_view choice, std::string& out) const;

  ApiKind kind_;
  std::string head_;  // "data: {...,"choices":["
  std::string tail_;  // "]...}\n\n"
};

}  // namespace ashlar::server
