// Who may ask, and as whom: the keys of --api-key-file.
//
// The file is either lines or JSON. Lines, '#' begins a comment:
//
//   KEY            a key of whoever runs the server: may do everything
//   TENANT:KEY     a key of a tenant; several lines may name the same one
//
// JSON, where tenants also have a priority and quotas (all but name and keys may be left out):
//
//   {"tenants": [{"name": "acme", "keys": ["KEY", ...], "priority": 0, "weight": 1,
//                 "max_requests": 8, "tokens_per_minute": 100000, "admin": false}]}
//
// Keys are kept as SHA-256 digests and compared without telling by the time taken how much of one
// was right. Immutable: any number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::server {

struct Tenant {
  std::string name;  // empty: whoever runs the server
  // Of requests that ask for none; lower is more urgent. They may ask for less, not for more.
  std::int32_t priority = 0;
  std::uint32_t weight = 1;      // of equal priority, tenants share what is computed by weight
  std::size_t max_requests = 0;  // at once; 0: as many as the server takes
  std::uint64_t tokens_per_minute = 0;  // prompt and completion; 0: any number
  bool is_admin = false;                // may use the routes that change the server for all
};

struct ApiKeyLimits {
  std::size_t max_keys = 4096;  // all are compared for every request, some 30 ns each
  std::size_t min_key_bytes = 16;
  std::size_t max_key_bytes = 512;
  std::size_t max_tenant_bytes = 128;
};

class ApiKeys {
 public:
  // No keys: everybody is the one who runs the server.
  ApiKeys() = default;

  // Errors: kInvalidArgument, naming the line or field and what would be right, but never a key.
  static Result<ApiKeys> Parse(std::string_view text, const ApiKeyLimits& limits = {});

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  std::size_t tenants() const { return tenants_.size(); }

  // Whose key this is; null: nobody's.
  std::shared_ptr<const Tenant> Find(std::string_view key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest;
    std::shared_ptr<const Tenant> tenant;
  };

  static Digest DigestOf(std::string_view key);
  Status ParseLines(std::string_view text, const ApiKeyLimits& limits);
  Status ParseTenants(std::string_view text, const ApiKeyLimits& limits);
  // `where` names the place in messages.
  Status Add(std::string_view key, const std::shared_ptr<const Tenant>& tenant,
             std::string_view where, const ApiKeyLimits& limits);

  std::map<std::string, std::shared_ptr<const Tenant>, std::less<>> tenants_;  // by name
  std::vector<Key> keys_;
};

}  // namespace ashlar::server
