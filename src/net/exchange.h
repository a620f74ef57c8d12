// One request's answer on its way from any thread to the connection that carries it: what a
// Responder points at. No sockets: the connection takes the bytes.
//
//   kUnanswered --Send--> kComplete
//   kUnanswered --StartStream--> kStreaming --End--> kComplete
//
// Beside that: `is_gone_` once the client has left, `is_closed_` once nothing can be carried any
// more, `is_cut_` once the stream must end unfinished (slow reader, handle dropped without End).
//
// Bytes that wait for a slow reader are bounded twice: by stream, and over all answers of the
// server (PendingTotal); when all together are too many, streams that hold more than a fair part
// are cut at their next Write.
//
// Threads: all methods may be called from any thread; TakeOutput, MarkSent, MarkGone and MarkClosed
// only by the connection. No callback is called under the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http_message.h"
#include "net/http_server.h"

namespace ashlar::net {

// The way back to the connection.
class AnswerTransport {
 public:
  virtual ~AnswerTransport() = default;
  // Arranges for TakeOutput on the transport's own thread. From any thread; must not call back.
  virtual void ScheduleFlush() = 0;
};

// Unsent bytes of all answers of one server.
struct PendingTotal {
  explicit PendingTotal(std::size_t most) : max_bytes(most) {}
  const std::size_t max_bytes;
  std::atomic<std::size_t> bytes{0};
};

// What a stream may always hold, however much the others do.
inline constexpr std::size_t kFairPendingBytes = 64u << 10;

struct AnswerOptions {
  bool is_head = false;    // HEAD: no body is sent
  bool is_http10 = false;  // no chunked coding: a stream ends with the connection
  bool keep_alive = true;
  std::size_t max_pending_bytes = 4u << 20;
  std::shared_ptr<PendingTotal> total = {};  // null: not counted
};

class Exchange {
 public:
  Exchange(std::weak_ptr<AnswerTransport> transport, const AnswerOptions& options);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void AddHeader(std::string_view name, std::string_view value);
  void Send(HttpResponse response);
  void StartStream(const HttpResponse& head, std::string_view heartbeat = {});
  bool Write(std::string_view bytes);
  std::size_t unsent_bytes() const;
  // The answer ends here, whatever of it is under way.
  bool is_cut() const;
  void End();
  void OnClientGone(std::function<void()> on_gone);
  // The last handle has gone: answers with `fallback` if nothing else has, cuts an unfinished
  // stream.
  void Abandon(const HttpResponse& fallback);

  struct Output {
    std::string bytes;
    bool is_last = false;      // with these bytes the answer is complete
    bool close_after = false;  // with is_last: the connection cannot be kept
    bool is_cut = false;       // drop the connection now
  };
  Output TakeOutput();
  // `bytes` of what was taken have left.
  void MarkSent(std::size_t bytes);
  // A stream that has a heartbeat and nothing to send gets one. False for all others.
  bool Beat();
  // Something harmless is on its way, so that a client that has left shows it with a reset: a
  // heartbeat, or an interim answer. False when nothing harmless can be sent.
  bool Probe();
  bool has_heartbeat() const;

  // The client has left. Calls on_gone unless the answer is complete.
  void MarkGone();
  // MarkGone, and the transport is called no more.
  void MarkClosed();
  void ForbidKeepAlive();

 private:
  enum class State { kUnanswered, kStreaming, kComplete };

  void SendLocked(HttpResponse response);
  bool BeatLocked();
  void AppendLocked(std::string_view bytes);
  void AppendBodyLocked(std::string_view bytes);
  void SetUnsentLocked(std::size_t bytes);
  void CutLocked();
  std::string HeadLocked(const HttpResponse& response, HeadOptions head) const;
  void ScheduleFlushLocked();

  const std::weak_ptr<AnswerTransport> transport_;
  const AnswerOptions options_;

  mutable std::mutex mutex_;  // protects all below
  State state_ = State::kUnanswered;
  bool is_gone_ = false;
  bool is_closed_ = false;
  bool is_cut_ = false;
  bool keep_alive_;
  bool is_chunked_ = false;
  bool is_flush_scheduled_ = false;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string heartbeat_;
  std::string pending_;
  std::size_t unsent_bytes_ = 0;  // pending_ and what was taken but not marked sent
  std::function<void()> on_gone_;
};

// What a Responder holds: dropping the last one abandons the exchange.
class Responder::Impl {
 public:
  Impl(std::shared_ptr<Exchange> exchange, HttpResponse fallback)
      : exchange_(std::move(exchange)), fallback_(std::move(fallback)) {}
  ~Impl() { exchange_->Abandon(fallback_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Exchange& exchange() { return *exchange_; }

 private:
  std::shared_ptr<Exchange> exchange_;
  HttpResponse fallback_;
};

}  // namespace ashlar::net
