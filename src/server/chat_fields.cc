#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/request_parser.h"

namespace ashlar::server {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

// Ours to give to a template.
constexpr std::array<std::string_view, 6> kTemplateVariables = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

// A list of parts becomes one string, a line each, as most templates expect.
ApiResult<Json> JoinParts(const Json& parts, const std::string& where) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string place = fmt::format("{}[{}]", where, i);
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string()) {
      return ApiError{
          .message = fmt::format(
              "'{}' must be an object like {{\"type\": \"text\", \"text\": ...}}", place),
          .param = place};
    }
    const std::string& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "refusal") {
      return ApiError{.message = fmt::format("'{}.type' is {}; this server takes \"text\" only",
                                             place, Quote(*type)),
                      .param = place + ".type"};
    }
    const auto text = part.find(name);
    if (text == part.end() || !text->is_string()) {
      return ApiError{.message = fmt::format("'{}.{}' must be a string", place, name),
                      .param = fmt::format("{}.{}", place, name)};
    }
    joined += (i == 0 ? "" : "\n") + text->get_ref<const std::string&>();
  }
  return Json(std::move(joined));
}

// Clients send the arguments of a tool call as JSON text; templates expect the object.
void ParseToolCallArguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) {
    return;
  }
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      continue;
    }
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments != function.end() && arguments->is_string()) {
      auto parsed = ParseJson(arguments->get_ref<const std::string&>());
      if (parsed.ok() && parsed->is_object()) {
        *arguments = *std::move(parsed);
      }
    }
  }
}

// One message as templates know it.
ApiResult<Json> NormalMessage(const Json& message, const std::string& where) {
  if (!message.is_object()) {
    return ApiError{.message = fmt::format("'{}' must be an object, not {}", where, Quote(message)),
                    .param = where};
  }
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string() ||
      std::find(kRoles.begin(), kRoles.end(), role->get_ref<const std::string&>()) ==
          kRoles.end()) {
    return ApiError{.message = fmt::format("'{}.role' is {}; it must be one of {}", where,
                                           role == message.end() ? "missing" : Quote(*role),
                                           fmt::join(kRoles, ", ")),
                    .param = where + ".role"};
  }
  Json normal = message;
  if (*role == "developer") {  // OpenAI's newer name
    normal["role"] = "system";
  }
  const auto content = message.find("content");
  const bool has_content = content != message.end() && !content->is_null();
  if (!has_content) {
    if (*role != "assistant") {
      return ApiError{
          .message = fmt::format("'{}.content' is missing; it must be a string or an array "
                                 "of text parts",
                                 where),
          .param = where + ".content"};
    }
    // Templates concatenate it without asking, unless there are tool calls.
    normal["content"] = message.contains("tool_calls") ? Json() : Json("");
  } else if (content->is_array()) {
    auto joined = JoinParts(*content, where + ".content");
    if (!joined.ok()) {
      return std::move(joined).error();
    }
    normal["content"] = *std::move(joined);
  } else if (!content->is_string()) {
    return ApiError{
        .message = fmt::format("'{}.content' must be a string or an array of text parts, "
                               "not {}",
                               where, Quote(*content)),
        .param = where + ".content"};
  }
  ParseToolCallArguments(normal);
  return normal;
}

void ReadMessages(FieldReader& fields, const RequestLimits& limits, Json& out) {
  Json messages;
  fields.Array("messages", messages);
  if (messages.is_null()) {
    return fields.Fail("messages", "is missing; give an array of {\"role\", \"content\"} objects");
  }
  if (messages.empty() || messages.size() > limits.max_messages) {
    return fields.Fail("messages", fmt::format("has {} messages; 1 to {} are allowed",
                                               messages.size(), limits.max_messages));
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto message = NormalMessage(messages[i], fmt::format("messages[{}]", i));
    if (!message.ok()) {
      return fields.Fail(std::move(message).error());
    }
    out.push_back(*std::move(message));
  }
}

// Tools reach the template, which tells the model of them; forcing their use needs constrained
// output.
void ReadTools(FieldReader& fields, Json& out) {
  fields.Array("tools", out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Json& tool = out[i];
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) {
      return fields.Fail(fmt::format("tools[{}]", i),
                         "must be an object like {\"type\": \"function\", \"function\": {...}}");
    }
  }
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr) {
    return;
  }
  if (*choice == "none") {
    out = Json();
  } else if (*choice != "auto") {
    fields.Fail("tool_choice",
                fmt::format("{} is not supported; use \"auto\" or \"none\"",
                            choice->is_object() ? "naming a function" : Quote(*choice)));
  }
}

}  // namespace

void ReadChatPrompt(FieldReader& fields, const RequestLimits& limits, ChatPrompt& out) {
  ReadMessages(fields, limits, out.messages);
  ReadTools(fields, out.tools);
  fields.Array("documents", out.documents);
  fields.Object("chat_template_kwargs", out.template_kwargs);
  if (out.template_kwargs.size() > limits.max_template_kwargs) {
    return fields.Fail("chat_template_kwargs",
                       fmt::format("has {} entries; at most {} are allowed",
                                   out.template_kwargs.size(), limits.max_template_kwargs));
  }
  for (const std::string_view name : kTemplateVariables) {
    if (out.template_kwargs.contains(name)) {
      fields.Fail("chat_template_kwargs", fmt::format("cannot set '{}'", name));
    }
  }
  fields.Boolean("add_generation_prompt", out.add_generation_prompt);
  fields.Boolean("add_special_tokens", out.add_special_tokens);
  bool continues = false;
  fields.Boolean("continue_final_message", continues);
  if (continues) {
    fields.Fail("continue_final_message", "is not supported; use /v1/completions");
  }
}

}  // namespace ashlar::server
