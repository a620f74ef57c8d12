#include "hf/tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/describe.h"
#include "hf/tokenizer_steps.h"
#include "text/token_table.h"

namespace ashlar::hf {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTokenId = std::uint64_t{1} << 22;
constexpr std::string_view kMark = "\xE2\x96\x81";  // SentencePiece's space

// tokenizer.ggml.token_type
enum Type : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

bool IsByteToken(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.back() == '>' &&
         text.find_first_not_of("0123456789ABCDEF", 3) == 5;
}

class VocabularyReader {
 public:
  VocabularyReader(const Json& json, std::uint64_t rows, Builder& builder)
      : json_(json), rows_(rows), builder_(builder) {}

  Status Read();

 private:
  Result<Object> Model() const;
  Status Tokens(const Object& model);
  Status AddedTokens();
  Status AddedToken(const Object& token);
  Status Merges(const Object& model);
  Result<std::pair<std::string_view, std::string_view>> Merge(const Element& element) const;
  void Unknown(const Object& model);
  void Ends();
  Status SetEnd(std::string_view text, std::string_view key, std::string_view flag);
  std::optional<std::uint64_t> Find(std::string_view text) const {
    const auto found = ids_.Find(text);
    return found ? std::optional(static_cast<std::uint64_t>(*found)) : std::nullopt;
  }
  Status Insert(std::string_view text, std::uint64_t id);
  Error Bad(std::string_view what) const {
    return MakeError(ErrorCode::kCorrupt, "'{}': {}", json_.name(), what);
  }

  const Json& json_;
  std::uint64_t rows_;
  Builder& builder_;
  TokenizerSteps steps_;
  std::vector<std::string_view> texts_;  // views into the document
  std::vector<std::int64_t> types_;
  text::TokenTable ids_;  // every id has one text, so at most rows_
  bool strips_after_special_ = false;
};

Status VocabularyReader::Read() {
  ASHLAR_ASSIGN(const Object model, Model());
  const auto ignores = FieldOf(model, "ignore_merges");
  ASHLAR_ASSIGN(steps_, ReadTokenizerSteps(json_, ignores && FlagIn(*ignores).value_or(false)));
  ASHLAR_TRY(Tokens(model));
  ASHLAR_TRY(AddedTokens());
  Unknown(model);
  builder_.SetText("tokenizer.ggml.model", steps_.is_byte_level ? "gpt2" : "llama");
  if (steps_.is_byte_level) builder_.SetText("tokenizer.ggml.pre", steps_.cut);
  if (!steps_.is_byte_level) {
    builder_.Set("tokenizer.ggml.add_space_prefix", steps_.adds_space_prefix);
  }
  builder_.Set("tokenizer.ggml.strips_after_special", strips_after_special_);
  ASHLAR_TRY(Merges(model));
  if (steps_.has_template) {
    ASHLAR_TRY(SetEnd(steps_.first.value_or(""), "tokenizer.ggml.bos_token_id",
                      "tokenizer.ggml.add_bos_token"));
    ASHLAR_TRY(SetEnd(steps_.last.value_or(""), "tokenizer.ggml.eos_token_id",
                      "tokenizer.ggml.add_eos_token"));
  }
  gguf::Array::Strings kept;
  kept.reserve(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    std::string text(texts_[i]);
    // GGUF's user-defined tokens of SentencePiece have plain spaces.
    if (!steps_.is_byte_level && types_[i] == kUserDefined) {
      for (std::size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at)) {
        text.replace(at, kMark.size(), " ");
      }
    }
    kept.push_back(builder_.Keep(std::move(text)));
  }
  builder_.Set("tokenizer.ggml.tokens", gguf::Array{std::move(kept)});
  builder_.Set("tokenizer.ggml.token_type", gguf::Array{std::move(types_)});
  return {};
}

Result<Object> VocabularyReader::Model() const {
  const auto value = FieldOf(json_.root(), "model");
  const auto model = value ? ObjectIn(*value) : std::nullopt;
  if (!model) return Bad("it has no object \"model\"");
  const auto type = FieldOf(*model, "type");
  if (type && TextIn(*type) != "BPE") {
    return MakeError(ErrorCode::kUnsupported,
                     "'{}': the tokenizer is of type {}; this build has BPE", json_.name(),
                     Shown(*type));
  }
  for (const std::string_view name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto field = FieldOf(*model, name);
    if (field && !(TextIn(*field) == "" || NumberIn(*field) == 0.0)) {
      return MakeError(ErrorCode::kUnsupported, "'{}': {} is {}; this build runs without it",
                       json_.name(), name, Shown(*field));
    }
  }
  return *model;
}

Status VocabularyReader::Tokens(const Object& model) {
  const auto value = FieldOf(model, "vocab");
  const auto vocab = value ? ObjectIn(*value) : std::nullopt;
  if (!vocab) return Bad("its model has no object \"vocab\"");
  texts_.assign(rows_, {});
  types_.assign(rows_, kNormal);
  ids_ = text::TokenTable(rows_);
  for (const auto field : *vocab) {
    const auto id = CountIn(field.value);
    if (!id || *id >= rows_) {
      return Bad(fmt::format("token {} has the id {}; the embedding table has {} rows",
                             gguf::Quote(field.key), Shown(field.value), rows_));
    }
    if (!texts_[*id].empty() && texts_[*id] != field.key) {
      return Bad(fmt::format("tokens {} and {} both have the id {}", gguf::Quote(texts_[*id]),
                             gguf::Quote(field.key), *id));
    }
    if (texts_[*id].empty()) ASHLAR_TRY(Insert(field.key, *id));
    texts_[*id] = field.key;
    if (!steps_.is_byte_level && IsByteToken(field.key)) types_[*id] = kByte;
  }
  return {};
}

// An empty text is in no table.
Status VocabularyReader::Insert(std::string_view text, std::uint64_t id) {
  if (text.empty()) return {};
  switch (ids_.Insert(text, static_cast<TokenId>(id))) {
    case text::TokenTable::Inserted::kYes:
      return {};
    case text::TokenTable::Inserted::kAlreadyThere:
      return Bad(fmt::format("token {} has two ids", gguf::Quote(text)));
    case text::TokenTable::Inserted::kTooManyCollisions:
      return Bad(fmt::format("token {} collides with too many others", gguf::Quote(text)));
  }
  return {};
}

Status VocabularyReader::AddedTokens() {
  const auto value = FieldOf(json_.root(), "added_tokens");
  if (!value) return {};
  const auto tokens = ArrayIn(*value);
  if (!tokens) return Bad(fmt::format("added_tokens is {}; an array is needed", Shown(*value)));
  for (const Element element : *tokens) {
    const auto token = ObjectIn(element);
    if (!token) return Bad(fmt::format("an added token is {}", Shown(element)));
    ASHLAR_TRY(AddedToken(*token));
  }
  return {};
}

Status VocabularyReader::AddedToken(const Object& token) {
  const auto says = [&](std::string_view name) {
    const auto value = FieldOf(token, name);
    return value && FlagIn(*value).value_or(false);
  };
  const auto id_field = FieldOf(token, "id");
  const auto content_field = FieldOf(token, "content");
  const auto id = id_field ? CountIn(*id_field) : std::nullopt;
  const auto content = content_field ? TextIn(*content_field) : std::nullopt;
  if (!id || !content || content->empty() || *id > kMaxTokenId) {
    return Bad(fmt::format("an added token has the id {} and the content {}",
                           id_field ? Shown(*id_field) : "missing",
                           content_field ? Shown(*content_field) : "missing"));
  }
  if (*id >= rows_) return {};  // nothing can compute it
  if (!texts_[*id].empty() && texts_[*id] != *content) {
    return Bad(fmt::format("tokens {} and {} both have the id {}", gguf::Quote(texts_[*id]),
                           gguf::Quote(*content), *id));
  }
  if (says("single_word") || says("lstrip")) {
    return MakeError(ErrorCode::kUnsupported,
                     "'{}': the added token {} has single_word or lstrip, which this build does "
                     "not have",
                     json_.name(), gguf::Quote(*content));
  }
  if (texts_[*id].empty()) ASHLAR_TRY(Insert(*content, *id));
  texts_[*id] = *content;
  types_[*id] = says("special") ? kControl : kUserDefined;
  const bool keeps = *content == "<unk>" || *content == "<s>" || *content == "<|endoftext|>";
  if (says("special") && says("rstrip") && !keeps) strips_after_special_ = true;
  return {};
}

void VocabularyReader::Unknown(const Object& model) {
  const auto value = FieldOf(model, "unk_token");
  const auto text = value ? TextIn(*value) : std::nullopt;
  const auto id = text ? Find(*text) : std::nullopt;
  if (!id || steps_.is_byte_level) return;
  types_[*id] = kUnknown;
  builder_.Set("tokenizer.ggml.unknown_token_id", *id);
}

// "left right", or [left, right].
Result<std::pair<std::string_view, std::string_view>> VocabularyReader::Merge(
    const Element& element) const {
  if (const auto text = TextIn(element)) {
    const std::size_t space = text->empty() ? text->npos : text->find(' ', 1);
    if (space != text->npos) return std::pair(text->substr(0, space), text->substr(space + 1));
  } else if (const auto pair = ArrayIn(element); pair && pair->size() == 2) {
    const auto left = TextIn(pair->at(0).value_unsafe());
    const auto right = TextIn(pair->at(1).value_unsafe());
    if (left && right) return std::pair(*left, *right);
  }
  return Bad(fmt::format("a merge is {}; two tokens are needed", Shown(element)));
}

// Byte-level: as they are. SentencePiece's tokenizer merges what gives the token with the highest
// score: here the one whose merge comes first.
Status VocabularyReader::Merges(const Object& model) {
  const auto value = FieldOf(model, "merges");
  const auto merges = value ? ArrayIn(*value) : std::nullopt;
  if (!merges) return Bad("its model has no array \"merges\"");
  gguf::Array::Strings joined;
  const double last = -static_cast<double>(merges->size()) - 1;
  std::vector<double> scores(steps_.is_byte_level ? 0 : rows_, last);
  std::string result;
  std::size_t rank = 0;
  for (const Element element : *merges) {
    ASHLAR_ASSIGN(const auto pair, Merge(element));
    if (steps_.is_byte_level) {
      joined.push_back(builder_.Keep(fmt::format("{} {}", pair.first, pair.second)));
      continue;
    }
    result.assign(pair.first).append(pair.second);
    const auto id = Find(result);
    if (!id) {
      return Bad(fmt::format("merge {} gives {}, which is no token", rank, gguf::Quote(result)));
    }
    if (scores[*id] == last) scores[*id] = -static_cast<double>(rank);
    ++rank;
  }
  if (steps_.is_byte_level) {
    builder_.Set("tokenizer.ggml.merges", gguf::Array{std::move(joined)});
  } else {
    builder_.Set("tokenizer.ggml.scores", gguf::Array{std::move(scores)});
  }
  return {};
}

Status VocabularyReader::SetEnd(std::string_view text, std::string_view key,
                                std::string_view flag) {
  builder_.Set(std::string(flag), !text.empty());
  if (text.empty()) return {};
  const auto id = Find(text);
  if (!id) {
    return Bad(fmt::format("its post-processor adds {}, which is no token", gguf::Quote(text)));
  }
  builder_.Set(std::string(key), *id);
  return {};
}

// --- The neighbours of tokenizer.json

std::optional<std::uint64_t> IdOf(const Builder& builder, std::string_view text) {
  const auto found = builder.contents().metadata.find("tokenizer.ggml.tokens");
  const auto& texts = std::get<gguf::Array::Strings>(std::get<gguf::Array>(found->second).elements);
  const auto token = std::ranges::find(texts, text);
  if (text.empty() || token == texts.end()) return std::nullopt;
  return static_cast<std::uint64_t>(token - texts.begin());
}

bool Has(const Builder& builder, std::string_view key) {
  return builder.contents().metadata.contains(key);
}

// A special token: its text, or an object with it.
std::optional<std::string_view> SpecialText(const Object& object, std::string_view name) {
  const auto value = FieldOf(object, name);
  if (!value) return std::nullopt;
  if (const auto inner = ObjectIn(*value)) {
    const auto content = FieldOf(*inner, "content");
    return content ? TextIn(*content) : std::nullopt;
  }
  return TextIn(*value);
}

// A template, or several with names, of which the default one.
std::optional<std::string_view> TemplateIn(const Object& object) {
  const auto value = FieldOf(object, "chat_template");
  if (!value) return std::nullopt;
  const auto list = ArrayIn(*value);
  if (!list) return TextIn(*value);
  std::optional<std::string_view> chosen;
  for (const Element element : *list) {
    const auto entry = ObjectIn(element);
    const auto name = entry ? FieldOf(*entry, "name") : std::nullopt;
    const auto source = entry ? FieldOf(*entry, "template") : std::nullopt;
    if (source && name && TextIn(*name) == "default") chosen = TextIn(*source);
  }
  return chosen;
}

Status ReadTokenizerConfig(const fs::path& path, Builder& builder) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  ASHLAR_ASSIGN(const Json json, Json::Read(path.string(), kMaxTokenizerBytes));
  const Object fields = json.root();
  for (const auto& [name, key, flag, ours] :
       {std::tuple("bos_token", "tokenizer.ggml.bos_token_id", "add_bos_token",
                   "tokenizer.ggml.add_bos_token"),
        std::tuple("eos_token", "tokenizer.ggml.eos_token_id", "add_eos_token",
                   "tokenizer.ggml.add_eos_token")}) {
    const auto id = IdOf(builder, SpecialText(fields, name).value_or(""));
    if (id && !Has(builder, key)) builder.Set(key, *id);
    const auto adds = FieldOf(fields, flag);
    if (adds && FlagIn(*adds) && !Has(builder, ours)) builder.Set(ours, *FlagIn(*adds));
  }
  if (const auto source = TemplateIn(fields)) builder.SetText("tokenizer.chat_template", *source);
  return {};
}

Status ReadTemplateFile(const fs::path& path, Builder& builder) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path.string()));
  if (file.bytes().size() > kMaxConfigBytes) {
    return MakeError(ErrorCode::kUnsupported, "'{}' has {} bytes; at most {} are read",
                     path.string(), file.bytes().size(), kMaxConfigBytes);
  }
  builder.SetText("tokenizer.chat_template",
                  {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  return {};
}

// One id, or a list of them. Some files name tokens of the vocabulary that theirs was cut from.
Status AddEndTokens(const std::optional<Element>& value, std::string_view where, std::uint64_t rows,
                    gguf::Array::Integers& ends) {
  if (!value) return {};
  std::vector<Element> ids;
  if (const auto list = ArrayIn(*value)) {
    for (const Element element : *list) ids.push_back(element);
  } else {
    ids.push_back(*value);
  }
  for (const Element& element : ids) {
    const auto id = CountIn(element);
    if (!id) {
      return MakeError(ErrorCode::kCorrupt, "'{}': eos_token_id has {}; ids of tokens are needed",
                       where, Shown(element));
    }
    if (*id < rows) ends.push_back(static_cast<std::int64_t>(*id));
  }
  return {};
}

}  // namespace

Status ReadVocabulary(const Json& json, std::uint64_t rows, Builder& builder) {
  return VocabularyReader(json, rows, builder).Read();
}

Status ReadTokenizer(const fs::path& folder, const Config& config, std::uint64_t rows,
                     Builder& builder) {
  const Result<Json> json = Json::Read((folder / "tokenizer.json").string(), kMaxTokenizerBytes);
  if (!json.ok()) {
    return MakeError(json.error().code, "{}; the model's tokenizer.json is needed",
                     json.error().message);
  }
  ASHLAR_TRY(ReadVocabulary(*json, rows, builder));
  ASHLAR_TRY(ReadTokenizerConfig(folder / "tokenizer_config.json", builder));
  ASHLAR_TRY(ReadTemplateFile(folder / "chat_template.jinja", builder));
  gguf::Array::Integers ends;
  const std::string generation = (folder / "generation_config.json").string();
  std::error_code error;
  if (fs::exists(generation, error)) {
    ASHLAR_ASSIGN(const Json own, Json::Read(generation, kMaxConfigBytes));
    ASHLAR_TRY(AddEndTokens(FieldOf(own.root(), "eos_token_id"), generation, rows, ends));
  }
  ASHLAR_TRY(AddEndTokens(config.Find("eos_token_id"), config.where(), rows, ends));
  if (ends.empty()) return {};
  if (!Has(builder, "tokenizer.ggml.eos_token_id")) {
    builder.Set("tokenizer.ggml.eos_token_id", static_cast<std::uint64_t>(ends[0]));
  }
  builder.Set("tokenizer.ggml.end_token_ids", gguf::Array{std::move(ends)});
  return {};
}

}  // namespace ashlar::hf
