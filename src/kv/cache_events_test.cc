// What the outside is told: events from any point on lead to what can be found now.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

std::vector<SnapshotEntry> Sorted(Snapshot snapshot) {
  std::ranges::sort(snapshot.entries, [](const SnapshotEntry& a, const SnapshotEntry& b) {
    return std::pair(a.key, a.group) < std::pair(b.key, b.group);
  });
  return std::move(snapshot.entries);
}

// GCC 12 sees the error's string freed that is not there when this is inlined.
[[gnu::noinline]] EventReplica ReplicaOf(Snapshot snapshot) {
  return *EventReplica::FromSnapshot(std::move(snapshot));
}

// A reader that may fall behind, and to whom everything may be delivered twice.
class Reader {
 public:
  explicit Reader(const KvCache& cache) : cache_(cache) {}

  void Read(std::size_t most) {
    std::vector<KvEvent> events;
    if (cache_.events().Read(replica_.sequence() + 1, most, events)) {
      ++gaps_;
      replica_ = ReplicaOf(cache_.TakeSnapshot());
      return;
    }
    for (const KvEvent& event : events) {
      ASSERT_TRUE(replica_.Apply(event).ok()) << "event " << event.sequence;
    }
    for (const KvEvent& event : events) {
      ASSERT_EQ(replica_.Apply(event).error().code, ErrorCode::kInvalidArgument);
    }
    if (events.size() >= 2) {
      KvEvent later = events[0];
      later.sequence = replica_.sequence() + 2;
      ASSERT_EQ(replica_.Apply(later).error().code, ErrorCode::kNotFound);
    }
    replica_.CheckInvariants();
  }
  bool is_up_to_date() const { return replica_.sequence() == cache_.events().last_sequence(); }
  int gaps() const { return gaps_; }
  std::vector<SnapshotEntry> entries() const { return Sorted(replica_.TakeSnapshot()); }

 private:
  const KvCache& cache_;
  EventReplica replica_;
  int gaps_ = 0;
};

class CacheEvents : public ::testing::TestWithParam<std::string> {};

TEST_P(CacheEvents, ReplayEqualsTheSnapshotDespiteDuplicatesAndGaps) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CacheScene scene(layout, {.memory_bytes = BytesOfOneOfEach(layout) * 20, .max_events = 30});
    Reader reader(scene.cache());
    for (std::uint64_t i = 0; i < 300; ++i) {
      const Tokens text =
          Join(First(Text(RandomBits(seed, 1, i) % 4, 100), RandomBits(seed, 2, i) % 90),
               Text(10 + RandomBits(seed, 3, i) % 9, 1 + RandomBits(seed, 4, i) % 30));
      if (Admission admission = scene.Admit(text); admission.sequence) {
        scene.Finish(*admission.sequence, text);
      }
      if (i % 97 == 96) scene->Invalidate();
      if (i % 89 == 88) scene->ResetAll();
      if (RandomBits(seed, 5, i) % 3 == 0) reader.Read(1 + RandomBits(seed, 6, i) % 100);
    }
    while (!reader.is_up_to_date()) reader.Read(7);
    EXPECT_EQ(reader.entries(), Sorted(scene->TakeSnapshot()));
    EXPECT_GT(reader.gaps(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CacheEvents,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });

std::vector<KvEvent> EventsOf(CacheScene& scene, std::uint64_t from) {
  std::vector<KvEvent> events;
  EXPECT_FALSE(scene->events().Read(from, 1000, events));
  return events;
}

TEST(CacheEventsTold, BlockIsToldWhenStoredWhenReplacedAndNeverBetween) {
  CacheScene scene(LayoutNamed("full"), RoomFor(3));
  scene.clock().AdvanceNs(5);
  const Tokens text = Text(1, 16);
  scene.Serve(text);
  std::vector<KvEvent> events = EventsOf(scene, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, KvEventKind::kStored);
  EXPECT_EQ(events[0].parent, RootKey(scene.PromptOf(text).digest));
  EXPECT_EQ(events[0].key, KeyHasher().NextKey(events[0].parent, text));
  EXPECT_EQ(events[0].time_ns, 5);
  EXPECT_TRUE(std::ranges::equal(events[0].tokens, text));
  const BlockKey key = events[0].key;
  scene.Touch(text);
  scene.Serve(text);
  EXPECT_EQ(scene->events().last_sequence(), 1u);
  scene.Serve(Text(2, 48));
  events = EventsOf(scene, 2);
  EXPECT_EQ(std::ranges::count_if(events,
                                  [&](const KvEvent& event) {
                                    return event.kind == KvEventKind::kRemoved && event.key == key;
                                  }),
            1);
}

TEST(CacheEventsTold, ClearedIsToldOnceAndWhatLeavesAfterwardsIsNot) {
  CacheScene scene(LayoutNamed("full"), RoomFor(4));
  scene.Serve(Text(1, 64));
  const std::uint64_t last = scene->events().last_sequence();
  scene->Invalidate();
  EXPECT_EQ(EventsOf(scene, last + 1).size(), 1u);
  EXPECT_EQ(EventsOf(scene, last + 1)[0].kind, KvEventKind::kCleared);
  scene.Serve(Text(2, 64), {.reuse = Reuse::kOff});  // takes the memory of all that is stale
  EXPECT_EQ(scene->events().last_sequence(), last + 1);
}

}  // namespace
}  // namespace ashlar::kv
