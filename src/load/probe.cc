#include "load/probe.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar::load {
namespace {

using Json = nlohmann::json;
using Words = std::span<const std::string_view>;
using Counter = std::function<Result<std::uint64_t>(const std::string& text)>;

// Fewer words make prompts that are too much alike.
constexpr std::size_t kLeastWords = 64;
// Looking for one-token words among these ends with so many requests.
constexpr int kMaxCounts = 200;

Error NoAnswer(std::string_view what, const std::string& body) {
  return MakeError(ErrorCode::kCorrupt, "{}: '{}'", what, Printable(body));
}

// By /tokenize. llama.cpp calls the text "content", vLLM and we "prompt".
Result<std::uint64_t> CountByTokenize(HttpClient& client, const std::string& model,
                                      const std::string& text) {
  const Json request = {
      {"model", model}, {"prompt", text}, {"content", text}, {"add_special_tokens", false}};
  ASHLAR_ASSIGN(const std::string body,
                Fetch(client, {.path = "/tokenize", .body = request.dump()}));
  const Json answer = Json::parse(body, nullptr, false);
  if (answer.is_object() && answer.contains("tokens") && answer["tokens"].is_array()) {
    return std::uint64_t{answer["tokens"].size()};
  }
  return NoAnswer("/tokenize answers without a list of tokens", body);
}

// By the usage of a completion of one token.
Result<std::uint64_t> CountByUsage(HttpClient& client, const BodyOptions& options,
                                   const std::string& text) {
  BodyOptions whole = options;
  whole.extra["stream"] = false;
  Json request = Json::parse(MakeBody(whole, {&text, 1}, 1));
  request.erase("stream_options");
  ASHLAR_ASSIGN(
      const std::string body,
      Fetch(client, {.path = std::string(PathOf(options.endpoint)), .body = request.dump()}));
  const Json answer = Json::parse(body, nullptr, false);
  const Json usage = answer.is_object() ? answer.value("usage", Json()) : Json();
  const Json count = usage.is_object() ? usage.value("prompt_tokens", Json()) : Json();
  if (count.is_number_unsigned()) return count.get<std::uint64_t>();
  return NoAnswer("a completion without 'usage.prompt_tokens'", body);
}

// The words that are one token each, by halving; nothing where that takes too long.
class OneTokenWords {
 public:
  OneTokenWords(const Counter& count, std::uint64_t overhead)
      : count_(count), overhead_(overhead) {}

  Status Look(Words words) {
    if (words.empty() || counts_ >= kMaxCounts) return {};
    ++counts_;
    ASHLAR_ASSIGN(const std::uint64_t tokens, count_(Sentence(words)));
    if (tokens == words.size() + overhead_) {
      found.insert(found.end(), words.begin(), words.end());
    } else if (words.size() > 1) {
      ASHLAR_TRY(Look(words.first(words.size() / 2)));
      ASHLAR_TRY(Look(words.subspan(words.size() / 2)));
    }
    return {};
  }

  std::vector<std::string_view> found;

 private:
  const Counter& count_;
  const std::uint64_t overhead_;
  int counts_ = 0;
};

Result<Calibration> CalibrateBy(const Counter& count, std::string_view by) {
  const Words words = CommonWords();
  const std::string once = Sentence(words);
  ASHLAR_ASSIGN(const std::uint64_t of_once, count(once));
  ASHLAR_ASSIGN(const std::uint64_t of_twice, count(once + once));
  if (of_twice <= of_once) {
    return MakeError(ErrorCode::kCorrupt,
                     "the server counts {} tokens in a text and {} in twice that text", of_once,
                     of_twice);
  }
  // What every prompt has besides its text: a first token, a chat's template.
  const std::uint64_t of_words = of_twice - of_once;
  const std::uint64_t overhead = of_once - std::min(of_once, of_words);
  if (of_words < 2 * words.size()) {
    OneTokenWords one_token(count, overhead);
    ASHLAR_TRY(one_token.Look(words));
    if (one_token.found.size() >= kLeastWords) {
      const std::size_t found = one_token.found.size();
      return Calibration{.text = TextMaker::OfWords(std::move(one_token.found)),
                         .how = fmt::format("{} words of one token each (by {})", found, by)};
    }
  }
  const double per_character = static_cast<double>(of_words) / static_cast<double>(once.size());
  return Calibration{.text = TextMaker::OfCharacters(per_character),
                     .how = fmt::format("{:.3f} tokens per character (by {})", per_character, by)};
}

}  // namespace

Result<std::string> DiscoverModel(HttpClient& client) {
  ASHLAR_ASSIGN(const std::string body, Fetch(client, {.method = "GET", .path = "/v1/models"}));
  const Json answer = Json::parse(body, nullptr, false);
  const Json data = answer.is_object() ? answer.value("data", Json()) : Json();
  const Json first = data.is_array() && !data.empty() ? data[0] : Json();
  const Json id = first.is_object() ? first.value("id", Json()) : Json();
  if (id.is_string()) return id.get<std::string>();
  return NoAnswer("/v1/models lists no model; name one with --model", body);
}

Result<std::vector<std::uint32_t>> Tokenize(HttpClient& client, const std::string& model,
                                            const std::string& text) {
  const Json request = {
      {"model", model}, {"prompt", text}, {"content", text}, {"add_special_tokens", true}};
  ASHLAR_ASSIGN(const std::string body,
                Fetch(client, {.path = "/tokenize", .body = request.dump()}));
  const Json answer = Json::parse(body, nullptr, false);
  const Json tokens = answer.is_object() ? answer.value("tokens", Json()) : Json();
  std::vector<std::uint32_t> ids;
  for (const Json& token : tokens) {
    if (token.is_number_unsigned() && token.get<std::uint64_t>() < (std::uint64_t{1} << 31)) {
      ids.push_back(token.get<std::uint32_t>());
    }
  }
  if (tokens.is_array() && !ids.empty() && ids.size() == tokens.size()) return ids;
  return NoAnswer("/tokenize answers without a list of token ids", body);
}

Result<Calibration> Calibrate(HttpClient& client, const BodyOptions& body) {
  const Counter by_tokenize = [&](const std::string& text) {
    return CountByTokenize(client, body.model, text);
  };
  if (auto calibration = CalibrateBy(by_tokenize, "/tokenize"); calibration.ok())
    return calibration;
  const Counter by_usage = [&](const std::string& text) {
    return CountByUsage(client, body, text);
  };
  return CalibrateBy(by_usage, "the usage of completions");
}

}  // namespace ashlar::load
