#include "hf/shards.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "gguf/describe.h"
#include "hf/json.h"

namespace ashlar::hf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kFileName = "model.safetensors";
constexpr std::string_view kExtension = ".safetensors";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;

// Which file has a tensor, as the index has it.
using Places = std::map<std::string, std::string, std::less<>>;

bool IsFileOfFolder(std::string_view name) {
  return name.size() > kExtension.size() && name.size() <= 255 && name.ends_with(kExtension) &&
         name.find('/') == name.npos && name.find('\0') == name.npos && !name.starts_with('.');
}

Result<Places> PlacesIn(const Json& json) {
  const std::string& where = json.name();
  const auto value = FieldOf(json.root(), "weight_map");
  const auto map = value ? ObjectIn(*value) : std::nullopt;
  if (!map) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': weight_map is {}; an object of tensors and their files is needed",
                     where, value ? Shown(*value) : "missing");
  }
  Places places;
  for (const auto field : *map) {
    const auto file = TextIn(field.value);
    if (!file || !IsFileOfFolder(*file)) {
      return MakeError(ErrorCode::kCorrupt,
                       "'{}': tensor {} is in {}; the name of a {} file of the same folder is "
                       "needed",
                       where, gguf::Quote(field.key), Shown(field.value), kExtension);
    }
    if (!places.emplace(field.key, *file).second) {
      return MakeError(ErrorCode::kCorrupt, "'{}' has tensor {} twice", where,
                       gguf::Quote(field.key));
    }
  }
  return places;
}

Result<std::vector<std::string>> FilesOf(const Places& places, const std::string& where) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : places) names.insert(file);
  if (names.empty() || names.size() > kMaxShards) {
    return MakeError(ErrorCode::kCorrupt, "'{}' names {} files; 1 to {} are read", where,
                     names.size(), kMaxShards);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

// The file of a folder without an index.
Result<fs::path> OnlyFile(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / kFileName, error)) return folder / kFileName;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kExtension) found.push_back(it->path());
  }
  if (found.size() == 1) return found[0];
  return MakeError(ErrorCode::kNotFound,
                   "'{}' has neither {} nor {}, and {} other {} files; one of these is needed",
                   folder.string(), kIndexName, kFileName, found.size(), kExtension);
}

// Opens one file and takes its tensors.
Status Add(const fs::path& path, Shards& shards) {
  ASHLAR_ASSIGN(MappedFile file, MappedFile::Open(path.string()));
  ASHLAR_ASSIGN(std::vector<StoredTensor> tensors, ParseTensors(file.bytes(), path.string()));
  shards.paths.push_back(path.string());
  shards.files.push_back(std::move(file));
  shards.tensors.insert(shards.tensors.end(), std::make_move_iterator(tensors.begin()),
                        std::make_move_iterator(tensors.end()));
  return {};
}

// Every tensor is where the index has it, and in no other file.
class IndexCheck {
 public:
  IndexCheck(const Places& places, const std::string& where) : places_(places), where_(where) {}

  Status Take(const std::string& file, std::span<const StoredTensor> tensors) {
    for (const StoredTensor& tensor : tensors) {
      const auto place = places_.find(tensor.name);
      if (place == places_.end() || place->second != file) {
        return MakeError(ErrorCode::kCorrupt, "tensor {} is in '{}'; '{}' has it {}",
                         gguf::Quote(tensor.name), file, where_,
                         place == places_.end() ? "nowhere" : "in " + gguf::Quote(place->second));
      }
    }
    for (const StoredTensor& tensor : tensors) names_.insert(tensor.name);
    return {};
  }
  Status AllThere() const {
    for (const auto& [tensor, file] : places_) {
      if (!names_.contains(tensor)) {
        return MakeError(ErrorCode::kCorrupt, "'{}' has tensor {} in {}, where it is not", where_,
                         gguf::Quote(tensor), gguf::Quote(file));
      }
    }
    return {};
  }

 private:
  const Places& places_;
  const std::string& where_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

Result<std::vector<std::string>> FilesOfIndex(std::string_view text, const std::string& where) {
  ASHLAR_ASSIGN(const Json json, Json::Parse(text, where));
  ASHLAR_ASSIGN(const Places places, PlacesIn(json));
  return FilesOf(places, where);
}

Result<Shards> OpenShards(const fs::path& folder) {
  Shards shards;
  std::error_code error;
  const fs::path index = folder / kIndexName;
  if (!fs::exists(index, error)) {
    ASHLAR_ASSIGN(const fs::path file, OnlyFile(folder));
    ASHLAR_TRY(Add(file, shards));
    return shards;
  }
  const std::string where = index.string();
  ASHLAR_ASSIGN(const Json json, Json::Read(where, kMaxIndexBytes));
  ASHLAR_ASSIGN(const Places places, PlacesIn(json));
  ASHLAR_ASSIGN(const std::vector<std::string> names, FilesOf(places, where));
  IndexCheck check(places, where);
  for (const std::string& name : names) {
    const std::size_t before = shards.tensors.size();
    ASHLAR_TRY(Add(folder / name, shards));
    ASHLAR_TRY(check.Take(name, std::span(shards.tensors).subspan(before)));
  }
  ASHLAR_TRY(check.AllThere());
  return shards;
}

}  // namespace ashlar::hf
