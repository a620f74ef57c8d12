#include "load/answer_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace ashlar::load {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxErrorBodyBytes = 4096;
// Of an answer beside its tokens: roles, usage, progress.
constexpr std::uint64_t kMoreEvents = 1000;

// The member of an object; null where there is none, or no object.
const Json& Member(const Json& json, const char* name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::optional<std::uint64_t> CountOf(const Json& json, const char* name) {
  const Json& value = Member(json, name);
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

std::string_view TextOf(const Json& json, const char* name) {
  const Json& value = Member(json, name);
  return value.is_string() ? std::string_view(value.get_ref<const std::string&>())
                           : std::string_view();
}

// The message of {"error": {"message": ...}}, {"error": "..."} or {"message": ...}; nothing where
// it is no error.
std::optional<std::string> ErrorOf(const Json& json) {
  const Json& error = Member(json, "error");
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object()) {
    const std::string_view message = TextOf(error, "message");
    return message.empty() ? error.dump(-1, ' ', false, Json::error_handler_t::replace)
                           : std::string(message);
  }
  if (Member(json, "message").is_string() && Member(json, "choices").is_null()) {
    return std::string(TextOf(json, "message"));
  }
  return std::nullopt;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kMaxMessageBytes));
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (text.size() > kMaxMessageBytes) printable += "...";
  return printable;
}

AnswerMeter::AnswerMeter(std::uint64_t max_tokens, PieceSink& sink)
    : max_events_(std::min(max_tokens, std::numeric_limits<std::uint64_t>::max() / 8) * 4 +
                  kMoreEvents),
      sink_(sink) {}

std::optional<Failure> AnswerMeter::OnBody(std::string_view bytes, std::int64_t now_ns) {
  if (status_ != 200) {
    const std::size_t room = kMaxErrorBodyBytes - error_body_.size();
    error_body_ += bytes.substr(0, room);
    return std::nullopt;
  }
  if (events_ == 0 && error_body_.size() < kMaxMessageBytes) {
    error_body_ += bytes.substr(0, kMaxMessageBytes - error_body_.size());
  }
  const bool is_fine = parser_.Feed(bytes);
  if (auto failure = ReadEvents(now_ns)) return failure;
  if (is_fine) return std::nullopt;
  return Failure{"too long", fmt::format("an event has more than {} bytes", kMaxEventBytes)};
}

std::optional<Failure> AnswerMeter::OnEnd(std::int64_t now_ns) {
  if (status_ != 200) return HttpFailure();
  parser_.End();
  if (auto failure = ReadEvents(now_ns)) return failure;
  if (is_finished_) return std::nullopt;
  if (events_ == 0) {
    return Failure{"malformed",
                   Printable(fmt::format("no event in the answer: '{}'", error_body_))};
  }
  return Failure{"cut",
                 fmt::format("the stream ended after {} pieces without a finish reason", pieces_)};
}

std::optional<Failure> AnswerMeter::ReadEvents(std::int64_t now_ns) {
  while (const auto data = parser_.Next()) {
    if (++events_ > max_events_) {
      return Failure{"too long", fmt::format("more than {} events", max_events_)};
    }
    if (*data == "[DONE]") {
      is_finished_ = true;
    } else if (auto failure = ReadChunk(*data, now_ns)) {
      return failure;
    }
  }
  return std::nullopt;
}

std::optional<Failure> AnswerMeter::ReadChunk(const std::string& data, std::int64_t now_ns) {
  const Json chunk = Json::parse(data, nullptr, false);
  if (!chunk.is_object()) {
    return Failure{"malformed", Printable(fmt::format("an event is no JSON object: '{}'", data))};
  }
  if (const auto error = ErrorOf(chunk)) return Failure{"server", Printable(*error)};
  ReadUsage(chunk);
  bool has_text = false;
  if (const Json& choices = Member(chunk, "choices"); choices.is_array()) {
    for (const Json& choice : choices) has_text |= ReadChoice(choice);
  }
  if (text_.size() > kMaxTextBytes) {
    return Failure{"too long", fmt::format("more than {} bytes of text", kMaxTextBytes)};
  }
  if (!has_text) return std::nullopt;
  sink_.OnPiece(now_ns, first_ns_ ? std::optional(now_ns - last_ns_) : std::nullopt);
  if (!first_ns_) first_ns_ = now_ns;
  last_ns_ = now_ns;
  ++pieces_;
  return std::nullopt;
}

bool AnswerMeter::ReadChoice(const Json& choice) {
  is_finished_ |= Member(choice, "finish_reason").is_string();
  const Json& delta = Member(choice, "delta");
  const std::string_view text =
      delta.is_object() ? TextOf(delta, "content") : TextOf(choice, "text");
  text_ += text;
  // What models think before they answer: "reasoning_content" of llama.cpp and DeepSeek,
  // "reasoning" of vLLM.
  return !text.empty() || !TextOf(delta, "reasoning_content").empty() ||
         !TextOf(delta, "reasoning").empty();
}

void AnswerMeter::ReadUsage(const Json& chunk) {
  const Json& usage = Member(chunk, "usage");
  const auto prompt = CountOf(usage, "prompt_tokens");
  const auto completion = CountOf(usage, "completion_tokens");
  if (prompt && completion) {
    if (!usage_) usage_.emplace();
    usage_->prompt_tokens = *prompt;
    usage_->completion_tokens = *completion;
    const auto cached = CountOf(Member(usage, "prompt_tokens_details"), "cached_tokens");
    if (cached) usage_->cached_tokens = cached;
  }
  // llama.cpp's timings, where its usage says nothing of the cache.
  const auto cached = CountOf(Member(chunk, "timings"), "cache_n");
  if (cached && usage_ && !usage_->cached_tokens) usage_->cached_tokens = cached;
}

Failure AnswerMeter::HttpFailure() const {
  const Json body = Json::parse(error_body_, nullptr, false);
  const auto error = ErrorOf(body);
  return {fmt::format("http {}", status_), Printable(error ? *error : error_body_)};
}

}  // namespace ashlar::load
