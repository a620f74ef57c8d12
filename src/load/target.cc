#include "load/target.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ashlar::load {
namespace {

constexpr std::size_t kMaxUrlBytes = 2000;

Error Wrong(std::string_view url, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "the URL '{}' {}; it must be like http://127.0.0.1:8080 or https://host/path",
                   url.substr(0, 200), what);
}

std::optional<std::uint16_t> PortOf(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::string Target::authority() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Target> ParseTarget(std::string_view url) {
  Target target;
  std::string_view rest = url;
  if (url.size() > kMaxUrlBytes ||
      std::ranges::any_of(url, [](char c) { return c <= ' ' || c > '~'; })) {
    return Wrong(url, "is too long, or has characters that no URL has");
  }
  if (const std::size_t scheme = rest.find("://"); scheme != rest.npos) {
    target.is_tls = rest.substr(0, scheme) == "https";
    if (!target.is_tls && rest.substr(0, scheme) != "http") {
      return Wrong(url, "is neither http nor https");
    }
    rest.remove_prefix(scheme + 3);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  if (authority.find('@') != authority.npos || path.find_first_of("?#") != path.npos) {
    return Wrong(url, "has a user, a query or a fragment");
  }
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  while (path.ends_with('/')) path.remove_suffix(1);
  target.root = path;

  target.port = target.is_tls ? 443 : 80;
  std::string_view after_host;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == authority.npos) return Wrong(url, "has a '[' without ']'");
    target.host = authority.substr(1, end - 1);
    after_host = authority.substr(end + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    target.host = authority.substr(0, colon);
    after_host = authority.substr(colon);
  }
  if (target.host.empty()) return Wrong(url, "names no host");
  if (!after_host.empty()) {
    const auto port = PortOf(after_host.substr(1));
    if (after_host.front() != ':' || !port) return Wrong(url, "has no port from 1 to 65535");
    target.port = *port;
  }
  return target;
}

}  // namespace ashlar::load
