// One language of operations on a cache, for unit cases, property tests and the fuzzer: a string of
// bytes. CacheWorld performs them on a KvCache and on a naive model at once, and checks after each:
//
//   - content: every slot a sequence may read holds the mark of exactly its prefix, group and
//     scope, raw in open blocks and encoded in sealed ones;
//   - hits: never more than the longest prefix ever stored in that scope; and, in a world that
//     never replaces, exactly that, in whole blocks where a group is encoded;
//   - going back: as far as asked within max_rollback;
//   - promises: an admitted sequence can always go on;
//   - accounting: rows and rest add up to the arena; events replay to the snapshot;
//   - KvCache::CheckInvariants.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/cache.h"

namespace ashlar::kv::testing {

struct WorldOptions {
  KvLayoutSpec layout;
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_memory_bytes = 0;
  std::uint64_t page_bytes = 0;
  ReplacementKind replacement = ReplacementKind::kLru;
  bool has_limits = true;         // accounts with floors and ceilings
  bool is_roomy = false;          // nothing is ever replaced: hits must be exact
  std::uint32_t check_every = 1;  // operations between full checks
  bool is_checked = true;         // false: only performs the operations, for a benchmark
  PrefixHasher hasher = NextHash;
  std::uint32_t scopes = 3;         // at least 3: plain, a salt, an adapter; more: salts
  std::uint64_t ceiling_bytes = 0;  // of the account that has one; 0: a third of the memory
};

// Layouts worth testing: "full", "window", "sinks", "hybrid", "mixed" (five groups of all kinds),
// "encoded", "codecs" (a raw group, one encoded, and two with windows encoded in K or V only).
KvLayoutSpec LayoutNamed(const std::string& name);

class CacheWorld {
 public:
  explicit CacheWorld(const WorldOptions& options);
  ~CacheWorld();

  // Performs the program's operations until its bytes are used up or `max_ops` are done; the number
  // done. The first violation stops the process.
  std::uint64_t Run(std::span<const std::uint8_t> program, std::uint64_t max_ops);

  KvCache& cache() { return *cache_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t waits() const { return waits_; }
  std::uint64_t refusals() const { return refusals_; }

 private:
  struct Live {
    Sequence sequence;
    std::uint32_t scope = 0;
    bool reuses = true;
    std::uint64_t max_tokens = 0;
    std::uint64_t chunk = 1;
    std::uint64_t max_rollback = 0;
    std::uint64_t stored_from = 0;  // positions from here on were computed by it
    std::uint64_t longest = 0;      // ever written
    std::vector<TokenId> tokens;    // stored, as the model sees it
    std::vector<TokenId> prompt;    // what it was admitted with
    std::shared_ptr<int> tail;      // shared by those that may still share the open block
  };
  class Bytes;

  void Admit(Bytes& bytes);
  void Extend(Bytes& bytes, Live& live);
  void ForkOne(Bytes& bytes, Live& live);
  void Cut(Bytes& bytes, Live& live);
  void Release(std::size_t index);
  void LookUp(Bytes& bytes);
  void ChangeAll(Bytes& bytes);

  std::vector<TokenId> MakeText(Bytes& bytes);
  void Store(std::uint32_t scope, std::span<const TokenId> tokens);
  std::uint64_t LongestStored(std::uint32_t scope, std::span<const TokenId> prompt) const;
  static std::uint64_t SeedOf(const Live& live) { return live.scope * 1000; }
  void CheckContent(const Live& live) const;
  void CheckAll();
  void ReplayEvents();

  WorldOptions options_;
  ManualClock clock_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Scope> scopes_;
  std::vector<ScopeDigest> digests_;
  std::vector<Live> live_;
  std::vector<PrefixLease> leases_;
  std::vector<PinId> pins_;
  // A trie of everything stored, by scope.
  struct TrieNode {
    std::map<TokenId, std::unique_ptr<TrieNode>> next;
  };
  std::vector<TrieNode> stored_;
  EventReplica replica_;
  PrefixHashes hashes_;  // of the last prompt that was to be admitted
  std::vector<TokenId> hashed_prompt_;
  std::uint32_t hashed_scope_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t refusals_ = 0;
};

}  // namespace ashlar::kv::testing
