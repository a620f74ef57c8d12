// What must match, besides tokens, before one request may read the keys and values of another.
//
// A scope is compared through its digest, which begins every chain of block keys (block_key.h). So
// blocks of different scopes can never be mistaken for each other, and whoever compares keys has
// compared scopes. The digest is SHA-256 over the canonical bytes:
//
//   "ashlar scope 1"  { tag: u8 | length: u64, little-endian | that many bytes }  for every field
//
// Fields come in order of declaration, integers as little-endian bytes of their full width. Every
// field says what it is and how long, so different scopes never have the same bytes: an adapter
// cannot impersonate a salt, nor can bytes move from one field to the next. The bytes are a
// contract between processes: golden tests hold them; a change of meaning needs a new first line.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::kv {

inline constexpr std::size_t kDigestBytes = 32;

// Lower-case hexadecimal digits.
std::string HexOf(std::span<const std::uint8_t> bytes);

// A SHA-256 that cannot be mistaken for one of another kind.
template <typename Tag>
struct Digest {
  std::array<std::uint8_t, kDigestBytes> bytes{};

  std::string ToHex() const { return HexOf(bytes); }
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

using ScopeDigest = Digest<struct ScopeDigestTag>;

struct Scope {
  std::string model_fingerprint;     // which weights: a digest of the model file
  std::uint64_t weights_epoch = 0;   // counts changes of the weights in place
  std::string codec_spec;            // how K and V are stored, e.g. "f16"
  std::uint32_t layout_version = 0;  // how a block's bytes are arranged
  std::string tenant_salt;     // empty: shared with all who have none. A secret: never printed
  std::string adapter_digest;  // LoRA and the like; empty: the plain model

  friend bool operator==(const Scope&, const Scope&) = default;
};

// Each variable-length field: generous for a digest, a spec or a salt, and small beside a prompt.
inline constexpr std::size_t kMaxScopeFieldBytes = 4096;

// Errors: kInvalidArgument naming the field, its size and the limit.
Status Validate(const Scope& scope);

// What is hashed; see above. O(size), as is DigestOf.
std::string CanonicalBytes(const Scope& scope);
ScopeDigest DigestOf(const Scope& scope);

enum class ScopeDifference : std::uint8_t {
  kNone,
  kModel,
  kEpoch,
  kCodec,
  kLayout,
  kSalt,
  kAdapter,
};

// The first field, in order of declaration, in which two scopes differ: why they share nothing.
ScopeDifference FirstDifference(const Scope& a, const Scope& b);
// "none", "model fingerprint", "weights epoch", ...
std::string_view NameOf(ScopeDifference difference);

}  // namespace ashlar::kv

// The digest is uniform already: its first bytes are as good a hash as any.
template <typename Tag>
struct std::hash<ashlar::kv::Digest<Tag>> {
  std::size_t operator()(const ashlar::kv::Digest<Tag>& digest) const {
    std::size_t first = 0;
    std::memcpy(&first, digest.bytes.data(), sizeof first);
    return first;
  }
};
