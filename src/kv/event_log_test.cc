#include "kv/event_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace ashlar::kv {
namespace {

constexpr std::uint32_t kBlockTokens = 4;

BlockKey KeyOf(std::uint8_t name) {
  BlockKey key;
  key.bytes[0] = name;
  return key;
}

KvEvent Stored(std::uint8_t name, std::span<const TokenId> tokens = {}, std::uint32_t group = 0) {
  return {.kind = KvEventKind::kStored,
          .key = KeyOf(name),
          .parent = KeyOf(0),
          .group = group,
          .account = AccountId(static_cast<std::uint16_t>(name % 3)),
          .tokens = tokens};
}
KvEvent Removed(std::uint8_t name, std::uint32_t group = 0) {
  return {.kind = KvEventKind::kRemoved, .key = KeyOf(name), .group = group};
}
KvEvent Cleared() { return {.kind = KvEventKind::kCleared}; }

KvEvent Numbered(std::uint64_t sequence, KvEvent event) {
  event.sequence = sequence;
  return event;
}

EventLog LogOf(std::uint64_t capacity, int events) {
  EventLog log({.capacity = capacity, .block_tokens = kBlockTokens});
  for (int i = 0; i < events; ++i) log.Append(Stored(static_cast<std::uint8_t>(i)));
  log.CheckInvariants();
  return log;
}

using Sequences = std::vector<std::uint64_t>;

Sequences SequencesOf(const std::vector<KvEvent>& events) {
  Sequences sequences(events.size());
  std::ranges::transform(events, sequences.begin(), &KvEvent::sequence);
  return sequences;
}

TEST(EventLog, GivesBackWhatWasAppended) {
  EventLog log({.capacity = 3, .block_tokens = kBlockTokens});
  std::vector<TokenId> tokens = {5, 6, 7, 8};
  KvEvent event = Stored(2, tokens, 1);
  event.sequence = 99;  // the log's business
  event.time_ns = 1234;
  log.Append(event);
  tokens.assign(4, 0);  // the log has its own copy

  std::vector<KvEvent> read;
  ASSERT_FALSE(log.Read(1, 10, read));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].sequence, 1u);
  EXPECT_EQ(read[0].kind, KvEventKind::kStored);
  EXPECT_EQ(read[0].key, KeyOf(2));
  EXPECT_EQ(read[0].parent, KeyOf(0));
  EXPECT_EQ(read[0].group, 1u);
  EXPECT_EQ(read[0].account, AccountId(2));
  EXPECT_EQ(read[0].time_ns, 1234);
  EXPECT_TRUE(std::ranges::equal(read[0].tokens, std::vector<TokenId>{5, 6, 7, 8}));
}

TEST(EventLog, NumbersFromOneWithoutGapsAndKeepsTheLast) {
  for (int events = 0; events <= 20; ++events) {
    const EventLog log = LogOf(7, events);
    const std::uint64_t last = static_cast<std::uint64_t>(events);
    EXPECT_EQ(log.last_sequence(), last);
    EXPECT_EQ(log.oldest_sequence(), last <= 7 ? 1 : last - 6);
    std::vector<KvEvent> read;
    ASSERT_FALSE(log.Read(log.oldest_sequence(), 100, read));
    Sequences expected;
    for (std::uint64_t s = log.oldest_sequence(); s <= last; ++s) expected.push_back(s);
    EXPECT_EQ(SequencesOf(read), expected);
    for (const KvEvent& event : read) {
      EXPECT_EQ(event.key, KeyOf(static_cast<std::uint8_t>(event.sequence - 1)));
    }
  }
}

TEST(EventLog, AReaderOneEventTooLateIsToldOfTheGap) {
  const EventLog log = LogOf(4, 10);  // holds 7 to 10
  std::vector<KvEvent> read = {Cleared()};
  const std::optional<Gap> gap = log.Read(6, 100, read);
  ASSERT_TRUE(gap.has_value());
  EXPECT_EQ(gap->oldest, 7u);
  EXPECT_TRUE(read.empty());
  EXPECT_FALSE(log.Read(7, 100, read));
  EXPECT_EQ(SequencesOf(read), (Sequences{7, 8, 9, 10}));
  EXPECT_FALSE(log.Read(8, 100, read));
  EXPECT_EQ(SequencesOf(read), (Sequences{8, 9, 10}));
  EXPECT_TRUE(log.Read(0, 100, read));
}

TEST(EventLog, AReaderAheadOfTheLogFollowedAnotherOne) {
  const EventLog log = LogOf(4, 10);
  std::vector<KvEvent> read;
  EXPECT_FALSE(log.Read(10, 100, read));
  EXPECT_EQ(SequencesOf(read), (Sequences{10}));
  EXPECT_FALSE(log.Read(11, 100, read));  // up to date
  EXPECT_TRUE(read.empty());
  EXPECT_TRUE(log.Read(12, 100, read));
  EXPECT_EQ(LogOf(4, 0).Read(2, 100, read)->oldest, 1u);
}

TEST(EventLog, ReadsAtMostWhatWasAskedFor) {
  const EventLog log = LogOf(4, 10);
  std::vector<KvEvent> read;
  EXPECT_FALSE(log.Read(8, 0, read));
  EXPECT_TRUE(read.empty());
  EXPECT_FALSE(log.Read(8, 2, read));
  EXPECT_EQ(SequencesOf(read), (Sequences{8, 9}));
  EXPECT_FALSE(log.Read(8, 3, read));
  EXPECT_EQ(SequencesOf(read), (Sequences{8, 9, 10}));
}

TEST(EventLog, OfCapacityZeroIsOff) {
  EventLog log = LogOf(0, 5);
  EXPECT_FALSE(log.is_on());
  EXPECT_EQ(log.last_sequence(), 0u);
  EXPECT_EQ(log.memory_bytes(), 0u);
  std::vector<KvEvent> read;
  EXPECT_FALSE(log.Read(1, 100, read));
  EXPECT_TRUE(read.empty());
}

TEST(EventLog, TakesItsMemoryAtConstruction) {
  const std::uint64_t bytes = 7 * (sizeof(KvEvent) + kBlockTokens * sizeof(TokenId));
  EXPECT_EQ(LogOf(7, 0).memory_bytes(), bytes);
  EXPECT_EQ(LogOf(7, 20).memory_bytes(), bytes);
}

TEST(EventLogDeathTest, StopsOnMisuse) {
  EventLog log = LogOf(2, 0);
  const std::vector<TokenId> tokens(kBlockTokens + 1);
  log.Append(Stored(1, std::span(tokens).first(kBlockTokens)));
  EXPECT_DEATH(log.Append(Stored(1, tokens)), "an event of 5 tokens in a log of up to 4");
  EXPECT_DEATH(EventLog({.capacity = kMaxEventLogCapacity + 1}), "events; at most");
}

// The cache's side, written naively.
class TrueState {
 public:
  KvEvent RandomEvent(std::mt19937& random) {
    const auto name = static_cast<std::uint8_t>(1 + random() % 20);
    const std::uint32_t group = random() % 2;
    if (random() % 50 == 0) {
      entries_.clear();
      return Cleared();
    }
    if (entries_.erase({name, group}) == 1) return Removed(name, group);
    tokens_.resize(random() % (kBlockTokens + 1));
    for (TokenId& token : tokens_) token = static_cast<TokenId>(random() % 1000);
    const KvEvent event = Stored(name, tokens_, group);
    entries_[{name, group}] = {event.key, event.parent, group, event.account, tokens_};
    return event;
  }

  Snapshot SnapshotAt(std::uint64_t sequence) const {
    Snapshot snapshot{.sequence = sequence};
    for (const auto& [place, entry] : entries_) snapshot.entries.push_back(entry);
    return snapshot;
  }

 private:
  std::map<std::pair<std::uint8_t, std::uint32_t>, SnapshotEntry> entries_;
  std::vector<TokenId> tokens_;
};

void ExpectSame(Snapshot actual, const Snapshot& expected) {
  EXPECT_EQ(actual.sequence, expected.sequence);
  std::ranges::sort(actual.entries, {},
                    [](const SnapshotEntry& entry) { return std::pair(entry.key, entry.group); });
  EXPECT_EQ(actual.entries, expected.entries);
}

TEST(EventReplica, ReplayFromAnySurvivingSnapshotGivesTheTruth) {
  constexpr std::uint64_t kCapacity = 16;
  std::mt19937 random(1);
  TrueState truth;
  EventLog log({.capacity = kCapacity, .block_tokens = kBlockTokens});
  std::vector<Snapshot> snapshots = {truth.SnapshotAt(0)};
  std::vector<KvEvent> events;
  for (std::uint64_t last = 1; last <= 300; ++last) {
    log.Append(truth.RandomEvent(random));
    log.CheckInvariants();
    snapshots.push_back(truth.SnapshotAt(last));
    const std::uint64_t oldest = log.oldest_sequence();
    for (std::uint64_t start = oldest - 1; start <= last; ++start) {
      auto replica = EventReplica::FromSnapshot(snapshots[start]);
      ASSERT_TRUE(replica.ok());
      ASSERT_FALSE(log.Read(start + 1, kCapacity, events));
      for (const KvEvent& event : events) {
        ASSERT_TRUE(replica->Apply(event).ok());
        replica->CheckInvariants();
      }
      ExpectSame(replica->TakeSnapshot(), snapshots[last]);
    }
    if (oldest > 1) {
      ASSERT_TRUE(log.Read(oldest - 1, kCapacity, events));
    }
  }
}

TEST(EventReplica, FollowsALogFromItsFirstEvent) {
  std::mt19937 random(2);
  TrueState truth;
  EventLog log({.capacity = 8, .block_tokens = kBlockTokens});
  EventReplica replica;
  std::vector<KvEvent> events;
  for (std::uint64_t last = 1; last <= 500; ++last) {
    log.Append(truth.RandomEvent(random));
    if (random() % 5 != 0 && last % 8 != 0) continue;  // reads late, never too late
    ASSERT_FALSE(log.Read(replica.sequence() + 1, 100, events));
    for (const KvEvent& event : events) ASSERT_TRUE(replica.Apply(event).ok());
    ExpectSame(replica.TakeSnapshot(), truth.SnapshotAt(last));
  }
}

TEST(EventReplica, KnowsABlockPerGroup) {
  const std::vector<TokenId> tokens = {1, 2, 3};
  EventReplica replica;
  ASSERT_TRUE(replica.Apply(Numbered(1, Stored(5, tokens, 0))).ok());
  ASSERT_TRUE(replica.Apply(Numbered(2, Stored(5, tokens, 1))).ok());
  ASSERT_TRUE(replica.Apply(Numbered(3, Removed(5, 0))).ok());
  EXPECT_EQ(replica.size(), 1u);
  EXPECT_EQ(replica.Find(KeyOf(5), 0), nullptr);
  ASSERT_NE(replica.Find(KeyOf(5), 1), nullptr);
  EXPECT_EQ(*replica.Find(KeyOf(5), 1),
            (SnapshotEntry{KeyOf(5), KeyOf(0), 1, AccountId(2), tokens}));
  ASSERT_TRUE(replica.Apply(Numbered(4, Cleared())).ok());
  EXPECT_EQ(replica.size(), 0u);
  EXPECT_EQ(replica.sequence(), 4u);
}

// What was refused, with what words; nothing may have changed.
void ExpectRefused(EventReplica& replica, const KvEvent& event, ErrorCode code,
                   std::string_view words) {
  const std::uint64_t sequence = replica.sequence();
  const std::size_t size = replica.size();
  const Status status = replica.Apply(event);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, code);
  EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
  EXPECT_EQ(replica.sequence(), sequence);
  EXPECT_EQ(replica.size(), size);
  replica.CheckInvariants();
}

TEST(EventReplica, RefusesAGapAndARepetition) {
  auto replica = EventReplica::FromSnapshot({.sequence = 10, .entries = {}});
  ASSERT_TRUE(replica.ok());
  ExpectRefused(*replica, Numbered(12, Stored(1)), ErrorCode::kNotFound,
                "event 12 comes where 11 is due: go on from a snapshot of 11 or later");
  ExpectRefused(*replica, Numbered(10, Stored(1)), ErrorCode::kInvalidArgument,
                "event 10 was applied before: the next is 11");
  EXPECT_TRUE(replica->Apply(Numbered(11, Stored(1))).ok());
}

TEST(EventReplica, RefusesWhatCannotHaveHappened) {
  EventReplica replica;
  ExpectRefused(replica, Numbered(1, Removed(1)), ErrorCode::kCorrupt,
                "event 1 removes block 01" + std::string(62, '0') + " of lane group 0");
  ASSERT_TRUE(replica.Apply(Numbered(1, Stored(1))).ok());
  ExpectRefused(replica, Numbered(2, Stored(1)), ErrorCode::kCorrupt, "event 2 stores block 01");
  ExpectRefused(replica, Numbered(2, Removed(1, 1)), ErrorCode::kCorrupt, "of lane group 1");
  ExpectRefused(replica, Numbered(2, {.kind = static_cast<KvEventKind>(9)}), ErrorCode::kCorrupt,
                "event 2 is of kind 9");
}

TEST(EventReplica, RefusesASnapshotWithABlockTwice) {
  const SnapshotEntry entry{.key = KeyOf(3)};
  SnapshotEntry in_another_group = entry;
  in_another_group.group = 1;
  EXPECT_TRUE(EventReplica::FromSnapshot({.entries = {entry, in_another_group}}).ok());
  const auto replica = EventReplica::FromSnapshot({.sequence = 4, .entries = {entry, entry}});
  ASSERT_FALSE(replica.ok());
  EXPECT_EQ(replica.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(replica.error().message.find("the snapshot after event 4 has block 03"),
            std::string::npos);
}

TEST(EventKinds, HaveNames) {
  EXPECT_EQ(NameOf(KvEventKind::kStored), "stored");
  EXPECT_EQ(NameOf(KvEventKind::kRemoved), "removed");
  EXPECT_EQ(NameOf(KvEventKind::kCleared), "cleared");
}

}  // namespace
}  // namespace ashlar::kv
