// GET /kv/events: the cache's events as server-sent events, from any number on.
//
//   id: 5c1e...:57                                      the log's name and the event's number
//   event: stored | removed | cleared
//   data: {"seq":57,"key":"...","parent":"...","group":0,"account":0,"tokens":[...],"time_ns":...}
//
// A stream begins with `hello` (what the log is and has). A reader that asks for more than the log
// still has is told so (`gap`) and gets the whole state in `snapshot` pieces, as does one that asks
// for no number; what follows are the events after it. An EventSource that reconnects sends the
// last id back and goes on where it was, or finds a gap.
//
//   ?from=SEQ   events from this number on (0 and 1: from the first)
//   ?from=now   only what comes
//   (nothing)   a snapshot, then what comes
//
// One thread asks the engine for events and writes them: readers never touch the engine. A reader
// has about max_unsent_bytes before it; while it does not take them it waits, and once the log has
// forgotten what it lacks its stream is cut.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/control.h"
#include "kv/event_log.h"
#include "kv/snapshot_builder.h"
#include "net/http_server.h"
#include "server/api_error.h"
#include "server/metrics.h"
#include "server/reply.h"

namespace ashlar::server {

struct EventStreamOptions {
  std::size_t max_streams = 32;               // more are answered 503
  std::size_t max_unsent_bytes = 256u << 10;  // of a stream, before it waits for its reader
};

class EventStream {
 public:
  static constexpr std::size_t kEventsAtOnce = 256;    // of one question to the engine
  static constexpr std::uint32_t kNodesAtOnce = 8192;  // likewise, for a snapshot
  static constexpr int kMaxFailedBuilds = 8;  // of a snapshot, because the log was too short
  static constexpr std::size_t kSnapshotEntriesAtOnce = 256;  // of one `snapshot`
  static constexpr std::int64_t kPauseMs = 20;                // between looks for news

  // `control` must outlive this.
  explicit EventStream(engine::Control& control, const EventStreamOptions& options = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Does not block.
  void Open(const net::HttpRequest& request, const Reply& reply);
  // Ends all streams, and those to come, at once. Idempotent.
  void Stop();

  EventStreamCounts counts() const;

 private:
  struct Start {
    std::uint64_t from = 0;
    bool is_now = false;
    bool is_snapshot = false;
    std::string other_log;  // the reader followed this one
  };
  struct Stream {
    Stream(Reply its_reply, Start its_start)
        : reply(std::move(its_reply)), start(std::move(its_start)) {}

    const Reply reply;
    const Start start;
    bool has_begun = false;
    std::uint64_t next = 0;                      // event
    std::optional<kv::SnapshotBuilder> builder;  // while a snapshot is put together
    int failed_builds = 0;
    std::optional<kv::Snapshot> snapshot;  // while it is told
    std::size_t snapshot_told = 0;         // entries
  };
  enum class Outcome : std::uint8_t { kMore, kWaits, kOver };

  ApiResult<Start> StartOf(const net::HttpRequest& request) const;
  void Loop();
  Outcome Advance(Stream& stream);
  bool Begin(Stream& stream);
  Outcome BuildSnapshot(Stream& stream);
  Outcome TellSnapshot(Stream& stream);
  Outcome TellEvents(Stream& stream);
  void TellGap(const Stream& stream, std::uint64_t oldest) const;
  static Outcome End(const Stream& stream);
  Outcome Cut();

  engine::Control& control_;
  const EventStreamOptions options_;
  const std::string log_;  // names the log: numbers mean nothing in another

  std::list<Stream> streams_;  // the loop's

  mutable std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::list<Stream> arrivals_;
  EventStreamCounts counts_;
  bool is_stopped_ = false;

  std::thread thread_;  // last
};

}  // namespace ashlar::server
