#include "kv/event_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::kv {

std::string_view NameOf(KvEventKind kind) {
  switch (kind) {
    case KvEventKind::kStored:
      return "stored";
    case KvEventKind::kRemoved:
      return "removed";
    case KvEventKind::kCleared:
      return "cleared";
  }
  ASHLAR_CHECK(false, "unknown KvEventKind {}", static_cast<int>(kind));
}

EventLog::EventLog(const EventLogOptions& options) : block_tokens_(options.block_tokens) {
  ASHLAR_CHECK(options.capacity <= kMaxEventLogCapacity, "{} events; at most {} are kept",
               options.capacity, kMaxEventLogCapacity);
  ring_.resize(options.capacity);
  tokens_.resize(options.capacity * block_tokens_);
}

std::uint64_t EventLog::oldest_sequence() const {
  return last_sequence_ + 1 - std::min(last_sequence_, capacity());
}

std::uint64_t EventLog::memory_bytes() const {
  return ring_.size() * sizeof(KvEvent) + tokens_.size() * sizeof(TokenId);
}

void EventLog::Append(const KvEvent& event) {
  if (!is_on()) return;
  ASHLAR_CHECK(event.tokens.size() <= block_tokens_, "an event of {} tokens in a log of up to {}",
               event.tokens.size(), block_tokens_);
  const std::size_t slot = SlotOf(++last_sequence_);
  TokenId* const tokens = tokens_.data() + slot * block_tokens_;
  std::ranges::copy(event.tokens, tokens);
  ring_[slot] = event;
  ring_[slot].sequence = last_sequence_;
  ring_[slot].tokens = {tokens, event.tokens.size()};
}

std::optional<Gap> EventLog::Read(std::uint64_t from_sequence, std::size_t max,
                                  std::vector<KvEvent>& out) const {
  out.clear();
  const std::uint64_t oldest = oldest_sequence();
  const std::uint64_t end = last_sequence_ + 1;
  if (from_sequence < oldest || from_sequence > end) return Gap{.oldest = oldest};
  const std::uint64_t count = std::min<std::uint64_t>(max, end - from_sequence);
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) out.push_back(ring_[SlotOf(from_sequence + i)]);
  return std::nullopt;
}

void EventLog::CheckInvariants() const {
  ASHLAR_CHECK(is_on() || last_sequence_ == 0);
  ASHLAR_CHECK(tokens_.size() == ring_.size() * block_tokens_);
  for (std::uint64_t sequence = oldest_sequence(); sequence <= last_sequence_; ++sequence) {
    const std::size_t slot = SlotOf(sequence);
    const KvEvent& event = ring_[slot];
    ASHLAR_CHECK(event.sequence == sequence, "slot {} holds event {}, not {}", slot, event.sequence,
                 sequence);
    ASHLAR_CHECK(event.tokens.data() == tokens_.data() + slot * block_tokens_);
    ASHLAR_CHECK(event.tokens.size() <= block_tokens_);
  }
}

SnapshotEntry EntryOf(const KvEvent& event) {
  return {.key = event.key,
          .parent = event.parent,
          .group = event.group,
          .account = event.account,
          .tokens = {event.tokens.begin(), event.tokens.end()}};
}

std::size_t BlockPlaceHash::operator()(const BlockPlace& place) const {
  return std::hash<BlockKey>()(place.key) ^ MixBits(place.group);
}

Result<EventReplica> EventReplica::FromSnapshot(Snapshot snapshot) {
  EventReplica replica;
  replica.sequence_ = snapshot.sequence;
  replica.entries_.reserve(snapshot.entries.size());
  for (SnapshotEntry& entry : snapshot.entries) {
    const BlockPlace place{.key = entry.key, .group = entry.group};
    if (!replica.entries_.try_emplace(place, std::move(entry)).second) {
      return MakeError(ErrorCode::kCorrupt,
                       "the snapshot after event {} has block {} of lane group {} twice",
                       snapshot.sequence, place.key.ToHex(), place.group);
    }
  }
  return replica;
}

const SnapshotEntry* EventReplica::Find(const BlockKey& key, std::uint32_t group) const {
  const auto found = entries_.find(BlockPlace{.key = key, .group = group});
  return found == entries_.end() ? nullptr : &found->second;
}

Status EventReplica::Apply(const KvEvent& event) {
  const std::uint64_t next = sequence_ + 1;
  if (event.sequence < next) {
    return MakeError(ErrorCode::kInvalidArgument, "event {} was applied before: the next is {}",
                     event.sequence, next);
  }
  if (event.sequence > next) {
    return MakeError(ErrorCode::kNotFound,
                     "event {} comes where {} is due: go on from a snapshot of {} or later",
                     event.sequence, next, event.sequence - 1);
  }
  switch (event.kind) {
    case KvEventKind::kStored:
      ASHLAR_TRY(Store(event));
      break;
    case KvEventKind::kRemoved:
      ASHLAR_TRY(Remove(event));
      break;
    case KvEventKind::kCleared:
      entries_.clear();
      break;
    default:  // from outside: any number
      return MakeError(ErrorCode::kCorrupt, "event {} is of kind {}, which is none", event.sequence,
                       static_cast<int>(event.kind));
  }
  sequence_ = next;
  return {};
}

Status EventReplica::Store(const KvEvent& event) {
  const BlockPlace place{.key = event.key, .group = event.group};
  const auto [entry, is_new] = entries_.try_emplace(place);
  if (!is_new) {
    return MakeError(ErrorCode::kCorrupt, "event {} stores block {} of lane group {} a second time",
                     event.sequence, event.key.ToHex(), event.group);
  }
  entry->second = EntryOf(event);
  return {};
}

Status EventReplica::Remove(const KvEvent& event) {
  if (entries_.erase(BlockPlace{.key = event.key, .group = event.group}) == 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "event {} removes block {} of lane group {}, which is not stored",
                     event.sequence, event.key.ToHex(), event.group);
  }
  return {};
}

Snapshot EventReplica::TakeSnapshot() const {
  Snapshot snapshot{.sequence = sequence_};
  snapshot.entries.reserve(entries_.size());
  for (const auto& [place, entry] : entries_) snapshot.entries.push_back(entry);
  return snapshot;
}

void EventReplica::CheckInvariants() const {
  for (const auto& [place, entry] : entries_) {
    ASHLAR_CHECK(place.key == entry.key && place.group == entry.group,
                 "block {} is filed under another name", entry.key.ToHex());
  }
}

}  // namespace ashlar::kv
