#include "server/doorkeeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ashlar::server {
namespace {

constexpr std::string_view kScheme = "bearer ";
// How long browsers remember an answer to a preflight.
constexpr std::string_view kPreflightSeconds = "600";
// How much of a header an error repeats.
constexpr std::size_t kMaxShownBytes = 200;
// Domains that are never public: RFC 6761, RFC 6762, and ICANN's for private use.
constexpr auto kPrivateDomains =
    std::to_array<std::string_view>({"localhost", "local", "internal"});

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char want, char got) {
           return want == (got >= 'A' && got <= 'Z' ? static_cast<char>(got - 'A' + 'a') : got);
         });
}

// "host:port" of "https://host:port"; empty where there is none.
std::string_view HostOf(std::string_view origin) {
  const std::size_t slashes = origin.find("://");
  return slashes == std::string_view::npos ? std::string_view() : origin.substr(slashes + 3);
}

// "https://host:port" is the page's own server when Host is "host:port".
bool IsSameOrigin(std::string_view origin, std::string_view host) {
  return !host.empty() && HostOf(origin) == host;
}

// "[::1]:8080" as it is: names have no brackets.
std::string_view WithoutPort(std::string_view host) {
  return host.starts_with('[') ? host : host.substr(0, host.find(':'));
}

// An address, or a name of this machine or its network: nobody else can make it lead elsewhere.
bool IsOwnName(std::string_view name) {
  if (name.starts_with('[') || name.find_first_not_of("0123456789.") == std::string_view::npos) {
    return true;
  }
  const std::string_view domain = name.substr(name.rfind('.') + 1);
  return std::any_of(kPrivateDomains.begin(), kPrivateDomains.end(), [&](std::string_view mine) {
    return domain.size() == mine.size() && StartsWithIgnoringCase(domain, mine);
  });
}

// Empty without one.
std::string_view KeyOf(const net::HttpRequest& request) {
  std::string_view header = request.Header("authorization");
  if (!StartsWithIgnoringCase(header, kScheme)) {
    return {};
  }
  header.remove_prefix(kScheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

Doorkeeper::Doorkeeper(ApiKeys keys, std::vector<std::string> cors_origins, bool is_on_loopback)
    : keys_(std::move(keys)),
      cors_origins_(std::move(cors_origins)),
      is_on_loopback_(is_on_loopback),
      owner_(std::make_shared<const Tenant>(Tenant{.is_admin = true})) {}

bool Doorkeeper::IsAllowed(std::string_view origin) const {
  return !origin.empty() && std::any_of(cors_origins_.begin(), cors_origins_.end(),
                                        [origin](const std::string& allowed) {
                                          return allowed == "*" || allowed == origin;
                                        });
}

void Doorkeeper::AddCorsHeaders(const net::HttpRequest& request,
                                const net::Responder& responder) const {
  if (cors_origins_.empty()) {
    return;
  }
  responder.AddHeader("Vary", "Origin");
  if (const std::string_view origin = request.Header("origin"); IsAllowed(origin)) {
    responder.AddHeader("Access-Control-Allow-Origin", origin);
    responder.AddHeader("Access-Control-Expose-Headers", "Retry-After, X-Request-Id");
  }
}

std::optional<net::HttpResponse> Doorkeeper::Preflight(const net::HttpRequest& request,
                                                       std::string_view methods) const {
  const bool is_preflight =
      request.method == "OPTIONS" && !request.Header("access-control-request-method").empty();
  if (!is_preflight || !IsAllowed(request.Header("origin"))) {
    return std::nullopt;
  }
  net::HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", std::string(methods)},
                      {"Access-Control-Max-Age", std::string(kPreflightSeconds)}};
  if (const auto wanted = request.Header("access-control-request-headers"); !wanted.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted);
  }
  return response;
}

// With keys there is nothing to guard: a page does not know one.
std::optional<ApiError> Doorkeeper::CheckHost(const net::HttpRequest& request) const {
  const std::string_view name = WithoutPort(request.Header("host"));
  if (!is_on_loopback_ || !keys_.empty() || IsOwnName(name) ||
      std::any_of(cors_origins_.begin(), cors_origins_.end(), [&](std::string_view allowed) {
        return allowed == "*" || WithoutPort(HostOf(allowed)) == name;
      })) {
    return std::nullopt;
  }
  const std::string shown(name.substr(0, kMaxShownBytes));
  return ApiError{.status = 403,
                  .message = fmt::format("this server asks for no key and serves this machine, so "
                                         "it does not answer to the name '{}': use localhost; or "
                                         "let it by --cors-origin http://{}, or by giving it keys",
                                         shown, shown),
                  .code = "host_not_allowed"};
}

std::optional<ApiError> Doorkeeper::CheckOrigin(const net::HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (request.method != "POST" || origin.empty() || IsAllowed(origin) ||
      IsSameOrigin(origin, request.Header("host"))) {
    return std::nullopt;
  }
  return ApiError{.status = 403,
                  .message = fmt::format("web pages of '{}' may not use this server; "
                                         "--cors-origin lets those of an origin",
                                         origin.substr(0, kMaxShownBytes)),
                  .code = "origin_not_allowed"};
}

ApiResult<std::shared_ptr<const Tenant>> Doorkeeper::Check(const net::HttpRequest& request,
                                                           Access access) const {
  if (auto error = CheckHost(request)) {
    return *std::move(error);
  }
  if (auto error = CheckOrigin(request)) {
    return *std::move(error);
  }
  if (access == Access::kAnybody || keys_.empty()) {
    return owner_;
  }
  const std::string_view key = KeyOf(request);
  if (key.empty()) {
    return ApiError{.status = 401,
                    .message =
                        "this server needs an API key; send the header 'Authorization: "
                        "Bearer KEY'",
                    .code = "invalid_api_key"};
  }
  std::shared_ptr<const Tenant> tenant = keys_.Find(key);
  if (tenant == nullptr) {
    return ApiError{.status = 401,
                    .message = "the API key in 'Authorization' is not one of this server's",
                    .code = "invalid_api_key"};
  }
  if (access == Access::kAdmin && !tenant->is_admin) {
    return ApiError{.status = 403,
                    .message = fmt::format("{} is for whoever runs the server; the key of tenant "
                                           "'{}' may not use it",
                                           request.path, tenant->name),
                    .code = "not_allowed"};
  }
  return tenant;
}

}  // namespace ashlar::server
