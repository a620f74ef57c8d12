// What the cache tells about itself: why a prompt was not served further, where every byte is, what
// has happened, and which blocks it holds. Plain values; they stay valid when the cache has gone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::cache {

using TokenId = std::int32_t;

// --- Lookups ---

enum class MissReason : std::uint8_t {
  kNone,              // all but the last token was served: that one must be computed to go on
  kDiverged,          // the prefix was seen with other tokens after it
  kNeverSeen,         // nothing is known after the prefix that was served
  kReplaced,          // the next block was here and gave up its memory, at time_ns
  kWindowPassed,      // a sliding window gave up blocks that this length needs
  kBelowGranularity,  // what matches further is less than a block, and the group shares whole ones
  kBeingComputed,     // another sequence is computing what follows: pending_tokens of it
  kOtherModel,        // the same tokens are here for another model, ...
  kOtherEpoch,
  kOtherCodec,
  kOtherLayout,
  kOtherSalt,
  kOtherAdapter,
  kNoRoom,    // the last part of a block could not be copied: all memory is in use
  kDisabled,  // reuse was off for this sequence
};
// "none", "diverged", ...
std::string_view NameOf(MissReason reason);

// How much of a prompt was served, and why not more. For the operator: that another salt holds the
// same tokens must not be told to a tenant.
struct LookupReport {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t hit_tokens = 0;
  MissReason reason = MissReason::kNeverSeen;
  std::uint64_t position = 0;        // of the first token that was not served
  std::int64_t time_ns = 0;          // kReplaced: when, on the cache's clock
  std::uint64_t pending_tokens = 0;  // after position, being computed by another sequence

  // One sentence with the numbers.
  std::string Explain() const;
};

// --- Memory ---

enum class BlockState : std::uint8_t {
  kOpen,    // being filled by a sequence
  kShared,  // full and read by sequences or leases
  kIdle,    // kept for reuse, given up when the memory is needed
};
std::string_view NameOf(BlockState state);  // "open", "shared", "idle"

struct MemoryRow {
  std::uint16_t account = 0;
  std::uint32_t group = 0;
  BlockState state = BlockState::kOpen;
  std::uint64_t bytes = 0;
};

// All bytes of the cap: the rows and the four other numbers add up to memory_bytes.
struct MemoryReport {
  std::uint64_t memory_bytes = 0;
  std::vector<MemoryRow> rows;        // those that are not 0
  std::uint64_t free_slot_bytes = 0;  // free blocks in pages of a group
  std::uint64_t slack_bytes = 0;      // of such pages, too small for a block
  std::uint64_t free_page_bytes = 0;  // may become any group's
  std::uint64_t remainder_bytes = 0;  // of the cap, too small for a page

  // Of all accounts and groups. O(rows).
  std::uint64_t BytesIn(BlockState state) const;
};

// Since the cache was created. They only grow.
struct Counters {
  std::uint64_t admitted = 0;       // sequences
  std::uint64_t prompt_tokens = 0;  // of them
  std::uint64_t hit_tokens = 0;     // of these, served from the cache
  std::uint64_t taken_blocks = 0;
  std::uint64_t sealed_blocks = 0;  // blocks' worth of tokens that became immutable, in all groups
  std::uint64_t replaced_blocks = 0;
  std::uint64_t copied_blocks = 0;
  std::uint64_t converged_blocks = 0;  // computed twice, kept once
  std::uint64_t unindexed_blocks = 0;  // sealed while the index was full
};

// --- Events ---

// Names a block's content: equal keys mean equal scope and equal tokens from the start of the
// prompt, also between processes. SHA-256.
using BlockKey = std::array<std::uint8_t, 32>;

enum class EventKind : std::uint8_t {
  kStored,   // the block can be reused from now on
  kRemoved,  // it cannot any more: key and group say which
  kCleared,  // no block can, in any group
};

struct Event {
  std::uint64_t sequence = 0;  // from 1, without gaps
  EventKind kind = EventKind::kStored;
  BlockKey key = {};
  BlockKey parent = {};  // the block before; for a first block, a key made of the scope
  std::uint32_t group = 0;
  std::uint16_t account = 0;
  std::vector<TokenId> tokens;  // kStored: the block's own; fewer in a last, partly filled one
  std::int64_t time_ns = 0;
};

struct EventBatch {
  std::vector<Event> events;  // in order; none when the reader is up to date
  // The events asked for are gone, or not of this cache: take a snapshot, and go on after it. The
  // number is of the oldest event that can be read.
  std::optional<std::uint64_t> gap_until;
};

struct SnapshotEntry {
  BlockKey key = {};
  BlockKey parent = {};
  std::uint32_t group = 0;
  std::uint16_t account = 0;
  std::vector<TokenId> tokens;
};

// The blocks that can be reused after event `sequence`; in any order.
struct Snapshot {
  std::uint64_t sequence = 0;
  std::vector<SnapshotEntry> entries;
};

}  // namespace ashlar::cache
