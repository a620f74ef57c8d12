#include "server/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <limits>

#include "server/field_reader.h"
#include "server/json.h"

namespace ashlar::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
// Where those of requests end, too (RequestLimits).
constexpr std::int64_t kMaxPriority = 1'000'000;
constexpr std::int64_t kMaxWeight = 1000;
// Exact as a double.
constexpr std::int64_t kMaxTokensPerMinute = std::int64_t{1} << 50;

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Status CheckTenantName(std::string_view name, std::string_view where, const ApiKeyLimits& limits) {
  const bool is_clean = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (is_clean && !name.empty() && name.size() <= limits.max_tenant_bytes) {
    return {};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: the tenant's name is missing or wrong; it has 1 to {} of the characters "
                   "a-z A-Z 0-9 . _ -",
                   where, limits.max_tenant_bytes);
}

Status CheckFieldNames(const Json& object, std::string_view where) {
  static constexpr std::array<std::string_view, 7> kKnown = {
      "name", "keys", "priority", "weight", "max_requests", "tokens_per_minute", "admin"};
  for (const auto& [name, value] : object.items()) {
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
      return MakeError(ErrorCode::kInvalidArgument, "{} has the field '{}'; it may have {}", where,
                       name.substr(0, 40), fmt::join(kKnown, ", "));
    }
  }
  return {};
}

}  // namespace

Result<ApiKeys> ApiKeys::Parse(std::string_view text, const ApiKeyLimits& limits) {
  ApiKeys keys;
  if (Trimmed(text).starts_with('{')) {
    ASHLAR_TRY(keys.ParseTenants(text, limits));
  } else {
    ASHLAR_TRY(keys.ParseLines(text, limits));
  }
  if (keys.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "there is no key; give a line KEY or TENANT:KEY for each");
  }
  return keys;
}

Status ApiKeys::ParseLines(std::string_view text, const ApiKeyLimits& limits) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const std::string where = fmt::format("line {}", number);
    const std::size_t colon = line.find(':');
    const bool is_owner = colon == std::string_view::npos;
    const std::string_view name = is_owner ? std::string_view() : Trimmed(line.substr(0, colon));
    if (!is_owner) {
      ASHLAR_TRY(CheckTenantName(name, where, limits));
    }
    std::shared_ptr<const Tenant>& tenant = tenants_[std::string(name)];
    if (tenant == nullptr) {
      tenant =
          std::make_shared<const Tenant>(Tenant{.name = std::string(name), .is_admin = is_owner});
    }
    ASHLAR_TRY(Add(is_owner ? line : Trimmed(line.substr(colon + 1)), tenant, where, limits));
  }
  return {};
}

Status ApiKeys::ParseTenants(std::string_view text, const ApiKeyLimits& limits) {
  const auto fail = [](std::string message) { return Error{ErrorCode::kInvalidArgument, message}; };
  const auto document = ParseJson(text);
  if (!document.ok()) {
    return fail(document.error().message);
  }
  FieldReader top(*document);
  Json list;
  top.Array("tenants", list);
  if (list.empty()) {
    top.Fail("tenants", "must be an array of objects with 'name' and 'keys'");
  }
  if (!top.ok()) {
    return fail(top.TakeError().message);
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tenants[{}]", i);
    FieldReader fields(list[i], where);
    Json keys;
    Tenant tenant;
    fields.String("name", tenant.name);
    fields.Array("keys", keys);
    fields.Integer("priority", -kMaxPriority, kMaxPriority, tenant.priority);
    fields.Integer("weight", 1, kMaxWeight, tenant.weight);
    fields.Integer("max_requests", 0, std::numeric_limits<std::int32_t>::max(),
                   tenant.max_requests);
    fields.Integer("tokens_per_minute", 0, kMaxTokensPerMinute, tenant.tokens_per_minute);
    fields.Boolean("admin", tenant.is_admin);
    if (!fields.ok()) {
      return fail(fields.TakeError().message);
    }
    ASHLAR_TRY(CheckFieldNames(list[i], where));
    ASHLAR_TRY(CheckTenantName(tenant.name, where, limits));
    if (tenants_.contains(tenant.name)) {
      return fail(fmt::format("{} has the name of an earlier one; give all its keys there", where));
    }
    if (keys.empty()) {
      return fail(fmt::format("{} has no keys; give an array of strings", where));
    }
    const auto shared = std::make_shared<const Tenant>(tenant);
    tenants_.emplace(tenant.name, shared);
    for (const Json& key : keys) {
      if (!key.is_string()) {
        return fail(fmt::format("'{}.keys' must be an array of strings", where));
      }
      ASHLAR_TRY(Add(key.get_ref<const std::string&>(), shared, where, limits));
    }
  }
  return {};
}

Status ApiKeys::Add(std::string_view key, const std::shared_ptr<const Tenant>& tenant,
                    std::string_view where, const ApiKeyLimits& limits) {
  const bool is_clean =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_clean || key.size() < limits.min_key_bytes || key.size() > limits.max_key_bytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: a key of {} bytes cannot be used; a key has {} to {} printable ASCII "
                     "characters without spaces, such as `openssl rand -hex 24` prints",
                     where, key.size(), limits.min_key_bytes, limits.max_key_bytes);
  }
  if (keys_.size() == limits.max_keys) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: there are more than {} keys", where,
                     limits.max_keys);
  }
  const Digest digest = DigestOf(key);
  if (std::any_of(keys_.begin(), keys_.end(),
                  [&](const Key& other) { return other.digest == digest; })) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: the key is given twice", where);
  }
  keys_.push_back({.digest = digest, .tenant = tenant});
  return {};
}

std::shared_ptr<const Tenant> ApiKeys::Find(std::string_view key) const {
  const Digest digest = DigestOf(key);
  const std::shared_ptr<const Tenant>* found = nullptr;
  for (const Key& known : keys_) {  // all of them, whether one was right or not
    if (CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) {
      found = &known.tenant;
    }
  }
  return found != nullptr ? *found : nullptr;
}

ApiKeys::Digest ApiKeys::DigestOf(std::string_view key) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

}  // namespace ashlar::server
