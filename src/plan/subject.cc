#include "plan/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "base/mapped_file.h"
#include "hf/model_folder.h"
#include "model/weights.h"
#include "plan/config_reader.h"

namespace ashlar::plan {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

// Numbers and texts of the architecture's own keys, under what follows its name.
Json FieldsOf(const gguf::ModelFile& file, std::string_view architecture) {
  Json fields = {{"general.architecture", std::string(architecture)}};
  const std::string prefix = std::string(architecture) + ".";
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string name(key.substr(prefix.size()));
    if (const auto* const number = std::get_if<std::uint64_t>(&value)) {
      fields[name] = *number;
    } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
      fields[name] = *whole;
    } else if (const auto* const flag = std::get_if<bool>(&value)) {
      fields[name] = *flag;
    } else if (const auto* const array = std::get_if<gguf::Array>(&value)) {
      const auto* const integers = std::get_if<gguf::Array::Integers>(&array->elements);
      if (integers != nullptr) fields[name] = *integers;
    }
  }
  return fields;
}

// What GGUF lists by layer and a plan takes as one: the widest feed-forward part. And a pattern of
// windows by layer, in the words of config.json.
void TranslateLists(Json& fields) {
  const auto widths = fields.find("feed_forward_length");
  if (widths != fields.end() && widths->is_array() && !widths->empty()) {
    *widths = *std::max_element(widths->begin(), widths->end());
  }
  const auto pattern = fields.find("attention.sliding_window_pattern");
  if (pattern == fields.end() || !pattern->is_array()) return;
  Json types = Json::array();
  for (const Json& is_sliding : *pattern) {
    types.push_back(is_sliding == 0 ? "full_attention" : "sliding_attention");
  }
  fields["layer_types"] = std::move(types);
  fields.erase("attention.sliding_window_pattern");
}

FileWeights WeightsIn(const gguf::ModelFile& file) {
  FileWeights weights;
  std::map<std::string_view, std::uint64_t> bytes_by_type;
  for (const gguf::Tensor& tensor : file.tensors()) {
    weights.stored_bytes += tensor.bytes();
    weights.parameters += tensor.elements();
    bytes_by_type[NameOf(tensor.dtype)] += tensor.bytes();
  }
  std::uint64_t most = 0;
  for (const auto& [name, bytes] : bytes_by_type) {
    if (bytes > most) weights.format = name;
    most = std::max(most, bytes);
  }
  return weights;
}

Result<Subject> SubjectOfConfig(const std::string& path) {
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const std::filesystem::path where(path);
  const std::string name = where.filename() == "config.json" && where.has_parent_path()
                               ? where.parent_path().filename().string()
                               : where.stem().string();
  ASHLAR_ASSIGN(Geometry geometry, ParseConfig(text, name, fmt::format("'{}'", path)));
  return Subject{.geometry = std::move(geometry), .source = "config"};
}

Result<Subject> SubjectOfFile(const std::string& path) {
  std::string head;
  {
    ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path));
    head.assign(reinterpret_cast<const char*>(file.bytes().data()),
                std::min<std::size_t>(file.bytes().size(), 64));
  }
  if (head.starts_with(kGgufMagic)) {
    ASHLAR_ASSIGN(const gguf::ModelFile file, gguf::ModelFile::Open(path));
    return SubjectOf(file, path);
  }
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && head[first] == '{') return SubjectOfConfig(path);
  return MakeError(ErrorCode::kUnsupported,
                   "'{}' is neither a GGUF file (it does not begin with GGUF) nor a config.json "
                   "(with a brace)",
                   path);
}

bool HasWeights(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") return true;
  }
  return false;
}

// With weights exactly as they are; of a model that this build does not read, and of a config.json
// alone, from its sizes.
Result<Subject> SubjectOfFolder(const std::filesystem::path& folder) {
  const std::string config = (folder / "config.json").string();
  if (!HasWeights(folder)) return SubjectOfConfig(config);
  const Result<gguf::ModelFile> file =
      hf::OpenFolder(folder.string(), hf::FolderParts::kWithoutText);
  if (file.ok()) return SubjectOf(*file, folder.string());
  if (file.error().code != ErrorCode::kUnsupported) return file.error();
  ASHLAR_ASSIGN(Subject subject, SubjectOfConfig(config));
  subject.geometry.notes.push_back(fmt::format(
      "this build does not run the model ({}); planned from its config", file.error().message));
  return subject;
}

bool LooksLikePath(const std::string& model) {
  return model.starts_with('/') || model.starts_with('.') || model.ends_with(".gguf") ||
         model.ends_with(".json");
}

}  // namespace

Result<Subject> FindSubject(const std::string& model, const Registry& registry) {
  std::error_code ignored;  // what cannot be asked about is not there
  const std::filesystem::path path(model);
  if (std::filesystem::is_directory(path, ignored)) {
    return SubjectOfFolder(path);
  }
  if (std::filesystem::exists(path, ignored) || LooksLikePath(model)) return SubjectOfFile(model);
  ASHLAR_ASSIGN(Geometry geometry, registry.Find(model));
  return Subject{.geometry = std::move(geometry), .source = "registry"};
}

Result<Geometry> GeometryOf(const gguf::ModelFile& file, const std::string& path) {
  ASHLAR_ASSIGN(const std::string_view architecture, file.String("general.architecture"));
  Json fields = FieldsOf(file, architecture);
  TranslateLists(fields);
  const gguf::Tensor* const embedding = file.FindTensor("token_embd.weight");
  if (embedding != nullptr && embedding->dims.size() == 2) {
    fields["vocab_size"] = embedding->dims[1];
  }
  fields["tie_word_embeddings"] = file.FindTensor("output.weight") == nullptr;
  return ReadConfig(fields, file.name(), fmt::format("'{}'", path));
}

Result<Subject> SubjectOf(const gguf::ModelFile& file, const std::string& path) {
  ASHLAR_ASSIGN(Geometry geometry, GeometryOf(file, path));
  Subject subject = {.geometry = std::move(geometry),
                     .source = file.version() > 0 ? "gguf" : file.format(),
                     .file_weights = WeightsIn(file)};
  Result<model::ModelConfig> config = model::ModelConfig::Read(file);
  const Result<std::uint64_t> loaded =
      config.ok() ? model::Weights::BytesOf(file, *config) : config.error();
  if (loaded.ok()) {
    subject.geometry.layers = model::LayersKvOf(*config);
    if (config->latent && subject.geometry.latent) {
      subject.geometry.latent->plain_dim = config->latent->plain_dim;
      subject.geometry.latent->value_dim = config->latent->value_dim;
      subject.geometry.head_dim = config->latent->plain_dim + config->rope_dims;
    }
    subject.file_weights->loaded_bytes = *loaded;
    subject.config = *std::move(config);
  } else {
    subject.file_weights->loaded_bytes = subject.file_weights->stored_bytes;
    subject.geometry.notes.push_back(
        fmt::format("this build does not run the model ({}); planned from its metadata",
                    loaded.error().message));
  }
  return subject;
}

}  // namespace ashlar::plan
