#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "base/rng.h"
#include "server/api_error.h"

namespace ashlar::server {
namespace {

constexpr std::string_view kNoRoute = "other";

// A client's own id goes into logs and heads as it is, so it is a short word or none.
bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.' || c == ':';
         });
}

}  // namespace

std::string PercentDecode(std::string_view text) {
  const auto hex = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool Route::Matches(std::string_view asked) const {
  return has_rest() ? asked.starts_with(fixed()) : asked == path;
}

std::string Route::RestOf(std::string_view asked) const {
  return PercentDecode(asked.substr(fixed().size()));
}

Router::Router(const Clock& clock, std::shared_ptr<RequestObserver> observer, Doorkeeper doorkeeper)
    : clock_(clock),
      observer_(std::move(observer)),
      doorkeeper_(std::move(doorkeeper)),
      random_((static_cast<std::uint64_t>(std::random_device()()) << 32) ^ std::random_device()()) {
}

std::string Router::IdFor(const net::HttpRequest& request) {
  const std::string_view given = request.Header("x-request-id");
  if (IsRequestId(given)) return std::string(given);
  const std::uint64_t number = requests_++;
  return fmt::format("req-{:016x}{:08x}", RandomBits(random_, 0, number), number);
}

const Route* Router::Find(const net::HttpRequest& request, std::string& allowed) const {
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  for (const Route& route : routes_) {
    if (!route.Matches(request.path)) continue;
    if (route.method == method) return &route;
    allowed += route.method;
    allowed += route.method == "GET" ? ", HEAD, " : ", ";
  }
  if (!allowed.empty()) allowed += "OPTIONS";
  return nullptr;
}

std::optional<net::HttpResponse> Router::RefuseHead(const net::HttpRequest& head) const {
  std::string allowed;
  const Route* const route = Find(head, allowed);
  const auto caller = doorkeeper_.Check(head, route != nullptr ? route->access : Access::kAnybody);
  return caller.ok() ? std::nullopt : std::optional(ErrorResponse(caller.error()));
}

void Router::Handle(net::HttpRequest request, const net::Responder& responder) {
  std::string allowed;
  const Route* const route = Find(request, allowed);
  auto record = std::make_unique<RequestRecord>();
  record->id = IdFor(request);
  record->route = route != nullptr ? route->path : kNoRoute;
  record->method = request.method;
  record->is_routine = route != nullptr && route->is_routine;
  record->started_ns = clock_.NowNs();
  doorkeeper_.AddCorsHeaders(request, responder);
  auto caller = doorkeeper_.Check(request, route != nullptr ? route->access : Access::kAnybody);
  if (caller.ok()) {
    record->caller = *caller;
    record->tenant = record->caller->name;
  }
  const Reply reply(responder, std::move(record), clock_, observer_);
  if (!caller.ok()) {
    reply.Send(ErrorResponse(caller.error()));
  } else if (route != nullptr) {
    route->handle(std::move(request), reply);
  } else {
    AnswerWithoutRoute(request, allowed, reply);
  }
}

void Router::AnswerWithoutRoute(const net::HttpRequest& request, const std::string& allowed,
                                const Reply& reply) const {
  if (allowed.empty()) {
    reply.Send(ErrorResponse({.status = 404,
                              .message = fmt::format("no such path: {} {}; the API is under /v1",
                                                     request.method, request.path),
                              .code = "not_found"}));
    return;
  }
  if (auto preflight = doorkeeper_.Preflight(request, allowed)) {
    reply.Send(*std::move(preflight));
    return;
  }
  net::HttpResponse response;
  response.status = 204;
  if (request.method != "OPTIONS") {
    response = ErrorResponse(
        {.status = 405,
         .message = fmt::format("{} is not for {}; use {}", request.path, request.method, allowed),
         .code = "method_not_allowed"});
  }
  response.headers.emplace_back("Allow", allowed);
  reply.Send(std::move(response));
}

}  // namespace ashlar::server
