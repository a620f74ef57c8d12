#include "server/event_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/event_log.h"
#include "server/testing/control_fixture.h"

namespace ashlar::server {
namespace {

using testing::CapturedAnswer;
using testing::ControlFixture;

// What a router makes of a stream: nothing but the text is known to it.
class Reader {
 public:
  struct Message {
    std::string id;
    std::string kind;
    Json data;
  };

  // Of whole messages; comments are skipped.
  static std::vector<Message> Parse(const std::string& text) {
    std::vector<Message> messages;
    for (std::size_t at = 0, end = 0; (end = text.find("\n\n", at)) != std::string::npos;
         at = end + 2) {
      Message message;
      for (std::size_t line = at; line < end;) {
        const std::size_t line_end = std::min(text.find('\n', line), end);
        const std::string field = text.substr(line, line_end - line);
        if (field.starts_with("id: ")) message.id = field.substr(4);
        if (field.starts_with("event: ")) message.kind = field.substr(7);
        if (field.starts_with("data: ")) message.data = ParseJson(field.substr(6)).value();
        line = line_end + 1;
      }
      if (!message.kind.empty()) messages.push_back(std::move(message));
    }
    return messages;
  }

  void Read(const Message& message) {
    if (!message.id.empty()) last_id_ = message.id;
    const Json& data = message.data;
    if (message.kind == "gap") {
      ++gaps_;
    } else if (message.kind == "snapshot") {
      for (const Json& entry : data["entries"]) pieces_.entries.push_back(EntryOf(entry));
      if (!data["is_last"].get<bool>()) return;
      pieces_.sequence = data["seq"];
      auto replica = kv::EventReplica::FromSnapshot(std::exchange(pieces_, {}));
      ASSERT_TRUE(replica.ok()) << replica.error().message;
      replica_ = *std::move(replica);
    } else if (message.kind != "hello") {
      kv::KvEvent event{.sequence = data["seq"]};
      std::vector<TokenId> tokens;
      if (message.kind == "cleared") {
        event.kind = kv::KvEventKind::kCleared;
      } else {
        event.key = KeyOf(data["key"]);
        event.group = data["group"];
        event.kind = kv::KvEventKind::kRemoved;
      }
      if (message.kind == "stored") {
        event.kind = kv::KvEventKind::kStored;
        event.parent = KeyOf(data["parent"]);
        event.account = kv::AccountId(data["account"].get<std::uint16_t>());
        tokens = data["tokens"].get<std::vector<TokenId>>();
        event.tokens = tokens;
      }
      const Status applied = replica_.Apply(event);
      ASSERT_TRUE(applied.ok()) << message.kind << " " << event.sequence << ": "
                                << applied.error().message;
    }
  }

  // All that was told so far, once event `last` is among it.
  void ReadUpTo(CapturedAnswer& answer, std::uint64_t last) {
    const std::string mark = "\"seq\":" + std::to_string(last) + ",";
    if (last > 0) {
      ASSERT_TRUE(answer.WaitFor(mark)) << answer.body();
    }
    const auto messages = Parse(answer.body());
    for (std::size_t i = read_; i < messages.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(Read(messages[i]));
    }
    read_ = messages.size();
  }
  void NewConnection() { read_ = 0; }

  const kv::EventReplica& replica() const { return replica_; }
  const std::string& last_id() const { return last_id_; }
  int gaps() const { return gaps_; }

 private:
  static kv::BlockKey KeyOf(const Json& hex) {
    const std::string text = hex;
    kv::BlockKey key;
    for (std::size_t i = 0; i < key.bytes.size(); ++i) {
      key.bytes[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
    }
    return key;
  }
  static kv::SnapshotEntry EntryOf(const Json& entry) {
    return {.key = KeyOf(entry["key"]),
            .parent = KeyOf(entry["parent"]),
            .group = entry["group"],
            .account = kv::AccountId(entry["account"].get<std::uint16_t>()),
            .tokens = entry["tokens"].get<std::vector<TokenId>>()};
  }

  kv::EventReplica replica_;
  kv::Snapshot pieces_;
  std::string last_id_;
  std::size_t read_ = 0;  // messages of this connection
  int gaps_ = 0;
};

std::vector<kv::SnapshotEntry> Sorted(kv::Snapshot snapshot) {
  std::ranges::sort(snapshot.entries, [](const auto& a, const auto& b) {
    return std::pair(a.key, a.group) < std::pair(b.key, b.group);
  });
  return std::move(snapshot.entries);
}

class EventStreamTest : public ControlFixture {
 protected:
  using ControlFixture::ControlFixture;

  std::shared_ptr<CapturedAnswer> Follow(const std::string& query,
                                         const std::string& last_id = "") {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!last_id.empty()) headers.emplace_back("last-event-id", last_id);
    return Start("GET", "/kv/events" + query, "", std::move(headers));
  }

  // Follows the stream to the engine's last event and compares with the cache.
  void ExpectExact(Reader& reader, CapturedAnswer& answer) {
    kv::SnapshotBuilder whole;
    whole.Add(*runner_.ReadSnapshotPart(0, engine::Control::kMaxSnapshotNodes));
    const kv::Snapshot truth = whole.Finish();
    ASSERT_NO_FATAL_FAILURE(reader.ReadUpTo(answer, truth.sequence));
    EXPECT_EQ(reader.replica().sequence(), truth.sequence);
    EXPECT_EQ(Sorted(reader.replica().TakeSnapshot()), Sorted(truth));
  }

  // Fills, replaces and clears.
  void Live(int from_seed) {
    for (int seed = from_seed; seed < from_seed + 12; ++seed)
      Complete(seed, 30 + 7 * seed % 90, 20);
  }
};

TEST_F(EventStreamTest, EventsFromTheFirstRebuildTheIndexExactly) {
  Live(1);
  const auto answer = Follow("?from=1");
  Reader reader;
  ExpectExact(reader, *answer);
  Live(20);  // while it follows
  ExpectExact(reader, *answer);
  ASSERT_TRUE(*runner_.ResetPrefixCache(engine::WhenBusy::kForce));
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.replica().size(), 0u);
  Live(5);
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 0);
  EXPECT_EQ(answer->Header("Content-Type"), "text/event-stream; charset=utf-8");
}

TEST_F(EventStreamTest, WithoutANumberItBeginsWithASnapshot) {
  Live(1);
  const auto answer = Follow("");
  Reader reader;
  ExpectExact(reader, *answer);
  Live(40);
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 0);
}

TEST_F(EventStreamTest, NowTellsOnlyWhatComes) {
  Live(1);
  const std::uint64_t before = IdleReport()->events;
  const auto answer = Follow("?from=now");
  ASSERT_TRUE(answer->WaitFor("event: hello"));
  Live(50);
  ASSERT_TRUE(answer->WaitFor("\"seq\":" + std::to_string(before + 1) + ","));
  const auto messages = Reader::Parse(answer->body());
  EXPECT_EQ(messages[0].data["last"], before);
  EXPECT_EQ(messages[1].data["seq"], before + 1);
}

TEST_F(EventStreamTest, ComingBackGoesOnWhereItWas) {
  Live(1);
  Reader reader;
  {
    const auto answer = Follow("?from=1");
    ExpectExact(reader, *answer);
    answer->Leave();
  }
  Live(60);
  reader.NewConnection();
  // As an EventSource does: the same address, and the last id.
  const auto answer = Follow("?from=1", reader.last_id());
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 0);
  EXPECT_EQ(answer->body().find("event: snapshot"), std::string::npos);
}

TEST_F(EventStreamTest, AnIdOfAnotherLogIsAGap) {
  Live(1);
  const auto answer = Follow("", "0123456789abcdef:7");
  Reader reader;
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 1);
  EXPECT_NE(answer->body().find("another log"), std::string::npos);
}

TEST_F(EventStreamTest, ANumberThatIsNotThereYetIsAGap) {
  Live(1);
  const auto answer = Follow("?from=1000000");
  Reader reader;
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 1);
}

TEST_F(EventStreamTest, WhatIsWrongIsNamed) {
  for (const std::string query : {"?from=x", "?from=-1", "?from=1.5", "?form=1", "?from="}) {
    const auto answer = Follow(query);
    ASSERT_TRUE(answer->Wait());
    EXPECT_EQ(answer->status(), 400) << query;
  }
  for (const std::string id : {"7", "x:y", ":"}) {
    const auto answer = Follow("", id);
    ASSERT_TRUE(answer->Wait());
    EXPECT_EQ(answer->json()["error"]["param"], "Last-Event-ID") << id;
  }
}

TEST_F(EventStreamTest, StoppingEndsStreams) {
  const auto answer = Follow("");
  ASSERT_TRUE(answer->WaitFor("event: snapshot"));
  control_.Stop();
  EXPECT_TRUE(answer->Wait());
  EXPECT_FALSE(answer->is_cut());
  const auto late = Follow("");
  ASSERT_TRUE(late->Wait());
  EXPECT_EQ(late->status(), 503);
}

engine::EngineOptions FewEvents() {
  engine::EngineOptions options = testing::ControlEngineOptions();
  options.max_events = 32;
  return options;
}

class ShortLogTest : public EventStreamTest {
 protected:
  ShortLogTest() : EventStreamTest(FewEvents(), {.max_streams = 2, .max_unsent_bytes = 1}) {}
};

TEST_F(ShortLogTest, AReaderThatAsksForTooOldAnEventIsTold) {
  Live(1);
  const auto answer = Follow("?from=1");
  Reader reader;
  ExpectExact(reader, *answer);
  EXPECT_EQ(reader.gaps(), 1);
}

// It takes nothing: the log goes on without it, and the engine never waits.
TEST_F(ShortLogTest, ASlowReaderIsCut) {
  const auto slow = Follow("?from=now");
  while (slow->unsent_bytes() == 0) std::this_thread::yield();
  Live(1);
  EXPECT_TRUE(slow->Wait());
  EXPECT_TRUE(slow->is_cut());
  EXPECT_NE(Ask("GET", "/metrics")->body().find("ashlar:kv_event_streams_cut_total 1\n"),
            std::string::npos);
}

TEST_F(ShortLogTest, StreamsHaveABound) {
  const auto first = Follow("");
  const auto second = Follow("");
  ASSERT_TRUE(first->WaitFor("event: snapshot"));
  ASSERT_TRUE(second->WaitFor("event: snapshot"));
  const auto third = Follow("");
  ASSERT_TRUE(third->Wait());
  EXPECT_EQ(third->status(), 503);
  first->Leave();
  // A place is free once the loop has seen that it left.
  for (;;) {
    const auto next = Follow("");
    ASSERT_TRUE(next->WaitFor("\n\n") || next->status() == 503);
    if (next->status() == 200) break;
  }
}

class NoEventsTest : public EventStreamTest {
 protected:
  NoEventsTest() : EventStreamTest(engine::TinyEngine::DefaultOptions()) {}
};

TEST_F(NoEventsTest, WithoutEventsItSaysWhatToDo) {
  const auto answer = Follow("");
  ASSERT_TRUE(answer->Wait());
  EXPECT_NE(answer->body().find("--kv-events"), std::string::npos) << answer->body();
  const Json state = Ask("GET", "/kv/state")->json();
  EXPECT_EQ(state["tree"]["nodes"], 0);
}

}  // namespace
}  // namespace ashlar::server
