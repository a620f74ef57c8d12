#include "server/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <random>
#include <span>
#include <utility>

#include "base/rng.h"
#include "kv/block_key.h"
#include "server/api_error.h"
#include "server/query.h"

namespace ashlar::server {
namespace {

std::string NewLogName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

void AppendTokens(std::span<const TokenId> tokens, std::string& out) {
  fmt::format_to(std::back_inserter(out), R"(,"tokens":[{}])", fmt::join(tokens, ","));
}

// What a reader needs to know the block by.
void AppendBlock(const kv::BlockKey& key, const kv::BlockKey& parent, std::uint32_t group,
                 kv::AccountId account, std::span<const TokenId> tokens, std::string& out) {
  fmt::format_to(std::back_inserter(out), R"("key":"{}","parent":"{}","group":{},"account":{})",
                 key.ToHex(), parent.ToHex(), group, account.value());
  AppendTokens(tokens, out);
}

void AppendEvent(std::string_view log, const kv::KvEvent& event, std::string& out) {
  fmt::format_to(std::back_inserter(out), "id: {}:{}\nevent: {}\ndata: {{\"seq\":{},", log,
                 event.sequence, NameOf(event.kind), event.sequence);
  switch (event.kind) {
    case kv::KvEventKind::kStored:
      AppendBlock(event.key, event.parent, event.group, event.account, event.tokens, out);
      out.push_back(',');
      break;
    case kv::KvEventKind::kRemoved:
      fmt::format_to(std::back_inserter(out), R"("key":"{}","group":{},)", event.key.ToHex(),
                     event.group);
      break;
    case kv::KvEventKind::kCleared:
      break;
  }
  fmt::format_to(std::back_inserter(out), "\"time_ns\":{}}}\n\n", event.time_ns);
}

}  // namespace

EventStream::EventStream(engine::Control& control, const EventStreamOptions& options)
    : control_(control), options_(options), log_(NewLogName()), thread_([this] { Loop(); }) {}

EventStream::~EventStream() { Stop(); }

void EventStream::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

EventStreamCounts EventStream::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

ApiResult<EventStream::Start> EventStream::StartOf(const net::HttpRequest& request) const {
  ApiResult<Query> query = Query::Parse(request.query, {"from"});
  if (!query.ok()) return query.error();
  Start start;
  // A reader that comes again sends what it asked for first, too: where it was goes before that.
  const std::string_view last_id = request.Header("last-event-id");
  if (!last_id.empty()) {
    const std::size_t colon = last_id.find(':');
    std::uint64_t last = 0;
    if (colon == std::string_view::npos || !ParseNumber(last_id.substr(colon + 1), last)) {
      return ApiError{.message = fmt::format("the Last-Event-ID '{}' is none of this server's; "
                                             "it is LOG:NUMBER",
                                             last_id.substr(0, 100)),
                      .param = "Last-Event-ID"};
    }
    start.from = last + 1;
    if (last_id.substr(0, colon) != log_) start.other_log = last_id.substr(0, colon);
    return start;
  }
  const std::optional<std::string_view> from = query->Text("from");
  start.is_snapshot = !from;
  start.is_now = from == "now";
  if (from && !start.is_now && !ParseNumber(*from, start.from)) {
    return ApiError{.message = fmt::format("'from' is '{}'; use the number of an event, or now",
                                           from->substr(0, 100)),
                    .param = "from"};
  }
  start.from = std::max<std::uint64_t>(start.from, 1);
  return start;
}

void EventStream::Open(const net::HttpRequest& request, const Reply& reply) {
  ApiResult<Start> start = StartOf(request);
  if (!start.ok()) {
    reply.Send(ErrorResponse(start.error()));
    return;
  }
  reply.OnClientGone([] {});  // so that the record knows
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_ && counts_.open < options_.max_streams) {
      arrivals_.emplace_back(reply, *std::move(start));
      ++counts_.open;
      changed_.notify_one();
      return;
    }
  }
  reply.Send(ErrorResponse(
      {.status = 503,
       .message = fmt::format("{} streams of events are open already, or the server is stopping",
                              options_.max_streams),
       .code = "service_unavailable"}));
}

// --- The thread that tells ---

void EventStream::Loop() {
  for (bool has_backlog = false;;) {
    {
      std::unique_lock lock(mutex_);
      const auto is_due = [this] { return is_stopped_ || !arrivals_.empty(); };
      if (streams_.empty()) {
        changed_.wait(lock, is_due);
      } else if (!has_backlog) {
        changed_.wait_for(lock, std::chrono::milliseconds(kPauseMs), is_due);
      }
      streams_.splice(streams_.end(), arrivals_);
      if (is_stopped_) break;
    }
    has_backlog = false;
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      const Outcome outcome = Advance(*stream);
      has_backlog = has_backlog || outcome == Outcome::kMore;
      if (outcome != Outcome::kOver) {
        ++stream;
        continue;
      }
      stream = streams_.erase(stream);
      const std::lock_guard lock(mutex_);
      --counts_.open;
    }
  }
  for (const Stream& stream : streams_) {
    if (!stream.has_begun) {
      stream.reply.Send(ErrorResponse({.status = 503, .message = "the server is stopping"}));
    } else {
      stream.reply.EndWith({});
    }
  }
  streams_.clear();
  const std::lock_guard lock(mutex_);
  counts_.open = 0;
}

EventStream::Outcome EventStream::Advance(Stream& stream) {
  if (stream.reply.record().client_left) return Outcome::kOver;
  if (!stream.has_begun) return Begin(stream) ? Outcome::kMore : Outcome::kOver;
  if (stream.builder) return BuildSnapshot(stream);
  if (stream.reply.unsent_bytes() > options_.max_unsent_bytes) {
    // It waits for its reader, and not for ever: the log goes on without it.
    return stream.snapshot || stream.next >= control_.Report()->oldest_event ? Outcome::kWaits
                                                                             : Cut();
  }
  return stream.snapshot ? TellSnapshot(stream) : TellEvents(stream);
}

// The engine is shutting down.
EventStream::Outcome EventStream::End(const Stream& stream) {
  stream.reply.EndWith({});
  return Outcome::kOver;
}

// Dropping a stream without End cuts it.
EventStream::Outcome EventStream::Cut() {
  const std::lock_guard lock(mutex_);
  ++counts_.cut;
  return Outcome::kOver;
}

bool EventStream::Begin(Stream& stream) {
  // Asks for the first events before there is an answer, so that what cannot be becomes a status.
  const Start& start = stream.start;
  const std::uint64_t first = start.is_now || start.is_snapshot || !start.other_log.empty()
                                  ? 0  // in any log a gap: only its bounds are of interest
                                  : start.from;
  const Result<engine::EventBatch> batch = control_.ReadEvents(first, 0);
  if (!batch.ok()) {
    stream.reply.Send(ErrorResponse(ApiErrorFrom(batch.error())));
    return false;
  }
  stream.reply.StartEvents();
  stream.has_begun = true;
  stream.reply.Write(
      fmt::format("event: hello\ndata: {{\"log\":\"{}\",\"oldest\":{},\"last\":{}}}\n\n", log_,
                  batch->oldest, batch->last));
  stream.next = start.is_now ? batch->last + 1 : start.from;
  if (start.is_now) return true;
  const bool is_gap = !start.is_snapshot && (batch->gap || !start.other_log.empty());
  if (is_gap) TellGap(stream, batch->oldest);
  if (is_gap || start.is_snapshot) stream.builder.emplace();
  return true;
}

void EventStream::TellGap(const Stream& stream, std::uint64_t oldest) const {
  stream.reply.Write(fmt::format(
      "event: gap\ndata: {{\"asked\":{},\"oldest\":{},\"reason\":\"{}\"}}\n\n", stream.start.from,
      oldest, stream.start.other_log.empty() ? "the log has not got it" : "it was of another log"));
}

// A little at a time, so that neither the engine nor other streams wait for the whole.
EventStream::Outcome EventStream::BuildSnapshot(Stream& stream) {
  kv::SnapshotBuilder& builder = *stream.builder;
  if (!builder.has_all_parts()) {
    Result<kv::SnapshotPart> part = control_.ReadSnapshotPart(builder.next_node(), kNodesAtOnce);
    if (!part.ok()) return End(stream);
    builder.Add(*std::move(part));
  } else if (!builder.is_complete()) {
    const Result<engine::EventBatch> batch =
        control_.ReadEvents(builder.next_event(), kEventsAtOnce);
    if (!batch.ok()) return End(stream);
    if (batch->gap) {  // the log was too short for the time it took: once more
      builder = {};
      return ++stream.failed_builds < kMaxFailedBuilds ? Outcome::kMore : Cut();
    }
    for (const kv::KvEvent& event : batch->events) builder.Apply(event);
  }
  if (builder.is_complete()) {
    stream.snapshot = builder.Finish();
    stream.snapshot_told = 0;
    stream.builder.reset();
  }
  return Outcome::kMore;
}

EventStream::Outcome EventStream::TellSnapshot(Stream& stream) {
  const kv::Snapshot& snapshot = *stream.snapshot;
  const std::size_t end =
      std::min(stream.snapshot_told + kSnapshotEntriesAtOnce, snapshot.entries.size());
  const bool is_last = end == snapshot.entries.size();
  std::string text;
  // Only a snapshot that has arrived whole can be gone on from.
  if (is_last) fmt::format_to(std::back_inserter(text), "id: {}:{}\n", log_, snapshot.sequence);
  fmt::format_to(std::back_inserter(text),
                 "event: snapshot\ndata: {{\"seq\":{},\"is_last\":{},\"entries\":[",
                 snapshot.sequence, is_last);
  for (std::size_t i = stream.snapshot_told; i < end; ++i) {
    const kv::SnapshotEntry& entry = snapshot.entries[i];
    text += i == stream.snapshot_told ? "{" : ",{";
    AppendBlock(entry.key, entry.parent, entry.group, entry.account, entry.tokens, text);
    text.push_back('}');
  }
  text += "]}\n\n";
  if (!stream.reply.Write(text)) return Outcome::kOver;
  stream.snapshot_told = end;
  if (is_last) {
    stream.next = snapshot.sequence + 1;
    stream.snapshot.reset();
  }
  return Outcome::kMore;
}

EventStream::Outcome EventStream::TellEvents(Stream& stream) {
  if (stream.next > control_.Report()->events) return Outcome::kWaits;
  const Result<engine::EventBatch> batch = control_.ReadEvents(stream.next, kEventsAtOnce);
  if (!batch.ok()) return End(stream);
  if (batch->gap) return Cut();
  std::string text;
  for (const kv::KvEvent& event : batch->events) AppendEvent(log_, event, text);
  if (!stream.reply.Write(text)) return Outcome::kOver;
  stream.next += batch->events.size();
  return stream.next <= batch->last ? Outcome::kMore : Outcome::kWaits;
}

}  // namespace ashlar::server
