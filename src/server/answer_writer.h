// The last stage of an answer: choices' text and logprobs go in, an HTTP answer comes out, either
// whole at the end or as a stream of events.
//
// One thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/choice_stream.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/response.h"

namespace ashlar::server {

struct AnswerOptions {
  AnswerIdentity identity;
  std::size_t prompts = 1;
  std::size_t n = 1;  // choices returned per prompt
  // Sequences per prompt; sequence p * best_of + i is the i-th of prompt p.
  std::size_t best_of = 1;
  bool with_logprobs = false;
  bool with_token_ids = false;
  bool include_usage = false;  // of a stream
};

struct SequenceEnd {
  std::string_view finish_reason;  // "stop" or "length"
  StopReason stop_reason;
  double mean_logprob = 0;  // per token
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The requests are accepted; pieces will follow.
  virtual void Begin() {}
  virtual void AddPiece(std::size_t sequence, TextPiece piece) = 0;
  virtual void FinishSequence(std::size_t sequence, SequenceEnd end) = 0;
  // All sequences are finished; the answer is complete.
  virtual void Complete(const UsageTotals& usage) = 0;
  // The answer cannot be completed; nothing follows. Before Begin, too.
  virtual void Fail(const ApiError& error) = 0;
  // After each round of events. False: the client has gone.
  virtual bool Flush() { return true; }
  // Why the answer must not grow further, if so.
  virtual std::optional<ApiError> Overflow() const { return std::nullopt; }
};

// Bounds of answers that are kept until they are whole. When one is sent, it is there up to three
// times for a moment.
struct AnswerLimits {
  std::size_t max_bytes = 64u << 20;         // of one; above, it ends with a 400
  std::size_t max_total_bytes = 256u << 20;  // of all; above, those that grow end with a 503
};

// What all such answers hold.
struct AnswerMemory {
  explicit AnswerMemory(const AnswerLimits& its_limits) : limits(its_limits) {}
  const AnswerLimits limits;
  std::atomic<std::size_t> bytes{0};
};

// `tokenizer` must outlive the writer.
std::unique_ptr<AnswerWriter> MakeWholeAnswer(const text::Tokenizer& tokenizer,
                                              AnswerOptions options, Reply reply,
                                              std::shared_ptr<AnswerMemory> memory);
// Precondition: best_of == n.
std::unique_ptr<AnswerWriter> MakeStreamedAnswer(const text::Tokenizer& tokenizer,
                                                 AnswerOptions options, Reply reply);

}  // namespace ashlar::server
