// The KV cache: one arena of blocks, shared by all sequences, that remembers prefixes.
//
//     prompt ──Admit──> longest prefix pinned, the rest promised ──> Sequence (sequence.h)
//     prompt ──Lookup─> longest prefix pinned ──────────────────── > PrefixLease (lease.h)
//     prompt ──Probe──> what would be served, and why not more       LookupReport (miss.h)
//
// What it promises:
//   - exact: a prefix is served only when all its tokens and its scope are equal;
//   - a hard cap: the bytes of all blocks never exceed the memory, in any mixture of lane groups;
//   - no over-admission: an admitted sequence can always go on to its max_tokens;
//   - all or nothing: what fails changes nothing;
//   - single flight: a prefix that one sequence has promised to compute makes others wait for it
//     (OnPending::kWait) instead of computing it again; when that sequence goes, they no longer
//     wait;
//   - accounts, levels and pins are kept (block_pool.h, replacer.h);
//   - every byte is accounted for at any time (Account), every miss has a reason.
//
// The layers below, from the bottom: BlockStore (memory), BlockPool (states, promises, accounts),
// PrefixIndex (tokens), Replacer (order of leaving), CacheCore (all of them in agreement). This
// class adds the operations on whole prompts.
//
// Cost: O(blocks of the prompt) for what takes a prompt; O(1) per block for the rest.
// Thread: the engine's only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kv/core.h"
#include "kv/lease.h"
#include "kv/match.h"
#include "kv/sequence.h"
#include "kv/snapshot_builder.h"

namespace ashlar::kv {

// No sequence is longer; so sums of lengths cannot overflow.
inline constexpr std::uint64_t kMaxSequenceTokens = std::uint64_t{1} << 40;

// What to do while another sequence is computing a part of the same prompt.
enum class OnPending : std::uint8_t { kWait, kCompute };

struct Prompt {
  const Scope& scope;
  // DigestOf(scope): compute it once per scope.
  const ScopeDigest& digest;
  std::span<const TokenId> tokens;
  PrefixHashes* hashes = nullptr;  // kept by the caller between calls, for the same tokens
};

struct AdmitOptions {
  std::uint64_t max_tokens = 0;     // promised: at least the prompt
  std::uint64_t likely_tokens = 0;  // so many may come: their bookkeeping grows without allocation
  std::uint64_t chunk = 1;          // the most tokens of one Prepare
  std::uint64_t max_rollback = 0;   // tokens that Truncate can always take back, windows or not
  AccountId account = kCommonAccount;
  Retention retention = {};
  Reuse reuse = Reuse::kOn;
  OnPending on_pending = OnPending::kWait;
};

enum class AdmitStatus : std::uint8_t {
  kAdmitted,
  kWait,      // report.pending_tokens are being computed by another sequence
  kNoMemory,  // not now: live blocks and promises of others are in the way
};

struct Admission {
  AdmitStatus status = AdmitStatus::kNoMemory;
  std::optional<Sequence> sequence;  // kAdmitted
  LookupReport report;
};

// A prefix that stays until Unpin. Refused once it is unpinned.
struct PinId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

// Bytes of one owner and state.
struct MemoryRow {
  AccountId account;
  std::uint32_t group = 0;      // lane group
  bool is_open_blocks = false;  // the open blocks of an encoded one
  BlockState state = BlockState::kOpen;
  std::uint64_t bytes = 0;
};
// Everything but promised_bytes adds up to arena_bytes.
struct MemoryReport {
  std::uint64_t arena_bytes = 0;
  std::vector<MemoryRow> rows;        // not those of 0 bytes
  std::uint64_t free_slot_bytes = 0;  // free blocks in pages of a group
  std::uint64_t slack_bytes = 0;      // of pages, too small for a block
  std::uint64_t free_page_bytes = 0;
  std::uint64_t remainder_bytes = 0;  // of the arena, too small for a page
  std::uint64_t promised_bytes = 0;   // of idle and free places, what sequences may still take
};

class KvCache {
 public:
  // `clock` must outlive the cache. Errors: kInvalidArgument naming the option, kResourceExhausted.
  static Result<std::unique_ptr<KvCache>> Create(const KvLayout& layout,
                                                 const CacheOptions& options, const Clock& clock);
  // Precondition: no sequence and no lease lives, but those of pins.
  ~KvCache();

  const KvLayout& layout() const { return core_->layout; }
  const CacheCounters& counters() const { return core_->counters; }

  // Reads only: no block is touched, nothing is counted.
  LookupReport Probe(const Prompt& prompt);
  // Pins the longest prefix of whole blocks. An empty lease when nothing matches, or the memory to
  // pin it is promised to others. `report` may be null.
  PrefixLease Lookup(const Prompt& prompt, AccountId account, LookupReport* report);
  // Starts a sequence with the longest prefix the cache has and a promise of the rest.
  // Preconditions: max_tokens, chunk and max_rollback up to kMaxSequenceTokens;
  // an account and a level that exist.
  Admission Admit(const Prompt& prompt, const AdmitOptions& options);

  // Blocks by store group of a sequence of max_tokens computed in pieces of at most `chunk`,
  // sharing nothing: what Admit promises at the most.
  void BlocksNeeded(const AdmitOptions& options, std::vector<std::uint64_t>& blocks) const;
  // Whether such a sequence could ever be admitted, alone in the cache.
  bool CouldEverFit(const AdmitOptions& options) const;
  // The most tokens for which that is so, up to `limit`. O(log limit).
  std::uint64_t MaxTokens(std::uint64_t limit, std::uint64_t chunk,
                          std::uint64_t max_rollback = 0) const;

  // Keeps a prefix whatever else is needed. Errors: kResourceExhausted above max_pinned_bytes, for
  // which pins are added up; kInvalidArgument for an empty lease. The lease is consumed.
  Result<PinId> Pin(PrefixLease lease);
  // Errors: kNotFound for a pin that does not exist, or not any more.
  Status Unpin(PinId pin);
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }

  // Forgets every prefix that nobody reads. False, and nothing changed, while sequences or leases
  // live: what they hold would stay known.
  [[nodiscard]] bool Reset();
  // Forgets every prefix; running sequences go on, and what they hold can never be found again.
  // Also right after the weights have changed. O(idle blocks).
  void ResetAll();
  // The weights have changed: what is known now can never be found again, and leaves first as
  // memory is needed. O(scopes): nothing is freed now.
  void Invalidate() { core_->MarkAllStale(); }

  // Changes the cap while everything runs. Errors: kInvalidArgument beyond max_memory_bytes;
  // kResourceExhausted below what is live (naming it).
  Status Resize(std::uint64_t memory_bytes);

  // Gives the memory of free pages back to the system, until they are used again; the cap stays.
  // After Reset that is all of it. The bytes.
  std::uint64_t DiscardFreePages() { return core_->pool.store().DiscardFreePages(); }

  std::uint64_t memory_bytes() const { return core_->pool.store().memory_bytes(); }
  // Bytes of live blocks: open and shared.
  std::uint64_t live_bytes() const;
  std::uint64_t idle_bytes() const;
  std::uint64_t live_sequences() const { return live_sequences_; }
  MemoryReport Account() const;

  const EventLog& events() const { return core_->events; }
  // What can be found now; its sequence number is the last event's. Events must be on.
  Snapshot TakeSnapshot() const;
  // The same of up to `max_nodes` nodes of the index from one on, for a SnapshotBuilder.
  // O(max_nodes).
  SnapshotPart TakeSnapshotPart(std::uint32_t first_node, std::uint32_t max_nodes) const;

  std::byte* Data(BlockId block) const { return core_->pool.store().Data(block); }
  const CacheCore& core() const { return *core_; }
  void CheckInvariants() const { core_->CheckInvariants(); }

 private:
  friend class Sequence;

  explicit KvCache(std::unique_ptr<CacheCore> core);

  // Sequence's operations.
  bool Prepare(SequenceState& state, std::uint64_t count);
  void Commit(SequenceState& state, std::span<const TokenId> tokens);
  std::optional<std::uint64_t> Truncate(SequenceState& state, std::uint64_t size);
  std::unique_ptr<SequenceState> Fork(SequenceState& from, std::uint64_t max_tokens);
  void Release(std::unique_ptr<SequenceState> state);

  PrefixHashes& HashesOf(const Prompt& prompt);
  struct Beginning {
    const Match& match;
    NodeId root;  // kNoNode: not in the index
  };
  std::unique_ptr<SequenceState> Start(const Prompt& prompt, const AdmitOptions& options,
                                       const Beginning& beginning);
  std::unique_ptr<SequenceState> NewState();
  void PinMatch(SequenceState& state, const Match& match);
  bool CopyPart(SequenceState& state, const Match& match);
  void PromisePrompt(SequenceState& state, std::span<const TokenId> prompt,
                     const PrefixHashes& hashes, const Match& match);
  void DropPromises(SequenceState& state);
  void Repromise(SequenceState& state, std::uint32_t group);
  void Append(SequenceState& state, std::uint32_t group, BlockId block);
  void SetBlock(SequenceState& state, std::uint32_t group, std::uint64_t number, BlockId block);
  bool IsSealed(BlockId block) const;
  void CopySharedTail(SequenceState& state);
  void CopySealedTail(SequenceState& state, std::uint64_t number);
  std::optional<NodeId> NodeOf(SequenceState& state, std::uint64_t number);
  void SealBlock(SequenceState& state, std::uint64_t number);
  void SealInto(SequenceState& state, NodeId node, std::uint32_t group, std::uint64_t number);
  void PassWindow(SequenceState& state);
  void KeepTail(SequenceState& state);
  void DropBlock(SequenceState& state, std::uint32_t group, std::uint64_t number);
  std::uint64_t LongestRollback(const SequenceState& state, std::uint64_t size) const;
  bool ComesBack(const SequenceState& state, BlockId block) const;
  void ReviveWindow(SequenceState& state, NodeId last, std::uint64_t end);
  bool HasRawTail(const SequenceState& state) const;
  void TakeOpenBlocks(SequenceState& state);
  void CopyOpenBlocks(const SequenceState& from, SequenceState& to);
  void GiveOpenBlocks(SequenceState& state);
  void NeededToFork(const SequenceState& state, std::uint64_t max_tokens,
                    std::vector<std::uint64_t>& blocks) const;

  std::unique_ptr<CacheCore> core_;
  Matcher matcher_;
  PrefixHashes hashes_;                // of a prompt that brings none
  std::vector<std::uint64_t> needed_;  // scratch, by store group
  std::vector<BlockId> copies_;        // scratch, by group
  mutable std::vector<NodeId> path_;   // scratch, by block number
  std::vector<std::unique_ptr<SequenceState>> spare_states_;
  std::uint64_t live_sequences_ = 0;

  struct Pinned {
    PrefixLease lease;
    std::uint32_t generation = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Pinned> pins_;
  std::uint64_t pinned_bytes_ = 0;
};

}  // namespace ashlar::kv
