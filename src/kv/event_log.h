// What the cache tells routers and replicas: which blocks it holds, as a stream of changes.
//
// Events are numbered from 1 without gaps. The log keeps the last `capacity` of them; a reader asks
// for the next number it lacks. When that one is gone, Read says so (a Gap) and the reader begins
// again from a Snapshot: the whole state after one event. Snapshot and later events together give
// exactly the state of the cache at any time; EventReplica does the arithmetic.
//
//   cache ---Append---> EventLog ---Read---> Apply ---> EventReplica
//                          |                                 ^
//                          +--- Gap: take a Snapshot --------+
//
// Numbers begin again with each log, so a transport must name the log it carries (a process id and
// start time will do): a reader that moves to another log needs a snapshot.
//
// Thread: each object has one owner, the log the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/block_key.h"
#include "kv/ids.h"

namespace ashlar::kv {

enum class KvEventKind : std::uint8_t {
  kStored,   // the block can be reused from now on: every field says something
  kRemoved,  // it cannot any more: key and group say which
  kCleared,  // no block can, in any group
};

// "stored", "removed", "cleared".
std::string_view NameOf(KvEventKind kind);

struct KvEvent {
  std::uint64_t sequence = 0;  // given by the log; from 1
  KvEventKind kind = KvEventKind::kStored;
  BlockKey key;
  BlockKey parent;          // the block before, or RootKey of the scope
  std::uint32_t group = 0;  // lane group
  AccountId account;
  std::span<const TokenId> tokens;  // the block's own
  std::int64_t time_ns = 0;         // when, on the clock of the process
};

// The reader is behind the log, or ahead of it (it followed another one): it needs a snapshot.
struct Gap {
  std::uint64_t oldest = 0;  // the first event that can be read, or the next to come if none can
};

struct EventLogOptions {
  std::uint64_t capacity = 0;      // events kept; 0 turns events off
  std::uint32_t block_tokens = 0;  // the most tokens an event carries
};

// 2^22 events of 16 tokens are 0.7 GiB: more than any reader is behind and still up to date.
inline constexpr std::uint64_t kMaxEventLogCapacity = 1u << 22;

// A ring. All memory is taken by the constructor: an append copies about 200 bytes.
class EventLog {
 public:
  // Precondition: capacity <= kMaxEventLogCapacity.
  explicit EventLog(const EventLogOptions& options);
  EventLog(EventLog&&) = default;  // events point into the ring, which a move leaves in place
  EventLog& operator=(EventLog&&) = delete;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // When false, Append does nothing: a caller can spare itself the keys.
  bool is_on() const { return !ring_.empty(); }
  std::uint64_t capacity() const { return ring_.size(); }
  // 0 before the first.
  std::uint64_t last_sequence() const { return last_sequence_; }
  // The first that can be read; last_sequence() + 1 when none can.
  std::uint64_t oldest_sequence() const;
  std::uint64_t memory_bytes() const;

  // Copies the event, its tokens included, and gives it the next number, whatever event.sequence
  // says; forgets the oldest when full. Precondition: at most block_tokens tokens, not this log's.
  void Append(const KvEvent& event);

  // Replaces `out` by the events from `from_sequence` on, at most `max`; none when the reader is up
  // to date (from_sequence == last_sequence() + 1). Their tokens point into the ring: valid until
  // the next Append. A Gap leaves `out` empty. O(events read).
  [[nodiscard]] std::optional<Gap> Read(std::uint64_t from_sequence, std::size_t max,
                                        std::vector<KvEvent>& out) const;

  // Walks the ring and CHECKs. O(capacity).
  void CheckInvariants() const;

 private:
  std::size_t SlotOf(std::uint64_t sequence) const { return (sequence - 1) % ring_.size(); }

  std::uint32_t block_tokens_;
  std::vector<KvEvent> ring_;    // event s lies in slot (s - 1) % capacity
  std::vector<TokenId> tokens_;  // [capacity][block_tokens]
  std::uint64_t last_sequence_ = 0;
};

struct SnapshotEntry {
  BlockKey key;
  BlockKey parent;
  std::uint32_t group = 0;
  AccountId account;
  std::vector<TokenId> tokens;

  friend bool operator==(const SnapshotEntry&, const SnapshotEntry&) = default;
};
// The block that a kStored event tells of.
SnapshotEntry EntryOf(const KvEvent& event);

// What names a block outside.
struct BlockPlace {
  BlockKey key;
  std::uint32_t group = 0;
  friend bool operator==(const BlockPlace&, const BlockPlace&) = default;
};
struct BlockPlaceHash {
  std::size_t operator()(const BlockPlace& place) const;
};

// The blocks that could be reused after event `sequence`; in any order.
struct Snapshot {
  std::uint64_t sequence = 0;
  std::vector<SnapshotEntry> entries;
};

// The state of a cache elsewhere, rebuilt from a snapshot and the events after it. It refuses what
// cannot have happened instead of guessing; its size is that of the cache it follows.
class EventReplica {
 public:
  // The state before the first event.
  EventReplica() = default;
  // Errors: kCorrupt when a block occurs twice. O(entries).
  static Result<EventReplica> FromSnapshot(Snapshot snapshot);

  // The last event applied. The next to apply is one more.
  std::uint64_t sequence() const { return sequence_; }
  std::size_t size() const { return entries_.size(); }
  // nullptr when the block is not stored. Valid until the next Apply.
  const SnapshotEntry* Find(const BlockKey& key, std::uint32_t group) const;

  // Errors, which change nothing: kInvalidArgument for an event applied before, kNotFound for a gap
  // (go on from a snapshot), kCorrupt for an event that cannot be: stored twice, removed unknown.
  Status Apply(const KvEvent& event);

  // O(size).
  Snapshot TakeSnapshot() const;
  void CheckInvariants() const;

 private:
  Status Store(const KvEvent& event);
  Status Remove(const KvEvent& event);

  std::unordered_map<BlockPlace, SnapshotEntry, BlockPlaceHash> entries_;
  std::uint64_t sequence_ = 0;
};

}  // namespace ashlar::kv
