#include "server/doorkeeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ashlar::server {
namespace {

constexpr std::string_view kScheme = "bearer ";
// How long browsers remember an answer to a preflight.
constexpr std::string_view kPreflightSeconds = "600";

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char want, char got) {
           return want == (got >= 'A' && got <= 'Z' ? static_cast<char>(got - 'A' + 'a') : got);
         });
}

// "https://host:port" is the page's own server when Host is "host:port".
bool IsSameOrigin(std::string_view origin, std::string_view host) {
  const std::size_t slashes = origin.find("://");
  return slashes != std::string_view::npos && !host.empty() && origin.substr(slashes + 3) == host;
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

Doorkeeper::Doorkeeper(ApiKeys keys, std::vector<std::string> cors_origins)
    : keys_(std::move(keys)),
      cors_origins_(std::move(cors_origins)),
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

std::optional<ApiError> Doorkeeper::CheckOrigin(const net::HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (request.method != "POST" || origin.empty() || IsAllowed(origin) ||
      IsSameOrigin(origin, request.Header("host"))) {
    return std::nullopt;
  }
  constexpr std::size_t kMaxShownBytes = 200;
  return ApiError{.status = 403,
                  .message = fmt::format("web pages of '{}' may not use this server; "
                                         "--cors-origin lets those of an origin",
                                         origin.substr(0, kMaxShownBytes)),
                  .code = "origin_not_allowed"};
}

ApiResult<std::shared_ptr<const Tenant>> Doorkeeper::Check(const net::HttpRequest& request,
                                                           Access access) const {
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
