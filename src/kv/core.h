// The steps that keep pool, index, replacement, events and counters in agreement. Everything that
// changes the cache is made of them: leases and sequences (lease.h, sequence.h) hold what they took
// here and give it back here.
//
//   pool      which block is in which state, for whom; what is promised
//   index     which tokens a block stands for
//   replacer  in which order idle blocks leave
//   events    what the outside is told
//
// What always holds between them (CheckInvariants):
//   - the pool and the replacer call the same blocks idle, and the index knows them all;
//   - in a group that keeps all tokens, a block in the index has its parent's block in the index,
//     and is pinned only if that is pinned: a prefix has no holes;
//   - the blocks of a node that can still be found are exactly what replayed events say.
//
// Thread: the engine's only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kv/block_key.h"
#include "kv/block_pool.h"
#include "kv/event_log.h"
#include "kv/miss.h"
#include "kv/prefix_index.h"
#include "kv/replacer.h"
#include "kv/scope.h"

namespace ashlar::kv {

struct Retention {
  std::uint8_t level = kDefaultRetentionLevel;  // 0 leaves first, 7 last
  std::int64_t ttl_ns = 0;                      // how long the level lasts once idle; 0: for good
};

struct CacheOptions {
  std::uint64_t memory_bytes = 0;      // the hard cap
  std::uint64_t max_memory_bytes = 0;  // what Resize may raise it to; 0: memory_bytes
  std::uint64_t page_bytes = 0;        // 0: chosen (PageCut::ChoosePageBytes)
  bool has_bytes = true;               // false: decisions only, as for a simulator
  ReplacementKind replacement = ReplacementKind::kLru;
  std::vector<AccountLimits> accounts = {};
  std::uint64_t max_pinned_bytes = 0;  // of Pin(); 0: a quarter of the memory
  std::uint64_t max_events = 0;        // kept for readers; 0: no events
  PrefixHasher hasher = NextHash;      // tests put collisions here
  // Mixed into all hashes of prefixes. A server gives a random one, so that nobody can choose
  // prompts whose hashes collide.
  std::uint64_t hash_secret = 0;
};

// Monotonic counters.
struct CacheCounters {
  std::uint64_t admitted = 0;       // sequences
  std::uint64_t prompt_tokens = 0;  // of them; once each, however often admission was tried
  std::uint64_t hit_tokens = 0;
  std::uint64_t taken_blocks = 0;
  std::uint64_t sealed_blocks = 0;
  std::uint64_t replaced_blocks = 0;
  std::uint64_t copied_blocks = 0;     // partial hits and writes into shared blocks
  std::uint64_t converged_blocks = 0;  // computed twice, kept once
  std::uint64_t unindexed_blocks = 0;  // sealed while the index was full
};

class CacheCore {
 public:
  static Result<std::unique_ptr<CacheCore>> Create(const KvLayout& layout,
                                                   const CacheOptions& options, const Clock& clock);
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  const KvLayout layout;
  const CacheOptions options;
  const Clock& clock;
  BlockPool pool;
  PrefixIndex index;
  Replacer replacer;
  EventLog events;
  MissMemory misses;
  CacheCounters counters;
  std::uint64_t leases = 0;           // that live
  std::vector<std::uint64_t> needed;  // scratch, by store group

  // Reads the clock for what follows; levels whose time has passed end.
  void UpdateTime();
  std::int64_t now_ns() const { return now_ns_; }

  std::uint32_t groups() const { return static_cast<std::uint32_t>(layout.groups().size()); }
  // Lane groups, and behind them those of open blocks.
  std::uint32_t store_groups() const {
    return static_cast<std::uint32_t>(layout.store_groups().size());
  }
  std::size_t block_tokens() const { return layout.block_tokens(); }

  // --- Roots ---
  // The hash that the chain of a scope's blocks begins with.
  std::uint64_t RootHashOf(const ScopeDigest& digest) const {
    return RootHash(digest) ^ options.hash_secret;
  }
  // kNoNode when nothing is known in this scope.
  NodeId FindRoot(const ScopeDigest& digest) const;
  // nullopt when the index is full.
  std::optional<NodeId> FindOrMakeRoot(const Scope& scope, const ScopeDigest& digest);
  // Whether the node can still be found from a live root.
  bool is_reachable(NodeId node) const { return !is_stale_[index.root(node).value()]; }
  // Nothing known now can be found any more; what is idle leaves first.
  void MarkAllStale();

  // --- Blocks ---
  // An open block with one pin, of any store group. Uses a promise of the account; makes room by
  // moving and replacing.
  BlockId Take(AccountId account, std::uint32_t group);
  // Copies a node's blocks, one of every group, into `copies`: open blocks with one pin of the
  // account, which has promised them. False, and nothing changed, unless there is room in every
  // group without replacing the node's own blocks or taking another group's page. Idle blocks of
  // the node count as used.
  bool CopyNode(NodeId node, AccountId account, std::vector<BlockId>& copies);
  // One more reader of a block of the index. Uses a promise of the account where needs_promise says
  // so.
  void PinCached(BlockId block, AccountId account);
  bool needs_promise(BlockId block, AccountId account) const {
    return pool.state(block) == BlockState::kIdle || pool.PinNeedsPromise(block, account);
  }
  // One reader less. Without readers it becomes idle, or free when the index does not know it.
  void Unpin(BlockId block, AccountId account, const Retention& retention);
  // Replaces idle blocks of the account until it is at its ceiling less `bytes`, or has none.
  void MakeRoomBelowCeiling(AccountId account, std::uint64_t bytes);
  // A sealed block becomes the node's in its group. Precondition: the node has none there.
  void Publish(NodeId node, BlockId block);
  // Copies the bytes of a block into another of its store group, one that is going to be filled
  // further. No effect where it is encoded: sealing it will write all of them.
  void CopyBytes(BlockId source, BlockId target);

  // The child, made if need be; nullopt when the index is full.
  std::optional<NodeId> FindOrMakeChild(NodeId parent, std::uint64_t hash,
                                        std::span<const TokenId> tokens);
  // Removes the node, and above it, what nothing needs.
  void RemoveUnneeded(NodeId node);

  // Drops the node's blocks. No effect unless all are idle and it has no children.
  void DropIfIdle(NodeId node);
  // Forgets every idle block; the number.
  std::uint64_t DropIdle();
  // Frees at least `pages` pages by moving and replacing. False when live blocks are in the way.
  bool FreePages(std::uint64_t pages);

  // As its event said.
  AccountId StoredBy(BlockId block) const { return stored_by_[block.value()]; }
  // Keys of nodes; events only.
  const BlockKey& KeyOf(NodeId node) const { return keys_[node.value()]; }

  void CheckInvariants() const;

 private:
  struct Root {
    ScopeDigest digest;
    std::uint64_t scope_number = 0;  // MissMemory's
  };

  CacheCore(const KvLayout& layout, const CacheOptions& options, const Clock& clock,
            BlockPool pool);

  [[nodiscard]] bool MakeRoom(AccountId account, std::uint32_t group);
  void MakeIdle(BlockId block, const Retention& retention);
  void TellIdle(BlockId block);
  std::optional<Replacer::Victim> FindVictim(Replacer::MayLose may_lose);
  bool FreePageOfAny();
  bool HasRoomFor(AccountId account);
  BlockId TakeWithin(AccountId account, std::uint32_t group);
  std::optional<Replacer::Victim> FindVictimWithin(AccountId account, std::uint32_t group);
  // Makes room in a full index by replacing what leaves first.
  template <typename Insert>
  std::optional<NodeId> InsertNode(Insert insert);
  void Replace(BlockId block);
  void Drop(BlockId block);
  void DropOne(BlockId block);
  void DropBlocksOf(NodeId node);
  void Unpublish(BlockId block);
  void Tell(KvEventKind kind, NodeId node, std::uint32_t group, AccountId account);
  std::uint32_t& ChildBlocks(NodeId node, std::uint32_t group) {
    return child_blocks_[std::size_t{node.value()} * groups() + group];
  }

  std::int64_t now_ns_ = 0;
  KeyHasher key_hasher_;
  std::unordered_map<ScopeDigest, NodeId> roots_;   // live ones
  std::unordered_map<std::uint32_t, Root> scopes_;  // of live roots, by node
  std::vector<std::uint8_t> is_stale_;              // by node: a root that cannot be found
  std::vector<std::uint32_t> child_blocks_;  // [nodes, groups] children that have a block there
  std::vector<BlockKey> keys_;               // by node; empty without events
  std::vector<AccountId> stored_by_;         // by block: the account when it was published
  std::vector<std::int64_t> deadlines_ns_;   // by block: of the retention it has; 0: none
};

}  // namespace ashlar::kv
