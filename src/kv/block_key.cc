#include "kv/block_key.h"

#include <openssl/evp.h>

// Inlined here only: a call into the library would cost as much as the hash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace ashlar::kv {
namespace {

// Tokens and the count are hashed as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint8_t kBlockDomain = 0x4B;

struct Free {
  void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

struct KeyHasher::State {
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

KeyHasher::KeyHasher() : state_(std::make_unique<State>()) {
  const std::unique_ptr<EVP_MD, Free> sha256(EVP_MD_fetch(nullptr, "SHA256", nullptr));
  const bool ok = sha256 && state_->context &&
                  EVP_DigestInit_ex2(state_->context.get(), sha256.get(), /*params=*/nullptr) == 1;
  ASHLAR_CHECK(ok, "OpenSSL offers no SHA-256: is OPENSSL_CONF right?");
}
KeyHasher::KeyHasher(KeyHasher&&) noexcept = default;
KeyHasher& KeyHasher::operator=(KeyHasher&&) noexcept = default;
KeyHasher::~KeyHasher() = default;

BlockKey KeyHasher::NextKey(const BlockKey& parent, std::span<const TokenId> tokens) {
  ASHLAR_DCHECK(tokens.size() <= std::numeric_limits<std::uint32_t>::max());
  const auto count = static_cast<std::uint32_t>(tokens.size());
  std::array<std::uint8_t, 1 + kDigestBytes + sizeof count> head;
  head[0] = kBlockDomain;
  std::memcpy(&head[1], parent.bytes.data(), kDigestBytes);
  std::memcpy(&head[1 + kDigestBytes], &count, sizeof count);

  EVP_MD_CTX* const context = state_->context.get();
  BlockKey key;
  const bool ok = EVP_DigestInit_ex2(context, /*type=*/nullptr, /*params=*/nullptr) == 1 &&
                  EVP_DigestUpdate(context, head.data(), head.size()) == 1 &&
                  EVP_DigestUpdate(context, tokens.data(), tokens.size_bytes()) == 1 &&
                  EVP_DigestFinal_ex(context, key.bytes.data(), /*size=*/nullptr) == 1;
  ASHLAR_CHECK(ok, "OpenSSL could not compute SHA-256");
  return key;
}

BlockKey RootKey(const ScopeDigest& scope) { return BlockKey{scope.bytes}; }

std::uint64_t NextHash(std::uint64_t parent, std::span<const TokenId> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent);
}

std::uint64_t RootHash(const ScopeDigest& scope) {
  std::uint64_t hash = 0;
  std::memcpy(&hash, scope.bytes.data(), sizeof hash);
  return hash;
}

void ChainHashes(std::uint64_t root, std::span<const TokenId> tokens, std::size_t block_tokens,
                 std::vector<std::uint64_t>& out, PrefixHasher hasher) {
  ASHLAR_CHECK(block_tokens > 0);
  out.clear();
  out.reserve(tokens.size() / block_tokens);
  std::uint64_t hash = root;
  for (; tokens.size() >= block_tokens; tokens = tokens.subspan(block_tokens)) {
    hash = hasher(hash, tokens.first(block_tokens));
    out.push_back(hash);
  }
}

}  // namespace ashlar::kv
