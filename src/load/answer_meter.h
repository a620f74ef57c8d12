// One answer as its bytes arrive: what it says, when each piece came, what it counted, and what was
// wrong with it. Knows the dialects of servers; trusts none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "load/sse_parser.h"

namespace ashlar::load {

// Why a request failed. `kind` is one of a few words, or "http 429".
struct Failure {
  std::string kind;
  std::string message;  // printable, of at most kMaxMessageBytes
};
inline constexpr std::size_t kMaxMessageBytes = 300;

// What strangers said, as it may be shown: cut, and without control characters.
std::string Printable(std::string_view text);

inline constexpr std::size_t kMaxEventBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;  // of one answer

struct AnswerUsage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;
};

// Hears of every piece of text of every answer.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // `gap_ns`: since the piece before; nothing for the first of an answer.
  virtual void OnPiece(std::int64_t now_ns, std::optional<std::int64_t> gap_ns) = 0;
};

class AnswerMeter {
 public:
  // More events than an answer of `max_tokens` can have are a failure. The sink must outlive it.
  AnswerMeter(std::uint64_t max_tokens, PieceSink& sink);

  void OnHead(int status) { status_ = status; }
  // A failure ends the answer: nothing may follow it.
  std::optional<Failure> OnBody(std::string_view bytes, std::int64_t now_ns);
  // The body was whole.
  std::optional<Failure> OnEnd(std::int64_t now_ns);

  const std::string& text() const { return text_; }  // without reasoning
  std::uint64_t pieces() const { return pieces_; }
  // When the first and the last piece of text came.
  std::optional<std::int64_t> first_ns() const { return first_ns_; }
  std::int64_t last_ns() const { return last_ns_; }
  const std::optional<AnswerUsage>& usage() const { return usage_; }
  // Of the usage, else the pieces.
  std::uint64_t completion_tokens() const { return usage_ ? usage_->completion_tokens : pieces_; }

 private:
  std::optional<Failure> ReadEvents(std::int64_t now_ns);
  std::optional<Failure> ReadChunk(const std::string& data, std::int64_t now_ns);
  void ReadUsage(const nlohmann::json& chunk);
  // Whether it has any text.
  bool ReadChoice(const nlohmann::json& choice);
  Failure HttpFailure() const;

  const std::uint64_t max_events_;
  PieceSink& sink_;
  int status_ = 0;
  SseParser parser_{kMaxEventBytes};
  std::string error_body_;  // the beginning of an answer that is none
  std::string text_;
  std::optional<AnswerUsage> usage_;
  std::uint64_t events_ = 0;
  std::uint64_t pieces_ = 0;
  std::optional<std::int64_t> first_ns_;
  std::int64_t last_ns_ = 0;
  bool is_finished_ = false;  // [DONE] or a finish reason
};

}  // namespace ashlar::load
