// Names for a block's content: a block is its tokens after one prefix, in one scope. Two chains
// name it, each link made of the link before and the block's own tokens:
//
//                 root                  a full block of tokens      cost, 16 tokens
//   BlockKey      the scope's digest    SHA-256, 32 bytes           about 140 ns
//   prefix hash   first bytes of it     XXH3, 64 bits, seeded       about 8 ns
//
// A key is proof: equal keys mean equal scope and equal tokens from the start of the prompt, also
// between processes and machines. Keys go where tokens cannot be compared: events, disk, remote
// tiers. A prefix hash only finds: tokens are compared before anything is reused, so a collision
// (which a user can make) costs time and nothing else. It never leaves the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/scope.h"

namespace ashlar::kv {

using BlockKey = Digest<struct BlockKeyTag>;

// The parent of a scope's first blocks. Not the key of any block.
BlockKey RootKey(const ScopeDigest& scope);

// Computes keys; keeps OpenSSL's context, without which a key costs two to three times as much.
// OpenSSL 3.0 takes and frees its state of some 100 bytes for each key; nothing else allocates.
// Thread: one.
class KeyHasher {
 public:
  KeyHasher();
  KeyHasher(KeyHasher&&) noexcept;
  KeyHasher& operator=(KeyHasher&&) noexcept;
  ~KeyHasher();

  // SHA-256 of: 0x4B | parent, 32 bytes | number of tokens, u32 | each token, i32. Little-endian.
  // No scope begins with 0x4B, so no scope's digest is a block's key. O(tokens).
  BlockKey NextKey(const BlockKey& parent, std::span<const TokenId> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One link of the cheap chain. O(tokens).
std::uint64_t NextHash(std::uint64_t parent, std::span<const TokenId> tokens);
// The parent of a scope's first blocks.
std::uint64_t RootHash(const ScopeDigest& scope);

// NextHash, or what a test puts in its place to force collisions.
using PrefixHasher = std::uint64_t (*)(std::uint64_t parent, std::span<const TokenId> tokens);

// Replaces `out` by the hashes of the full blocks of `tokens`, in order; a partial last block has
// none. Precondition: block_tokens > 0. O(tokens); allocates only when `out` must grow.
void ChainHashes(std::uint64_t root, std::span<const TokenId> tokens, std::size_t block_tokens,
                 std::vector<std::uint64_t>& out, PrefixHasher hasher = NextHash);

}  // namespace ashlar::kv
