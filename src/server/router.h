// Which code answers a request: routes by method and path, what each may be asked by whom, and the
// answers where there is no route. Gives every request its id.
//
// Filled at start, then read only: Handle may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"
#include "server/doorkeeper.h"
#include "server/reply.h"
#include "server/request_record.h"

namespace ashlar::server {

struct Route {
  std::string_view method;  // "GET", which answers HEAD too, or "POST"
  std::string_view path;    // "/v1/models", or "/v1/models/{id}": anything behind the last '/'
  Access access = Access::kTenant;
  bool is_routine = false;  // asked again and again: logged at debug level
  // On an io thread: must not block.
  std::function<void(net::HttpRequest request, const Reply& reply)> handle;

  bool has_rest() const { return path.ends_with('}'); }
  // "/v1/models/" of "/v1/models/{id}".
  std::string_view fixed() const { return path.substr(0, path.rfind('{')); }
  bool Matches(std::string_view asked) const;
  // What of an asked path stands for "{id}", percent-decoded. Precondition: has_rest().
  std::string RestOf(std::string_view asked) const;
};

inline constexpr std::size_t kMaxRequestIdBytes = 128;

class Router {
 public:
  // `clock` must outlive every request; `observer` may be null.
  explicit Router(const Clock& clock, std::shared_ptr<RequestObserver> observer = nullptr,
                  Doorkeeper doorkeeper = Doorkeeper());
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  void Add(Route route) { routes_.push_back(std::move(route)); }
  const std::vector<Route>& routes() const { return routes_; }

  // For net::HttpServerOptions::refuse_head: who may not ask is told before the body is read.
  std::optional<net::HttpResponse> RefuseHead(const net::HttpRequest& head) const;

  // The net::HttpHandler.
  void Handle(net::HttpRequest request, const net::Responder& responder);

 private:
  std::string IdFor(const net::HttpRequest& request);
  // nullptr: none; `allowed` then has the methods of the path, if it is there at all.
  const Route* Find(const net::HttpRequest& request, std::string& allowed) const;

  // 404, 405, OPTIONS.
  void AnswerWithoutRoute(const net::HttpRequest& request, const std::string& allowed,
                          const Reply& reply) const;

  const Clock& clock_;
  const std::shared_ptr<RequestObserver> observer_;
  const Doorkeeper doorkeeper_;
  const std::uint64_t random_;
  std::atomic<std::uint64_t> requests_{0};
  std::vector<Route> routes_;
};

// "%2F" -> "/"; what is no escape stays.
std::string PercentDecode(std::string_view text);

}  // namespace ashlar::server
