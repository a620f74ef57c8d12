// Ashlar's KV cache for inference engines of your own: it decides which block holds which tokens,
// who may read it and who leaves when memory is short. Your engine computes.
//
//     auto cache = Cache::Create(layout, {.memory_bytes = 1 << 30});
//     auto admission = cache->Admit(scope, prompt, {.max_tokens = prompt.size() + 256});
//     Sequence& s = *admission->sequence;            // admission->status == kAdmitted
//     while (...) {
//       s.Prepare(tokens.size());                    // makes the slots writable
//       ... compute `tokens`: write their K and V through s.Addresses(group) ...
//       s.Commit(tokens);                            // full blocks can now be reused by all
//     }                                              // ~Sequence: the blocks stay, idle
//
// What it promises: a prefix is served only when all its tokens and its scope are equal; blocks
// never take more than memory_bytes; an admitted sequence can go on to max_tokens; what fails
// changes nothing; a prefix that one sequence computes is awaited by others, not computed again.
//
// Handles are move-only. A handle keeps what it needs of the cache alive: handles and Cache may go
// in any order, and the memory goes with the last. A handle that was moved from is empty: it can be
// destroyed and assigned to; its numbers are 0, and its calls fail with kInvalidArgument.
//
// Whatever is passed in is checked: no argument stops the process. Only reading an Expected that
// holds an error does, and CheckInvariants.
//
// Units: tokens, bytes and nanoseconds, as names say. Cost: O(blocks of the prompt) for what takes
// a prompt, O(groups) otherwise, unless said.
// Thread: one at a time for a cache and all its handles. Nothing here locks, waits or starts
// threads.
//
// The namespace is `ashlar::cache`: the library's own types live in `ashlar` and `ashlar::kv`, and
// a program may hold both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ashlar/error.h"
#include "ashlar/kv_layout.h"
#include "ashlar/kv_options.h"
#include "ashlar/kv_report.h"

namespace ashlar::cache {

namespace internal {
struct CacheImpl;
struct SequenceImpl;
struct LeaseImpl;
}  // namespace internal

// --- Handles ---

// A sequence's blocks in every group, and the promise of those to come. Destroying it gives them
// back: what can be reused stays in the cache, idle.
class Sequence {
 public:
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  bool empty() const { return impl_ == nullptr; }
  // Tokens whose K and V are stored.
  std::uint64_t size() const;
  // Of those at admission, how many came from the cache.
  std::uint64_t hit_tokens() const;
  // Of the blocks it holds, shared ones in full. O(blocks).
  std::uint64_t bytes() const;
  // The stored ones. Valid until the sequence changes.
  std::span<const TokenId> tokens() const;

  // Makes the slots of positions [size(), size() + count) writable: takes blocks, and copies the
  // last one first when others may read it. Errors: kNoMemory beyond max_tokens or chunk, when the
  // memory is not there; kInvalidArgument when they end beyond kMaxTokens; kLimit. O(new blocks).
  Expected<void> Prepare(std::uint64_t count);
  // The next slots have been written with the K and V of `tokens`. Full blocks are sealed and
  // published; one that another sequence has published meanwhile is replaced by that, so block ids
  // may change. Errors: kInvalidArgument when there are more than were prepared. O(tokens).
  Expected<void> Commit(std::span<const TokenId> tokens);

  // Goes back to at most `size` tokens; the number it went back to. Further than asked only where
  // a window (or Granularity::kBlock) has given up what a query there reads; never for max_rollback
  // tokens. What was prepared must be prepared again. Errors: kInvalidArgument for a size above
  // size(); kNoMemory when others hold what was shared. O(blocks).
  Expected<std::uint64_t> Truncate(std::uint64_t size);
  // A second sequence with the same tokens and blocks, for at most max_tokens of its own. What was
  // prepared in this one must be prepared again. Errors: kInvalidArgument for less than size();
  // kNoMemory. O(blocks).
  Expected<Sequence> Fork(std::uint64_t max_tokens);
  // Gives everything back now; the handle is empty afterwards. O(blocks).
  void Release();

  // By block number, for positions up to what is prepared; kNoBlock where a window has passed.
  // Valid until the sequence changes. Errors: kInvalidArgument for a group that does not exist.
  Expected<std::span<const BlockId>> Blocks(std::uint32_t group) const;
  // Their bytes, null where a window has passed. Valid until the next call that changes the cache
  // or any handle of it: blocks may move. O(1), or O(blocks) after they have. Errors: kUnsupported
  // without bytes; kInvalidArgument.
  Expected<std::span<std::byte* const>> Addresses(std::uint32_t group) const;

 private:
  friend class Cache;
  explicit Sequence(std::unique_ptr<internal::SequenceImpl> impl);
  std::unique_ptr<internal::SequenceImpl> impl_;
};

// The right to read a prefix: while it lives, its blocks stay. Whole blocks only; may hold none.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  bool empty() const { return tokens() == 0; }
  std::uint64_t tokens() const;
  std::uint64_t bytes() const;  // O(blocks)
  // Block `number` of the prefix, kNoBlock where the group's window has passed. O(blocks after it).
  // Errors: kInvalidArgument for a group or number that does not exist.
  Expected<BlockId> Block(std::uint32_t group, std::uint64_t number) const;
  // Its bytes, null for kNoBlock; valid as Sequence::Addresses says. Errors: as Block, and
  // kUnsupported without bytes.
  Expected<std::byte*> Address(std::uint32_t group, std::uint64_t number) const;
  void Release();

 private:
  friend class Cache;
  explicit Lease(std::unique_ptr<internal::LeaseImpl> impl);
  std::unique_ptr<internal::LeaseImpl> impl_;
};

struct LookupResult {
  Lease lease;
  LookupReport report;
};

enum class AdmitStatus : std::uint8_t {
  kAdmitted,
  kWait,      // report.pending_tokens are being computed by another sequence: try again later
  kNoMemory,  // not now: others' sequences, leases and pins are in the way
};

struct Admission {
  AdmitStatus status = AdmitStatus::kNoMemory;
  std::optional<Sequence> sequence;  // kAdmitted
  LookupReport report;
};

// Names a pinned prefix. Of another cache, or made up: kNotFound.
struct PinId {
  std::uint64_t cache = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

class Cache {
 public:
  // Errors: kInvalidArgument naming the field, its value and what is right; kLimit for more memory
  // than the machine has, or more than kMaxBookkeepingBytes beside it. O(blocks the memory holds).
  static Expected<Cache> Create(const Layout& layout, CacheOptions options);

  Cache(Cache&& other) noexcept;
  Cache& operator=(Cache&& other) noexcept;
  // Sequences and leases that live keep the memory; pins end with it.
  ~Cache();

  // --- What it is made of ---
  std::size_t groups() const;
  std::uint32_t max_blocks() const;                         // ids are below this
  Expected<GroupSizes> SizesOf(std::uint32_t group) const;  // kInvalidArgument: no such group
  std::optional<LanePlace> Find(Lane lane) const;           // nullopt: it keeps no KV
  // Names all that decides what a block's bytes mean: for Scope::codec. O(lanes).
  std::string LayoutFingerprint() const;

  // --- Prompts ---
  // What would be served, and why not more. Changes and counts nothing. Errors: kInvalidArgument
  // for a scope's field or a prompt beyond kMaxTokens, as in the next two.
  Expected<LookupReport> Probe(const Scope& scope, std::span<const TokenId> tokens) const;
  // Finds and keeps the longest prefix of whole blocks, charged to `account`; an empty lease when
  // nothing matches or its memory is promised to others.
  Expected<LookupResult> Lookup(const Scope& scope, std::span<const TokenId> tokens,
                                std::uint16_t account = kCommonAccount);
  // Starts a sequence with the longest prefix there is and a promise of the rest. Errors, besides:
  // kInvalidArgument naming the option; kLimit when it could not even fit alone.
  Expected<Admission> Admit(const Scope& scope, std::span<const TokenId> tokens,
                            const AdmitOptions& options);
  // Blocks by group that Admit promises at the most. Errors: as Admit's for options. O(groups).
  Expected<std::vector<std::uint64_t>> BlocksNeeded(const AdmitOptions& options) const;

  // Keeps a leased prefix until Unpin. The lease is consumed, also by an error: kInvalidArgument
  // for an empty lease or another cache's, kLimit above max_pinned_bytes.
  Expected<PinId> Pin(Lease lease);
  Expected<void> Unpin(PinId pin);  // kNotFound
  std::uint64_t pinned_bytes() const;

  // Storage::kDecisionsOnly: the copies since the last call, by which blocks get what their readers
  // expect. Make them one after the other, before you write to any slot prepared since.
  std::vector<BlockCopy> TakeCopies();

  // --- The whole cache ---
  // Forgets every prefix. False, and nothing changed, while sequences, leases or pins hold blocks.
  [[nodiscard]] bool Reset();
  // Forgets every prefix; sequences go on, and what they hold is never found again. O(idle blocks).
  void ResetAll();
  // The weights have changed: what is known now is never served again, and leaves first. O(scopes).
  void Invalidate();
  // Changes the cap while everything runs. Errors, which change nothing: kInvalidArgument beyond
  // max_memory_bytes, kLimit below what is in use, pinned or promised. O(pages, blocks moved).
  Expected<void> Resize(std::uint64_t memory_bytes);

  // --- What it says ---
  std::uint64_t memory_bytes() const;
  std::uint64_t live_sequences() const;
  Counters counters() const;
  MemoryReport Memory() const;  // O(accounts, groups)

  // At most `max` events from number `from_sequence` on; ask for the one after the last applied.
  // Errors: kUnsupported without events. O(events read).
  Expected<EventBatch> ReadEvents(std::uint64_t from_sequence, std::size_t max) const;
  // Errors: kUnsupported without events. O(blocks).
  Expected<Snapshot> TakeSnapshot() const;

  // Recounts everything, and stops the process where it disagrees. For tests. O(blocks).
  void CheckInvariants() const;

 private:
  explicit Cache(std::shared_ptr<internal::CacheImpl> impl);
  std::shared_ptr<internal::CacheImpl> impl_;
};

}  // namespace ashlar::cache
