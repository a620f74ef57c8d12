#include "pull/hub.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

namespace ashlar::pull {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxListingBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::size_t kShown = 20;

// "a-00002-of-00003.gguf" is part 2 of 3 of "a".
struct Part {
  std::string_view stem;
  std::string_view count;
};
std::optional<Part> PartOf(std::string_view path) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kPattern.size());
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool is_digit = end[i] >= '0' && end[i] <= '9';
    if (kPattern[i] == '0' ? !is_digit : end[i] != kPattern[i]) return std::nullopt;
  }
  return Part{.stem = path.substr(0, path.size() - kPattern.size()), .count = end.substr(10, 5)};
}

std::string Shown(const std::vector<std::string_view>& names) {
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kShown, ", "),
                     names.size() - kShown);
}

// The files of a model in safetensors, config.json first; none when there is no such model. Weights
// are those called model..., or if there are none, all: some repositories have them in two layouts.
std::vector<HubFile> SafetensorsModel(const std::vector<HubFile>& files) {
  constexpr std::array<std::string_view, 6> kBeside = {
      "tokenizer.json",         "tokenizer_config.json", "chat_template.jinja",
      "generation_config.json", "quantize_config.json",  "model.safetensors.index.json"};
  std::vector<HubFile> model;
  std::vector<HubFile> weights;
  for (const HubFile& file : files) {
    if (file.path == "config.json") model.insert(model.begin(), file);
    if (std::ranges::find(kBeside, file.path) != kBeside.end()) model.push_back(file);
    const bool is_weights =
        file.path.ends_with(".safetensors") && file.path.find('/') == std::string::npos;
    if (is_weights) weights.push_back(file);
  }
  const auto is_model = [](const HubFile& file) { return file.path.starts_with("model"); };
  if (std::ranges::any_of(weights, is_model)) std::erase_if(weights, std::not_fn(is_model));
  if (model.empty() || model[0].path != "config.json" || weights.empty()) return {};
  std::ranges::sort(weights, {}, &HubFile::path);
  model.insert(model.end(), weights.begin(), weights.end());
  return model;
}

// Percent-encodes what may not stand in a URL's path; slashes stay.
std::string Encoded(std::string_view path) {
  std::string encoded;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// One entry of a listing; nothing for folders.
Result<std::optional<HubFile>> ParseEntry(const Json& entry) {
  const auto wrong = [&](std::string_view what) {
    return MakeError(ErrorCode::kCorrupt, "the hub's listing has {}: {}", what,
                     entry.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 200));
  };
  if (!entry.is_object() || !entry.contains("type") || !entry["type"].is_string()) {
    return wrong("an entry without type");
  }
  if (entry["type"] != "file") return std::optional<HubFile>();
  const auto path = entry.find("path");
  const auto size = entry.find("size");
  if (path == entry.end() || !path->is_string() || size == entry.end() ||
      !size->is_number_unsigned()) {
    return wrong("a file without path and size");
  }
  HubFile file{.path = path->get<std::string>(), .bytes = size->get<std::uint64_t>(), .sha256 = {}};
  if (!IsPlainPath(file.path)) return wrong("a path that leads elsewhere");
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    const auto digest = lfs->find("oid");
    if (digest == lfs->end() || !digest->is_string() || !IsSha256(digest->get<std::string>())) {
      return wrong("a large file without SHA-256");
    }
    file.sha256 = digest->get<std::string>();
  }
  return std::optional(std::move(file));
}

}  // namespace

Result<std::vector<HubFile>> ParseListing(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() > kMaxFiles) {
    return MakeError(ErrorCode::kCorrupt, "the hub's listing is no array of files: {}",
                     text.substr(0, 200));
  }
  std::vector<HubFile> files;
  files.reserve(json.size());
  for (const Json& entry : json) {
    ASHLAR_ASSIGN(std::optional<HubFile> file, ParseEntry(entry));
    if (file) files.push_back(*std::move(file));
  }
  return files;
}

Result<std::vector<HubFile>> ListFiles(HttpClient& client, const Hub& hub,
                                       const HubSource& source) {
  const std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true", hub.endpoint,
                                      source.repository, Encoded(source.revision));
  ASHLAR_ASSIGN(const std::string text,
                client.GetText({.url = url, .bearer = hub.token}, kMaxListingBytes));
  return ParseListing(text);
}

Result<std::vector<HubFile>> ChooseFiles(const std::vector<HubFile>& files,
                                         const HubSource& source) {
  const auto of_part = [&](const HubFile& first) {
    std::vector<HubFile> chosen;
    const std::optional<Part> part = PartOf(first.path);
    std::ranges::copy_if(files, std::back_inserter(chosen), [&](const HubFile& file) {
      const std::optional<Part> other = PartOf(file.path);
      return part ? other && other->stem == part->stem && other->count == part->count
                  : file.path == first.path;
    });
    std::ranges::sort(chosen, {}, &HubFile::path);
    return chosen;
  };
  std::vector<std::string_view> models;
  const HubFile* found = nullptr;
  std::vector<HubFile> folder = SafetensorsModel(files);
  if (source.file == "config.json" && !folder.empty()) return folder;
  for (const HubFile& file : files) {
    const std::optional<Part> part = PartOf(file.path);
    const bool begins = !part || file.path.ends_with(fmt::format("-00001-of-{}.gguf", part->count));
    if (file.path.ends_with(".gguf") && begins) models.push_back(file.path);
    if (source.file.empty() ? !models.empty() && models.back() == file.path
                            : file.path == source.file) {
      found = &file;
    }
  }
  if (!source.file.empty()) {
    if (found != nullptr) return of_part(*found);
    return MakeError(ErrorCode::kNotFound, "{} has no file '{}'; its GGUF models: {}",
                     source.repository, source.file, models.empty() ? "none" : Shown(models));
  }
  if (models.size() == 1) return of_part(*found);
  if (models.empty()) {
    if (!folder.empty()) return folder;
    return MakeError(
        ErrorCode::kNotFound,
        "{} has no GGUF model and no safetensors with a config.json among its {} files",
        source.repository, files.size());
  }
  return MakeError(ErrorCode::kInvalidArgument, "{} has {} models; name one, hf:{}:FILE, of {}",
                   source.repository, models.size(), source.repository, Shown(models));
}

std::string UrlOf(const Hub& hub, const HubSource& source, std::string_view path) {
  return fmt::format("{}/{}/resolve/{}/{}", hub.endpoint, source.repository,
                     Encoded(source.revision), Encoded(path));
}

}  // namespace ashlar::pull
