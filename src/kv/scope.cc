#include "kv/scope.h"

#include <openssl/evp.h>

namespace ashlar::kv {
namespace {

constexpr std::string_view kDomain = "ashlar scope 1";

// Part of the canonical bytes: never renumbered.
enum class Tag : std::uint8_t {
  kModel = 1,
  kEpoch = 2,
  kCodec = 3,
  kLayout = 4,
  kSalt = 5,
  kAdapter = 6,
};

template <typename Integer>
std::string LittleEndian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
  return bytes;
}

void AppendField(std::string& bytes, Tag tag, std::string_view value) {
  bytes.push_back(static_cast<char>(tag));
  bytes += LittleEndian<std::uint64_t>(value.size());
  bytes += value;
}

Status ValidateField(ScopeDifference field, std::string_view value) {
  if (value.size() <= kMaxScopeFieldBytes) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} of the scope has {} bytes; at most {} are allowed", NameOf(field),
                   value.size(), kMaxScopeFieldBytes);
}

}  // namespace

std::string HexOf(std::span<const std::uint8_t> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    hex.push_back("0123456789abcdef"[byte >> 4]);
    hex.push_back("0123456789abcdef"[byte & 15]);
  }
  return hex;
}

Status Validate(const Scope& scope) {
  ASHLAR_TRY(ValidateField(ScopeDifference::kModel, scope.model_fingerprint));
  ASHLAR_TRY(ValidateField(ScopeDifference::kCodec, scope.codec_spec));
  ASHLAR_TRY(ValidateField(ScopeDifference::kSalt, scope.tenant_salt));
  ASHLAR_TRY(ValidateField(ScopeDifference::kAdapter, scope.adapter_digest));
  return {};
}

std::string CanonicalBytes(const Scope& scope) {
  std::string bytes(kDomain);
  AppendField(bytes, Tag::kModel, scope.model_fingerprint);
  AppendField(bytes, Tag::kEpoch, LittleEndian(scope.weights_epoch));
  AppendField(bytes, Tag::kCodec, scope.codec_spec);
  AppendField(bytes, Tag::kLayout, LittleEndian(scope.layout_version));
  AppendField(bytes, Tag::kSalt, scope.tenant_salt);
  AppendField(bytes, Tag::kAdapter, scope.adapter_digest);
  return bytes;
}

ScopeDigest DigestOf(const Scope& scope) {
  const std::string bytes = CanonicalBytes(scope);
  ScopeDigest digest;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), /*size=*/nullptr,
                            EVP_sha256(), /*impl=*/nullptr);
  ASHLAR_CHECK(ok == 1, "OpenSSL could not compute SHA-256: is OPENSSL_CONF right?");
  return digest;
}

ScopeDifference FirstDifference(const Scope& a, const Scope& b) {
  if (a.model_fingerprint != b.model_fingerprint) return ScopeDifference::kModel;
  if (a.weights_epoch != b.weights_epoch) return ScopeDifference::kEpoch;
  if (a.codec_spec != b.codec_spec) return ScopeDifference::kCodec;
  if (a.layout_version != b.layout_version) return ScopeDifference::kLayout;
  if (a.tenant_salt != b.tenant_salt) return ScopeDifference::kSalt;
  if (a.adapter_digest != b.adapter_digest) return ScopeDifference::kAdapter;
  return ScopeDifference::kNone;
}

std::string_view NameOf(ScopeDifference difference) {
  switch (difference) {
    case ScopeDifference::kNone:
      return "none";
    case ScopeDifference::kModel:
      return "model fingerprint";
    case ScopeDifference::kEpoch:
      return "weights epoch";
    case ScopeDifference::kCodec:
      return "codec spec";
    case ScopeDifference::kLayout:
      return "layout version";
    case ScopeDifference::kSalt:
      return "tenant salt";
    case ScopeDifference::kAdapter:
      return "adapter digest";
  }
  ASHLAR_CHECK(false, "unknown ScopeDifference {}", static_cast<int>(difference));
}

}  // namespace ashlar::kv
