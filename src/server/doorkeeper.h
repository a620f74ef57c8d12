// What is asked of a request before it is looked at: what name it came by, where its web page comes
// from, and its key.
//
// Browsers send an Origin with what a page asks of another site. Answers are readable for pages of
// the origins that --cors-origin names, and POSTs of pages from anywhere else are refused: without
// that, any page could use a server that its reader runs on the loopback address without keys.
// A page that makes its own name lead to that address (DNS rebinding) is, for the browser, of the
// server's origin; but its requests still say the name, and where `hosts` are given a name that is
// not among them is refused.
//
// Immutable: any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_server.h"
#include "server/api_error.h"
#include "server/api_keys.h"

namespace ashlar::server {

// Who may ask, where API keys are in use.
enum class Access : std::uint8_t {
  kAnybody,  // says nothing about anybody: /health, /version
  kTenant,   // any key
  kAdmin,    // shows or changes the whole server: a key that may
};

struct DoorkeeperOptions {
  std::vector<std::string> cors_origins = {};  // such as "https://chat.example.org"; "*" for all
  // Names by which requests may come, without ports, beside addresses and localhost, which nobody
  // can make lead elsewhere. None: any name.
  std::optional<std::vector<std::string>> hosts = {};
};

class Doorkeeper {
 public:
  // Without keys it lets everybody in; it shows pages of other origins nothing.
  explicit Doorkeeper(ApiKeys keys = {}, DoorkeeperOptions options = {});

  // Adds what browsers need to know to the answer to come.
  void AddCorsHeaders(const net::HttpRequest& request, const net::Responder& responder) const;

  // The answer to a browser that asks whether a page may ask; none for other requests. `methods`:
  // of the path.
  std::optional<net::HttpResponse> Preflight(const net::HttpRequest& request,
                                             std::string_view methods) const;

  // Who asks; never null. Errors: 401 without a key that is known, 403 where the key, the page or
  // the name may not.
  ApiResult<std::shared_ptr<const Tenant>> Check(const net::HttpRequest& request,
                                                 Access access) const;

 private:
  bool IsAllowed(std::string_view origin) const;
  std::optional<ApiError> CheckHost(const net::HttpRequest& request) const;
  std::optional<ApiError> CheckOrigin(const net::HttpRequest& request) const;

  const ApiKeys keys_;
  const DoorkeeperOptions options_;
  const std::shared_ptr<const Tenant> owner_;  // everybody, where no key is asked for
};

}  // namespace ashlar::server
