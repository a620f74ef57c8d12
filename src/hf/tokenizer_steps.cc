#include "hf/tokenizer_steps.h"

#include <algorithm>
#include <array>
#include <vector>

#include "gguf/describe.h"

namespace ashlar::hf {
namespace {

// Cuts as chains of steps, each "Type" or "Type(what matters)".
#define ASHLAR_WORDS(numbers)                                                \
  R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})x" numbers \
  R"x(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"
struct Cut {
  std::string_view chain;
  bool keeps_whole_words;
  std::string_view name;
};
constexpr auto kCuts = std::to_array<Cut>({
    {"ByteLevel(words)", false, "gpt-2"},
    {"Digits(each) ByteLevel(words)", false, "smollm"},
    {"Split(" ASHLAR_WORDS("{1,3}") ") ByteLevel", true, "llama-bpe"},
    {"Split(" ASHLAR_WORDS("{1,3}") ") ByteLevel", false, "dbrx"},
    {"Split(" ASHLAR_WORDS("") ") ByteLevel", false, "qwen2"},
});

std::string_view TypeOf(const Object& step) {
  const auto type = FieldOf(step, "type");
  return type ? TextIn(*type).value_or("") : "";
}

bool Says(const Object& object, std::string_view name, bool fallback) {
  const auto value = FieldOf(object, name);
  return value ? FlagIn(*value).value_or(fallback) : fallback;
}

// The steps under `name`: none, one, or those of a sequence.
Result<std::vector<Object>> StepsOf(const Json& json, std::string_view name,
                                    std::string_view list) {
  std::vector<Object> steps;
  const auto value = FieldOf(json.root(), name);
  if (!value) return steps;
  const auto object = ObjectIn(*value);
  if (!object) {
    return MakeError(ErrorCode::kCorrupt, "'{}': {} is {}; an object is needed", json.name(), name,
                     Shown(*value));
  }
  if (TypeOf(*object) != "Sequence") return std::vector<Object>{*object};
  const auto inner = FieldOf(*object, list);
  const auto array = inner ? ArrayIn(*inner) : std::nullopt;
  if (!array) {
    return MakeError(ErrorCode::kCorrupt, "'{}': the sequence {} has no {}", json.name(), name,
                     list);
  }
  for (const Element element : *array) {
    const auto step = ObjectIn(element);
    if (!step) {
      return MakeError(ErrorCode::kCorrupt, "'{}': {} holds {}; objects are needed", json.name(),
                       name, Shown(element));
    }
    steps.push_back(*step);
  }
  return steps;
}

Error Unknown(const Json& json, std::string_view what, const std::string& step) {
  return MakeError(ErrorCode::kUnsupported,
                   "'{}': the {} {} is none that this build has; convert the model to GGUF, or use "
                   "one with the tokenizer of GPT-2, Llama 2 and 3, Qwen 2 and 3, Gemma or SmolLM",
                   json.name(), what, gguf::Quote(step));
}

// A pre-tokenizer's step as kCuts has it.
std::string ChainLink(const Object& step) {
  const std::string_view type = TypeOf(step);
  if (type == "ByteLevel") {
    if (Says(step, "add_prefix_space", true)) return "ByteLevel(add_prefix_space)";
    return Says(step, "use_regex", true) ? "ByteLevel(words)" : "ByteLevel";
  }
  if (type == "Digits") return Says(step, "individual_digits", false) ? "Digits(each)" : "Digits";
  if (type != "Split") return std::string(type);
  const auto pattern = FieldOf(step, "pattern");
  const auto object = pattern ? ObjectIn(*pattern) : std::nullopt;
  const auto regex = object ? FieldOf(*object, "Regex") : std::nullopt;
  const auto text = object ? FieldOf(*object, "String") : std::nullopt;
  const auto behavior = FieldOf(step, "behavior");
  const bool is_isolated = behavior && TextIn(*behavior) == "Isolated";
  if (regex && is_isolated && !Says(step, "invert", false)) {
    return fmt::format("Split({})", TextIn(*regex).value_or(""));
  }
  // Gemma: spaces, of which none are left.
  if (text && TextIn(*text) == " ") return "Split(space)";
  return "Split(other)";
}

class StepsReader {
 public:
  StepsReader(const Json& json, bool keeps_whole_words)
      : json_(json), keeps_whole_words_(keeps_whole_words) {}

  Result<TokenizerSteps> Read() {
    ASHLAR_TRY(PreTokenizer());
    ASHLAR_TRY(Normalizer());
    ASHLAR_TRY(PostProcessor());
    return steps_;
  }

 private:
  Status PreTokenizer();
  Status Spaces(const std::vector<Object>& steps, const std::string& chain);
  Status Normalizer();
  Status PostProcessor();

  const Json& json_;
  bool keeps_whole_words_;
  TokenizerSteps steps_;
};

Status StepsReader::PreTokenizer() {
  ASHLAR_ASSIGN(const std::vector<Object> steps, StepsOf(json_, "pre_tokenizer", "pretokenizers"));
  std::string chain;
  for (const Object& step : steps) {
    const std::string link = ChainLink(step);
    steps_.is_byte_level = steps_.is_byte_level || link.starts_with("ByteLevel");
    chain += chain.empty() ? "" : " ";
    chain += link;
  }
  if (!steps_.is_byte_level) return Spaces(steps, chain);
  for (const Cut& cut : kCuts) {
    if (cut.chain == chain && cut.keeps_whole_words == keeps_whole_words_) {
      steps_.cut = cut.name;
      return {};
    }
  }
  return Unknown(json_, "pre-tokenizer", chain);
}

// SentencePiece's: at most its own treatment of spaces.
Status StepsReader::Spaces(const std::vector<Object>& steps, const std::string& chain) {
  if (chain.empty() || chain == "Split(space)") return {};
  if (chain != "Metaspace") return Unknown(json_, "pre-tokenizer", chain);
  const auto scheme = FieldOf(steps[0], "prepend_scheme");
  steps_.adds_space_prefix =
      scheme ? TextIn(*scheme) != "never" : Says(steps[0], "add_prefix_space", true);
  return {};
}

Status StepsReader::Normalizer() {
  ASHLAR_ASSIGN(const std::vector<Object> steps, StepsOf(json_, "normalizer", "normalizers"));
  for (const Object& step : steps) {
    const std::string_view type = TypeOf(step);
    if (steps_.is_byte_level) {
      // Texts are taken as they come, as from GGUF files, which do not carry this.
      if (type != "NFC") return Unknown(json_, "normalizer", std::string(type));
      continue;
    }
    const auto content = FieldOf(step, type == "Prepend" ? "prepend" : "content");
    const bool is_mark = content && TextIn(*content) == "\xE2\x96\x81";
    if (!is_mark || (type != "Prepend" && type != "Replace")) {
      return Unknown(json_, "normalizer", std::string(type));
    }
    steps_.adds_space_prefix = steps_.adds_space_prefix || type == "Prepend";
  }
  return {};
}

// [first] text [last]
Status StepsReader::PostProcessor() {
  ASHLAR_ASSIGN(const std::vector<Object> steps, StepsOf(json_, "post_processor", "processors"));
  for (const Object& step : steps) {
    const std::string_view type = TypeOf(step);
    if (type == "ByteLevel") continue;
    const auto single = FieldOf(step, "single");
    const auto pieces = single ? ArrayIn(*single) : std::nullopt;
    if (type != "TemplateProcessing" || !pieces) {
      return Unknown(json_, "post-processor", std::string(type));
    }
    steps_.has_template = true;
    bool is_after = false;
    for (const Element piece : *pieces) {
      const auto object = ObjectIn(piece);
      const auto special = object ? FieldOf(*object, "SpecialToken") : std::nullopt;
      const auto fields = special ? ObjectIn(*special) : std::nullopt;
      const auto id = fields ? FieldOf(*fields, "id") : std::nullopt;
      const auto text = id ? TextIn(*id) : std::nullopt;
      is_after = is_after || !special;
      std::optional<std::string_view>& place = is_after ? steps_.last : steps_.first;
      if (!special) continue;
      if (!text || place) return Unknown(json_, "post-processor", Shown(piece));
      place = text;
    }
  }
  return {};
}

}  // namespace

Result<TokenizerSteps> ReadTokenizerSteps(const Json& json, bool keeps_whole_words) {
  return StepsReader(json, keeps_whole_words).Read();
}

}  // namespace ashlar::hf
