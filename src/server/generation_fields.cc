#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "server/request_parser.h"

namespace ashlar::server {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMinInt = std::numeric_limits<std::int64_t>::min();

void ReadSampling(FieldReader& fields, model::SamplingParams& out) {
  fields.Number("temperature", {.lowest = 0, .highest = 100}, out.temperature);
  fields.Number("top_p", {.lowest = 0, .highest = 1, .excludes_lowest = true}, out.top_p);
  fields.Number("min_p", {.lowest = 0, .highest = 1}, out.min_p);
  fields.Number("repetition_penalty", {.lowest = 0.01, .highest = 100}, out.repetition_penalty);
  fields.Number("presence_penalty", {.lowest = -2, .highest = 2}, out.presence_penalty);
  fields.Number("frequency_penalty", {.lowest = -2, .highest = 2}, out.frequency_penalty);
  // vLLM's way of saying "all" is -1.
  std::int64_t top_k = 0;
  fields.Integer("top_k", -1, std::numeric_limits<std::uint32_t>::max(), top_k);
  out.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));
}

void ReadLogitBias(FieldReader& fields, const RequestLimits& limits, model::SamplingParams& out) {
  Json bias;
  fields.Object("logit_bias", bias);
  if (bias.size() > limits.max_logit_bias) {
    return fields.Fail("logit_bias", fmt::format("has {} entries; at most {} are allowed",
                                                 bias.size(), limits.max_logit_bias));
  }
  for (const auto& [key, value] : bias.items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 ||
        static_cast<std::size_t>(token) >= limits.vocab_size) {
      return fields.Fail("logit_bias",
                         fmt::format("has the key {}; keys are token ids from 0 to {}",
                                     Quote(Json(key)), limits.vocab_size - 1));
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      return fields.Fail("logit_bias",
                         fmt::format("of token {} is {}; it must be a number from -100 "
                                     "to 100",
                                     token, Quote(value)));
    }
    out.logit_bias.emplace_back(token, value.get<float>());
  }
  std::sort(out.logit_bias.begin(), out.logit_bias.end());
  const auto twice =
      std::adjacent_find(out.logit_bias.begin(), out.logit_bias.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != out.logit_bias.end()) {
    fields.Fail("logit_bias", fmt::format("names token {} twice", twice->first));
  }
}

void ReadStops(FieldReader& fields, const RequestLimits& limits, GenerationOptions& out) {
  if (const Json* stop = fields.Find("stop")) {
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    if (list.size() > limits.max_stop_strings) {
      return fields.Fail("stop", fmt::format("has {} strings; at most {} are allowed", list.size(),
                                             limits.max_stop_strings));
    }
    for (const Json& entry : list) {
      if (!entry.is_string()) {
        return fields.Fail("stop",
                           fmt::format("must be a string or an array of strings, not {}{}",
                                       stop->is_array() ? "an array with " : "", Quote(entry)));
      }
      const auto& text = entry.get_ref<const std::string&>();
      if (text.empty() || text.size() > limits.max_stop_bytes) {
        return fields.Fail("stop", fmt::format("has a string of {} bytes; each must have 1 to {}",
                                               text.size(), limits.max_stop_bytes));
      }
      out.stop.push_back(text);
    }
  }
  fields.TokenIds("stop_token_ids", limits.vocab_size, out.stop_token_ids);
  if (out.stop_token_ids.size() > limits.max_stop_token_ids) {
    fields.Fail("stop_token_ids",
                fmt::format("has {} ids; at most {} are allowed", out.stop_token_ids.size(),
                            limits.max_stop_token_ids));
  }
}

void ReadStreaming(FieldReader& fields, GenerationOptions& out) {
  fields.Boolean("stream", out.stream);
  Json stream_options;
  fields.Object("stream_options", stream_options);
  if (stream_options.is_null()) {
    return;
  }
  if (!out.stream) {
    return fields.Fail("stream_options", "is only allowed when 'stream' is true");
  }
  const Json* include_usage =
      stream_options.contains("include_usage") ? &stream_options["include_usage"] : nullptr;
  if (include_usage != nullptr && !include_usage->is_null()) {
    if (!include_usage->is_boolean()) {
      return fields.Fail("stream_options.include_usage",
                         fmt::format("must be true or false, not {}", Quote(*include_usage)));
    }
    out.include_usage = include_usage->get<bool>();
  }
}

// The message must not repeat the salt: it is a secret.
void ReadCacheSalt(FieldReader& fields, const RequestLimits& limits, GenerationOptions& out) {
  const Json* const salt = fields.Find("cache_salt");
  if (salt != nullptr && !salt->is_string()) {
    fields.Fail("cache_salt", fmt::format("must be a string, not of type {}", salt->type_name()));
    return;
  }
  fields.String("cache_salt", out.cache_salt);
  if (out.cache_salt.size() > limits.max_cache_salt_bytes) {
    fields.Fail("cache_salt", fmt::format("has {} bytes; at most {} are allowed",
                                          out.cache_salt.size(), limits.max_cache_salt_bytes));
  }
}

// On whose behalf, how urgent, how long.
void ReadService(FieldReader& fields, const RequestLimits& limits, GenerationOptions& out) {
  fields.String("user", out.user);
  if (out.user.size() > limits.max_user_bytes) {
    fields.Fail("user", fmt::format("has {} bytes; at most {} are allowed", out.user.size(),
                                    limits.max_user_bytes));
  }
  std::optional<std::int64_t> priority;
  fields.Integer("priority", -limits.max_priority, limits.max_priority, priority);
  if (priority.has_value()) {
    out.priority = static_cast<std::int32_t>(*priority);
  }
  if (fields.Find("timeout") != nullptr) {
    double timeout_s = 0;
    fields.Number("timeout",
                  {.lowest = 0, .highest = limits.max_timeout_s, .excludes_lowest = true},
                  timeout_s);
    out.timeout_s = timeout_s;
  }
  Json metadata;  // only matters to OpenAI's own service
  fields.Object("metadata", metadata);
}

void ReadBeamSearch(FieldReader& fields, const RequestLimits& limits, GenerationOptions& out) {
  fields.Boolean("use_beam_search", out.use_beam_search);
  if (!out.use_beam_search) {
    for (const std::string_view name : {"beam_width", "length_penalty"}) {
      if (fields.Find(name) != nullptr) {
        fields.Fail(name, "needs 'use_beam_search' to be true");
      }
    }
    return;
  }
  if (std::cmp_greater(out.n, limits.max_beam_width)) {
    fields.Fail("n", fmt::format("is {}; beam search returns {} texts at the most", out.n,
                                 limits.max_beam_width));
  }
  out.beam_width = out.n;
  fields.Integer("beam_width", 1, limits.max_beam_width, out.beam_width);
  if (out.beam_width < out.n) {
    fields.Fail("beam_width",
                fmt::format("is {}, less than n, which is {}", out.beam_width, out.n));
  }
  fields.Number("length_penalty", {.lowest = -10, .highest = 10}, out.length_penalty);
  if (out.stream) {
    fields.Fail("stream", "is not possible with 'use_beam_search': the best is known at the end");
  }
  const model::SamplingParams& sampling = out.sampling;
  if (sampling.repetition_penalty != 1.0 || sampling.presence_penalty != 0.0 ||
      sampling.frequency_penalty != 0.0 || !sampling.logit_bias.empty()) {
    fields.Fail("use_beam_search",
                "keeps the likeliest texts; penalties and 'logit_bias' have no place in it");
  }
}

// What becomes of a text that outgrows the context.
void ReadContext(FieldReader& fields, GenerationOptions& out) {
  std::string overflow;
  fields.String("context_overflow", overflow);
  if (overflow == "stream" || overflow == "refuse") {
    out.streams_context = overflow == "stream";
  } else if (fields.Find("context_overflow") != nullptr) {
    fields.Fail("context_overflow",
                fmt::format("is {}; it must be \"refuse\" or \"stream\"", Quote(overflow)));
  }
  const auto read = [&](std::string_view name, std::int64_t lowest,
                        std::optional<std::uint64_t>& tokens) {
    std::optional<std::int64_t> value;
    fields.Integer(name, lowest, kMaxInt, value);
    if (!value.has_value()) {
      return;
    }
    tokens = static_cast<std::uint64_t>(*value);
    if (!out.streams_context.value_or(false)) {
      fields.Fail(name, "needs 'context_overflow' to be \"stream\"");
    }
  };
  read("context_sinks", 0, out.context_sinks);
  read("context_window", 1, out.context_window);
  if (out.use_beam_search && out.streams_context.value_or(false)) {
    fields.Fail("context_overflow",
                "of \"stream\" is not possible with 'use_beam_search': beams are not cut");
  }
}

}  // namespace

void ReadGenerationOptions(FieldReader& fields, const RequestLimits& limits,
                           GenerationOptions& out) {
  fields.String("model", out.model);
  ReadSampling(fields, out.sampling);
  ReadLogitBias(fields, limits, out.sampling);
  std::optional<std::int64_t> seed;
  fields.Integer("seed", kMinInt, kMaxInt, seed);
  if (seed.has_value()) {
    out.seed = static_cast<std::uint64_t>(*seed);
  }
  fields.Integer("n", 1, limits.max_n, out.n);
  out.best_of = out.n;
  ReadStops(fields, limits, out);
  fields.Boolean("include_stop_str_in_output", out.include_stop_str_in_output);
  fields.Boolean("ignore_eos", out.ignore_eos);
  fields.Boolean("skip_special_tokens", out.skip_special_tokens);
  fields.Boolean("return_tokens_as_token_ids", out.return_tokens_as_token_ids);
  ReadCacheSalt(fields, limits, out);
  ReadStreaming(fields, out);
  ReadService(fields, limits, out);
  ReadBeamSearch(fields, limits, out);
  ReadContext(fields, out);
  std::optional<std::int64_t> min_tokens;
  fields.Integer("min_tokens", 0, kMaxInt, min_tokens);
  out.min_tokens = static_cast<std::uint64_t>(min_tokens.value_or(0));
  RejectUnsupported(fields);
}

void RejectUnsupported(FieldReader& fields) {
  struct Unsupported {
    std::string_view name;
    std::string_view advice;
    std::optional<double> neutral = std::nullopt;  // the number that asks for nothing
  };
  static constexpr std::array kFields = {
      Unsupported{"audio", "this server speaks text only"},
      Unsupported{"web_search_options", "this server has no web search"},
      Unsupported{"functions", "give 'tools'"},
      Unsupported{"function_call", "give 'tools'"},
      Unsupported{"prediction", "leave it out"},
      Unsupported{"guided_json", "constrained output is not available"},
      Unsupported{"guided_regex", "constrained output is not available"},
      Unsupported{"guided_choice", "constrained output is not available"},
      Unsupported{"guided_grammar", "constrained output is not available"},
      Unsupported{"structured_outputs", "constrained output is not available"},
      Unsupported{"logits_processors", "use 'logit_bias'"},
      Unsupported{"truncate_prompt_tokens", "shorten the prompt"},
      Unsupported{"prompt_logprobs", "use 'echo' with 'logprobs' of /v1/completions"},
      Unsupported{"allowed_token_ids", "use 'logit_bias'"},
      Unsupported{"bad_words", "use 'logit_bias'"},
      Unsupported{"chat_template", "the model's own template is used"},
      Unsupported{"prompt_embeds", "give the prompt as text or token ids"},
      // A completion that must fit between two texts.
      Unsupported{"suffix", "leave it out"},
      // Other servers' ways to choose a token; clients send them with neutral values.
      Unsupported{"repeat_penalty", "use 'repetition_penalty'", 1},
      Unsupported{"typical_p", "use 'top_p' or 'min_p'", 1},
      Unsupported{"tfs_z", "use 'top_p' or 'min_p'", 1},
      Unsupported{"top_a", "use 'min_p'", 0},
      Unsupported{"mirostat", "use 'top_p' or 'min_p'", 0},
      Unsupported{"dynatemp_range", "use 'temperature'", 0},
      Unsupported{"xtc_probability", "use 'temperature'", 0},
      Unsupported{"dry_multiplier", "use 'frequency_penalty'", 0},
  };
  for (const Unsupported& field : kFields) {
    const Json* value = fields.Find(field.name);
    if (value == nullptr) continue;
    const bool is_empty = (value->is_string() && value->get_ref<const std::string&>().empty()) ||
                          (value->is_array() && value->empty());
    const bool is_neutral = field.neutral && value->is_number() && *value == *field.neutral;
    if (is_empty || is_neutral) continue;
    return fields.Fail(field.name, fmt::format("is not supported; {}", field.advice));
  }
  if (const Json* format = fields.Find("response_format")) {
    const Json type = format->is_object() ? format->value("type", Json()) : Json();
    if (type != "text") {
      fields.Fail("response_format", fmt::format("of type {} is not supported; only {{\"type\": "
                                                 "\"text\"}} is",
                                                 Quote(type)));
    }
  }
  if (const Json* modalities = fields.Find("modalities");
      modalities && *modalities != Json{"text"}) {
    fields.Fail("modalities", "other than [\"text\"] are not supported");
  }
}

}  // namespace ashlar::server
