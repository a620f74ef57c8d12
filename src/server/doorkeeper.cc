#include "server/doorkeeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ashlar::server {
namespace {

constexpr std::string_view kScheme = "bearer ";
// How long browsers remember an answer to a preflight.
constexpr std::string_view kPreflightSeconds = "600";
// How much of a header an error repeats.
constexpr std::size_t kMaxShownBytes = 200;

char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerCase(x) == LowerCase(y); });
}

// "https://host:port" is the page's own server when Host is "host:port".
bool IsSameOrigin(std::string_view origin, std::string_view host) {
  const std::size_t slashes = origin.find("://");
  return slashes != std::string_view::npos && !host.empty() && origin.substr(slashes + 3) == host;
}

// The name in a Host header: without its port and the dot that may end it. "[::1]:80" as it is.
std::string_view NameOf(std::string_view host) {
  if (host.starts_with('[')) return host;
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

// An address, a name under localhost (RFC 6761), or none (HTTP/1.0).
bool LeadsToWhatItSays(std::string_view name) {
  constexpr std::string_view kLocalhost = "localhost";
  return name.starts_with('[') || name.find_first_not_of("0123456789.") == std::string_view::npos ||
         EqualsIgnoringCase(name.substr(name.rfind('.') + 1), kLocalhost);
}

// Empty without one.
std::string_view KeyOf(const net::HttpRequest& request) {
  std::string_view header = request.Header("authorization");
  if (!EqualsIgnoringCase(header.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  header.remove_prefix(kScheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

Doorkeeper::Doorkeeper(ApiKeys keys, DoorkeeperOptions options)
    : keys_(std::move(keys)),
      options_(std::move(options)),
      owner_(std::make_shared<const Tenant>(Tenant{.is_admin = true})) {}

bool Doorkeeper::IsAllowed(std::string_view origin) const {
  return !origin.empty() && std::any_of(options_.cors_origins.begin(), options_.cors_origins.end(),
                                        [origin](const std::string& allowed) {
                                          return allowed == "*" || allowed == origin;
                                        });
}

void Doorkeeper::AddCorsHeaders(const net::HttpRequest& request,
                                const net::Responder& responder) const {
  if (options_.cors_origins.empty()) {
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

std::optional<ApiError> Doorkeeper::CheckHost(const net::HttpRequest& request) const {
  const std::string_view name = NameOf(request.Header("host"));
  if (!options_.hosts.has_value() || LeadsToWhatItSays(name) ||
      std::any_of(options_.hosts->begin(), options_.hosts->end(),
                  [&](std::string_view host) { return EqualsIgnoringCase(host, name); })) {
    return std::nullopt;
  }
  const std::string_view shown = name.substr(0, kMaxShownBytes);
  return ApiError{.status = 403,
                  .message = fmt::format("this server does not answer to the name '{}'; use its "
                                         "address or localhost, or start it with --allowed-host {}",
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
