#include "hf/model_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "hf/builder.h"
#include "hf/config.h"
#include "hf/shards.h"
#include "hf/tokenizer.h"
#include "hf/weights.h"

namespace ashlar::hf {
namespace {

namespace fs = std::filesystem;

// quantize_config.json, which older GPTQ folders have in place of config.json's object.
Result<std::optional<Int4Spec>> Int4SpecOf(const fs::path& folder, const Config& config) {
  ASHLAR_ASSIGN(const auto spec, ReadInt4Spec(config));
  const std::string path = (folder / "quantize_config.json").string();
  std::error_code error;
  if (spec || !fs::exists(path, error)) return spec;
  ASHLAR_ASSIGN(const Json json, Json::Read(path, kMaxConfigBytes));
  ASHLAR_ASSIGN(const Int4Spec own, ParseInt4Spec(json.root(), path));
  return std::optional(own);
}

const gguf::Tensor* FindTensor(const Builder& builder, std::string_view name) {
  for (const gguf::Tensor& tensor : builder.contents().tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// The name of the folder; in a cache of the hub, of the model.
std::string NameOf(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  for (fs::path part = whole; part.has_relative_path(); part = part.parent_path()) {
    const std::string name = part.filename().string();
    if (name.starts_with("models--")) return name.substr(name.rfind("--") + 2);
  }
  return whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
}

// The rows of the embedding table, whose absence src/model reports.
Result<std::uint64_t> VocabularySize(const Builder& builder, const std::string& where) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 22;
  const gguf::Tensor* const table = FindTensor(builder, "token_embd.weight");
  if (table == nullptr || table->dims.size() != 2 || table->dims[1] > kMost) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}' has no embedding table: a matrix of at most {} rows", where, kMost);
  }
  return table->dims[1];
}

}  // namespace

std::optional<std::string> ModelFolderOf(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const fs::path file(path);
  const bool is_part = file.extension() == ".safetensors" || file.filename() == "config.json" ||
                       file.filename() == "model.safetensors.index.json";
  if (!is_part) return std::nullopt;
  return file.has_parent_path() ? file.parent_path().string() : std::string(".");
}

Result<gguf::ModelFile> OpenFolder(const std::string& folder, FolderParts parts) {
  const fs::path path(folder);
  ASHLAR_ASSIGN(const Json json, Json::Read((path / "config.json").string(), kMaxConfigBytes));
  const Config config(json);
  ASHLAR_ASSIGN(const Family* const family, FamilyOf(config));
  Builder builder{std::string(family->architecture)};
  builder.SetText("general.architecture", family->architecture);
  builder.SetText("general.name", NameOf(path));
  ASHLAR_TRY(ReadConfig(config, *family, builder));
  ASHLAR_ASSIGN(Shards shards, OpenShards(path));
  ASHLAR_ASSIGN(const auto int4, Int4SpecOf(path, config));
  ASHLAR_ASSIGN(const auto is_tied, config.Flag("tie_word_embeddings"));
  ASHLAR_ASSIGN(const auto is_new, config.Flag("new_decoder_architecture"));
  const WeightsContext context = {
      .family = *family,
      .int4 = int4,
      .is_tied = is_tied.value_or(false),
      .has_interleaved_qkv = family->interleaves_qkv && is_new.value_or(false),
      .heads = builder.OwnCount("attention.head_count"),
      .kv_heads = builder.OwnCount("attention.head_count_kv")};
  ASHLAR_TRY(AddWeights(context, shards.tensors, builder));
  if (is_tied && !*is_tied && FindTensor(builder, "output.weight") == nullptr) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}' has no tensor 'lm_head.weight', and tie_word_embeddings is false",
                     folder);
  }
  if (parts == FolderParts::kAll) {
    ASHLAR_ASSIGN(const std::uint64_t rows, VocabularySize(builder, folder));
    ASHLAR_TRY(ReadTokenizer(path, config, rows, builder));
  }
  gguf::ModelFile::Contents& contents = builder.contents();
  contents.name = NameOf(path);
  contents.format = "safetensors";
  contents.paths = {folder};
  contents.paths.insert(contents.paths.end(), shards.paths.begin(), shards.paths.end());
  contents.files = std::move(shards.files);
  return gguf::ModelFile::Assemble(std::move(contents));
}

Result<gguf::ModelFile> OpenModel(const std::string& path, FolderParts parts) {
  const auto folder = ModelFolderOf(path);
  return folder ? OpenFolder(*folder, parts) : gguf::ModelFile::Open(path);
}

}  // namespace ashlar::hf
