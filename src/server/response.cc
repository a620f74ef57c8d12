#include "server/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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

}  // namespace

Json UsageJson(const UsageTotals& usage) {
  return Json{{"prompt_tokens", usage.prompt_tokens},
              {"completion_tokens", usage.completion_tokens},
              {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
              {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json ChatLogprobsJson(const text::Tokenizer& tokenizer, const std::vector<TokenEntry>& tokens,
                      bool with_token_ids) {
  const TokenNaming naming = with_token_ids ? TokenNaming::kTokenId : TokenNaming::kText;
  const auto one = [&](TokenId token, float logprob) {
    return Json{{"token", NameOfToken(tokenizer, token, naming)},
                {"logprob", LogprobJson(logprob)},
                {"bytes", BytesJson(tokenizer.TokenBytes(token, true))}};
  };
  Json content = Json::array();
  for (const TokenEntry& entry : tokens) {
    Json json = one(entry.logprobs.token, entry.logprobs.logprob);
    Json top = Json::array();
    for (const auto& [token, logprob] : entry.logprobs.top) {
      top.push_back(one(token, logprob));
    }
    json["top_logprobs"] = std::move(top);
    content.push_back(std::move(json));
  }
  return Json{{"content", std::move(content)}};
}

Json CompletionLogprobsJson(const text::Tokenizer& tokenizer, const std::vector<TokenEntry>& tokens,
                            bool with_token_ids) {
  const TokenNaming naming = with_token_ids ? TokenNaming::kTokenId : TokenNaming::kBytes;
  Json names = Json::array();
  Json logprobs = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  for (const TokenEntry& entry : tokens) {
    std::string name = NameOfToken(tokenizer, entry.logprobs.token, naming);
    Json top;
    if (entry.has_logprob) {
      // The token itself is always there, likely or not. Two tokens of one name: the likelier
      // stays.
      top = Json::object();
      for (const auto& [token, logprob] : entry.logprobs.top) {
        top.emplace(NameOfToken(tokenizer, token, naming), LogprobJson(logprob));
      }
      top.emplace(name, LogprobJson(entry.logprobs.logprob));
    }
    logprobs.push_back(entry.has_logprob ? LogprobJson(entry.logprobs.logprob) : Json());
    names.push_back(std::move(name));
    tops.push_back(std::move(top));
    offsets.push_back(entry.text_offset);
  }
  return Json{{"tokens", std::move(names)},
              {"token_logprobs", std::move(logprobs)},
              {"top_logprobs", std::move(tops)},
              {"text_offset", std::move(offsets)}};
}

Json LogprobsJson(ApiKind kind, const text::Tokenizer& tokenizer,
                  const std::vector<TokenEntry>& tokens, bool with_token_ids) {
  return kind == ApiKind::kChat ? ChatLogprobsJson(tokenizer, tokens, with_token_ids)
                                : CompletionLogprobsJson(tokenizer, tokens, with_token_ids);
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

Json ChoiceJson(ApiKind kind, ChoiceFields fields) {
  Json json{{"index", fields.index}};
  if (kind == ApiKind::kChat) {
    json["message"] =
        Json{{"role", "assistant"}, {"content", std::move(fields.text)}, {"refusal", nullptr}};
  } else {
    json["text"] = std::move(fields.text);
  }
  json["logprobs"] = std::move(fields.logprobs);
  json["finish_reason"] = fields.finish_reason;
  json["stop_reason"] = StopReasonJson(fields.stop_reason);
  return json;
}

Json AnswerJson(const AnswerIdentity& identity, Json choices, const UsageTotals& usage) {
  Json json = IdentityJson(identity, false);
  json["choices"] = std::move(choices);
  json["usage"] = UsageJson(usage);
  return json;
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

void ChunkWriter::AppendText(std::size_t index, std::string_view text, const Json& logprobs,
                             std::string& out) const {
  const std::string content = JsonString(text);
  const std::string logprobs_text = logprobs.is_null() ? "null" : DumpJson(logprobs);
  const std::string body = kind_ == ApiKind::kChat
                               ? fmt::format("\"delta\":{{\"content\":{}}}", content)
                               : fmt::format("\"text\":{}", content);
  AppendChoice(fmt::format("{{\"index\":{},{},\"logprobs\":{},\"finish_reason\":null}}", index,
                           body, logprobs_text),
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
