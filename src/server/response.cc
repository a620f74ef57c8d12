#include "server/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace ashlar::server {
namespace {

// JSON has no -inf; the value is the one vLLM sends.
constexpr float kLowestLogprob = -9999.0F;

Json LogprobJson(float logprob) {
  // + 0 makes -0 a plain 0.
  return logprob >= kLowestLogprob ? Json(logprob + 0.0F) : Json(kLowestLogprob);
}

Json BytesJson(std::string_view bytes) {
  Json json = Json::array();
  for (const char byte : bytes) {
    json.push_back(static_cast<unsigned char>(byte));
  }
  return json;
}

std::string_view ObjectName(ApiKind kind, bool is_chunk) {
  if (kind == ApiKind::kCompletion) {
    return "text_completion";
  }
  return is_chunk ? "chat.completion.chunk" : "chat.completion";
}

Json IdentityJson(const AnswerIdentity& identity, bool is_chunk) {
  return Json{{"id", identity.id},
              {"object", ObjectName(identity.kind, is_chunk)},
              {"created", identity.created},
              {"model", identity.model},
              {"system_fingerprint", identity.system_fingerprint}};
}

// Strings from us are UTF-8: this cannot fail, and costs less than a document.
std::string JsonString(std::string_view text) { return DumpJson(Json(text)); }

void AppendElement(std::string_view element, std::string& elements) {
  elements += elements.empty() ? "" : ",";
  elements += element;
}

}  // namespace

Json UsageJson(const UsageTotals& usage) {
  Json json{{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.completion_tokens},
            {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
            {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  if (usage.dropped_tokens > 0) {
    json["context_dropped_tokens"] = usage.dropped_tokens;
  }
  return json;
}

TokenNaming NamingOf(ApiKind kind, bool with_token_ids) {
  if (with_token_ids) {
    return TokenNaming::kTokenId;
  }
  return kind == ApiKind::kChat ? TokenNaming::kText : TokenNaming::kBytes;
}

LogprobsText::LogprobsText(ApiKind kind, const text::Tokenizer& tokenizer, TokenNaming naming)
    : kind_(kind), tokenizer_(tokenizer), naming_(naming) {}

void LogprobsText::Append(const TokenEntry& entry) {
  if (kind_ == ApiKind::kChat) {
    AppendChat(entry);
  } else {
    AppendCompletion(entry);
  }
}

std::size_t LogprobsText::bytes() const {
  return std::accumulate(
      elements_.begin(), elements_.end(), std::size_t{0},
      [](std::size_t sum, const std::string& part) { return sum + part.size(); });
}

std::string LogprobsText::Take() {
  const std::array<std::string, 4> parts = std::exchange(elements_, {});
  if (kind_ == ApiKind::kChat) {
    return "{\"content\":[" + parts[0] + "]}";
  }
  return "{\"tokens\":[" + parts[0] + "],\"token_logprobs\":[" + parts[1] + "],\"top_logprobs\":[" +
         parts[2] + "],\"text_offset\":[" + parts[3] + "]}";
}

Json LogprobsText::ChatToken(TokenId token, float logprob) const {
  return Json{{"token", NameOfToken(tokenizer_, token, naming_)},
              {"logprob", LogprobJson(logprob)},
              {"bytes", BytesJson(tokenizer_.TokenBytes(token, true))}};
}

void LogprobsText::AppendChat(const TokenEntry& entry) {
  Json json = ChatToken(entry.logprobs.token, entry.logprobs.logprob);
  Json top = Json::array();
  for (const auto& [token, logprob] : entry.logprobs.top) {
    top.push_back(ChatToken(token, logprob));
  }
  json["top_logprobs"] = std::move(top);
  AppendElement(DumpJson(json), elements_[0]);
}

void LogprobsText::AppendCompletion(const TokenEntry& entry) {
  const std::string name = NameOfToken(tokenizer_, entry.logprobs.token, naming_);
  Json top;
  if (entry.has_logprob) {
    // The token itself is always there, likely or not. Two tokens of one name: the likelier stays.
    top = Json::object();
    for (const auto& [token, logprob] : entry.logprobs.top) {
      top.emplace(NameOfToken(tokenizer_, token, naming_), LogprobJson(logprob));
    }
    top.emplace(name, LogprobJson(entry.logprobs.logprob));
  }
  AppendElement(JsonString(name), elements_[0]);
  AppendElement(DumpJson(entry.has_logprob ? LogprobJson(entry.logprobs.logprob) : Json()),
                elements_[1]);
  AppendElement(DumpJson(top), elements_[2]);
  AppendElement(std::to_string(entry.text_offset), elements_[3]);
}

void AppendEscaped(std::string_view text, std::string& out) {
  const std::string quoted = JsonString(text);
  out.append(quoted, 1, quoted.size() - 2);
}

Json StopReasonJson(const StopReason& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) {
    return *text;
  }
  if (const auto* token = std::get_if<TokenId>(&reason)) {
    return *token;
  }
  return nullptr;
}

void AppendChoice(ApiKind kind, const ChoiceFields& fields, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},", fields.index);
  out +=
      kind == ApiKind::kChat ? "\"message\":{\"role\":\"assistant\",\"content\":\"" : "\"text\":\"";
  out += fields.escaped_text;
  out += kind == ApiKind::kChat ? "\",\"refusal\":null}" : "\"";
  out += ",\"logprobs\":";
  out += fields.logprobs.empty() ? "null" : fields.logprobs;
  fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\",\"stop_reason\":{}}}",
                 fields.finish_reason, DumpJson(StopReasonJson(fields.stop_reason)));
}

std::string AnswerHead(const AnswerIdentity& identity) {
  std::string head = DumpJson(IdentityJson(identity, false));
  head.pop_back();  // the closing brace
  return head + ",\"choices\":[";
}

std::string AnswerTail(const UsageTotals& usage) {
  return "],\"usage\":" + DumpJson(UsageJson(usage)) + "}";
}

ChunkWriter::ChunkWriter(const AnswerIdentity& identity, bool with_usage)
    : kind_(identity.kind), tail_(with_usage ? "],\"usage\":null}\n\n" : "]}\n\n") {
  std::string common = DumpJson(IdentityJson(identity, true));
  common.pop_back();  // the closing brace
  head_ = "data: " + common + ",\"choices\":[";
}

void ChunkWriter::AppendChoice(std::string_view choice, std::string& out) const {
  out += head_;
  out += choice;
  out += tail_;
}

void ChunkWriter::AppendRole(std::size_t index, std::string& out) const {
  AppendChoice(fmt::format("{{\"index\":{},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},"
                           "\"logprobs\":null,\"finish_reason\":null}}",
                           index),
               out);
}

void ChunkWriter::AppendText(std::size_t index, std::string_view text, std::string_view logprobs,
                             std::string& out) const {
  const std::string content = JsonString(text);
  const std::string body = kind_ == ApiKind::kChat
                               ? fmt::format("\"delta\":{{\"content\":{}}}", content)
                               : fmt::format("\"text\":{}", content);
  AppendChoice(fmt::format("{{\"index\":{},{},\"logprobs\":{},\"finish_reason\":null}}", index,
                           body, logprobs.empty() ? "null" : logprobs),
               out);
}

void ChunkWriter::AppendFinish(std::size_t index, std::string_view finish_reason,
                               const StopReason& stop_reason, std::string& out) const {
  const std::string_view body = kind_ == ApiKind::kChat ? "\"delta\":{}" : "\"text\":\"\"";
  AppendChoice(fmt::format("{{\"index\":{},{},\"logprobs\":null,\"finish_reason\":\"{}\","
                           "\"stop_reason\":{}}}",
                           index, body, finish_reason, DumpJson(StopReasonJson(stop_reason))),
               out);
}

void ChunkWriter::AppendUsage(const UsageTotals& usage, std::string& out) const {
  out += head_;
  fmt::format_to(std::back_inserter(out), "],\"usage\":{}}}\n\n", DumpJson(UsageJson(usage)));
}

void ChunkWriter::AppendError(std::string_view error_body, std::string& out) {
  fmt::format_to(std::back_inserter(out), "data: {}\n\n", error_body);
}

void ChunkWriter::AppendDone(std::string& out) { out += "data: [DONE]\n\n"; }

}  // namespace ashlar::server
