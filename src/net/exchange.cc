#include "net/exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::net {

// Of HTTP/1.1; skipped by every client, unlike the rarer 102 (RFC 9110 15.2).
constexpr std::string_view kInterimAnswer = "HTTP/1.1 100 Continue\r\n\r\n";

Exchange::Exchange(std::weak_ptr<AnswerTransport> transport, const AnswerOptions& options)
    : transport_(std::move(transport)), options_(options), keep_alive_(options.keep_alive) {}

Exchange::~Exchange() { SetUnsentLocked(0); }

void Exchange::AddHeader(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kUnanswered, "headers come before the answer");
  headers_.emplace_back(name, value);
}

void Exchange::Send(HttpResponse response) {
  std::function<void()> dropped;  // destroyed after the lock: it may hold anything
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kUnanswered, "a request is answered once");
  if (state_ == State::kUnanswered) {
    dropped.swap(on_gone_);
    SendLocked(std::move(response));
  }
}

std::string Exchange::HeadLocked(const HttpResponse& response, HeadOptions head) const {
  head.keep_alive = keep_alive_;
  head.more_headers = headers_;
  return FormatHead(response, head);
}

void Exchange::SendLocked(HttpResponse response) {
  const bool has_body = response.status != 204;
  HeadOptions head;
  if (has_body) {
    head.content_length = response.body.size();
  }
  AppendLocked(HeadLocked(response, head));
  if (has_body && !options_.is_head) {
    AppendLocked(response.body);
  }
  state_ = State::kComplete;
  ScheduleFlushLocked();
}

void Exchange::StartStream(const HttpResponse& head, std::string_view heartbeat) {
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kUnanswered, "a request is answered once");
  if (state_ != State::kUnanswered) {
    return;
  }
  is_chunked_ = !options_.is_http10;
  keep_alive_ = keep_alive_ && is_chunked_;
  heartbeat_ = options_.is_head ? std::string_view() : heartbeat;
  AppendLocked(HeadLocked(head, {.is_chunked = is_chunked_, .content_length = {}}));
  state_ = State::kStreaming;
  ScheduleFlushLocked();
}

bool Exchange::Write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kStreaming, "Write comes after StartStream and before End");
  if (state_ != State::kStreaming || is_gone_ || is_cut_) {
    return false;
  }
  const bool are_all_too_many = options_.total && unsent_bytes_ > kFairPendingBytes &&
                                options_.total->bytes > options_.total->max_bytes;
  if (unsent_bytes_ > options_.max_pending_bytes || are_all_too_many) {
    CutLocked();
    return false;
  }
  if (options_.is_head) {
    return true;
  }
  AppendBodyLocked(bytes);
  ScheduleFlushLocked();
  return true;
}

std::size_t Exchange::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

bool Exchange::is_cut() const {
  const std::lock_guard lock(mutex_);
  return is_cut_;
}

void Exchange::End() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kStreaming, "End comes once, after StartStream");
  if (state_ != State::kStreaming) {
    return;
  }
  if (is_chunked_ && !options_.is_head && !is_cut_) {
    AppendLocked(kLastChunk);
  }
  state_ = State::kComplete;
  dropped.swap(on_gone_);
  ScheduleFlushLocked();
}

void Exchange::OnClientGone(std::function<void()> on_gone) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete) {
      return;
    }
    if (!is_gone_) {
      on_gone_ = std::move(on_gone);
      return;
    }
  }
  on_gone();
}

void Exchange::Abandon(const HttpResponse& fallback) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(on_gone_);
  if (state_ == State::kUnanswered) {
    SendLocked(fallback);
  } else if (state_ == State::kStreaming) {
    CutLocked();
  }
}

Exchange::Output Exchange::TakeOutput() {
  const std::lock_guard lock(mutex_);
  is_flush_scheduled_ = false;
  Output output;
  output.bytes.swap(pending_);
  output.is_last = state_ == State::kComplete;
  output.close_after = !keep_alive_;
  output.is_cut = is_cut_;
  return output;
}

void Exchange::MarkSent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  SetUnsentLocked(unsent_bytes_ - std::min(bytes, unsent_bytes_));
}

bool Exchange::Beat() {
  const std::lock_guard lock(mutex_);
  return BeatLocked();
}

bool Exchange::BeatLocked() {
  if (state_ != State::kStreaming || heartbeat_.empty() || is_cut_ || unsent_bytes_ > 0) {
    return false;
  }
  AppendBodyLocked(heartbeat_);
  ScheduleFlushLocked();
  return true;
}

bool Exchange::Probe() {
  const std::lock_guard lock(mutex_);
  if (unsent_bytes_ > 0 || state_ == State::kComplete) {
    return true;  // will show it as well
  }
  if (state_ == State::kUnanswered && !options_.is_http10) {
    AppendLocked(kInterimAnswer);
    ScheduleFlushLocked();
    return true;
  }
  return BeatLocked();
}

bool Exchange::has_heartbeat() const {
  const std::lock_guard lock(mutex_);
  return !heartbeat_.empty();
}

void Exchange::MarkGone() {
  std::function<void()> on_gone;
  {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
    on_gone.swap(on_gone_);
  }
  if (on_gone) {
    on_gone();
  }
}

void Exchange::MarkClosed() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    pending_ = std::string();
    SetUnsentLocked(0);
  }
  MarkGone();
}

void Exchange::ForbidKeepAlive() {
  const std::lock_guard lock(mutex_);
  keep_alive_ = false;
}

void Exchange::AppendLocked(std::string_view bytes) {
  if (!is_closed_) {
    pending_ += bytes;
    SetUnsentLocked(unsent_bytes_ + bytes.size());
  }
}

void Exchange::AppendBodyLocked(std::string_view bytes) {
  if (!is_closed_) {
    const std::size_t before = pending_.size();
    if (is_chunked_) {
      AppendChunk(bytes, pending_);
    } else {
      pending_ += bytes;
    }
    SetUnsentLocked(unsent_bytes_ + pending_.size() - before);
  }
}

void Exchange::SetUnsentLocked(std::size_t bytes) {
  if (options_.total) {
    options_.total->bytes += bytes - unsent_bytes_;  // wraps around to less
  }
  unsent_bytes_ = bytes;
}

void Exchange::CutLocked() {
  is_cut_ = true;
  SetUnsentLocked(unsent_bytes_ - pending_.size());
  pending_ = std::string();
  is_flush_scheduled_ = false;  // one that waits for a write to end would come too late
  ScheduleFlushLocked();
}

// Under the lock, so that it cannot come after MarkClosed.
void Exchange::ScheduleFlushLocked() {
  if (is_flush_scheduled_ || is_closed_) {
    return;
  }
  if (const std::shared_ptr<AnswerTransport> transport = transport_.lock()) {
    is_flush_scheduled_ = true;
    transport->ScheduleFlush();
  }
}

Responder::Responder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

void Responder::AddHeader(std::string_view name, std::string_view value) const {
  impl_->exchange().AddHeader(name, value);
}

void Responder::Send(HttpResponse response) const { impl_->exchange().Send(std::move(response)); }

void Responder::StartStream(const HttpResponse& headers, std::string_view heartbeat) const {
  impl_->exchange().StartStream(headers, heartbeat);
}

bool Responder::Write(std::string_view bytes) const { return impl_->exchange().Write(bytes); }

std::size_t Responder::unsent_bytes() const { return impl_->exchange().unsent_bytes(); }

void Responder::End() const { impl_->exchange().End(); }

void Responder::OnClientGone(std::function<void()> on_gone) const {
  impl_->exchange().OnClientGone(std::move(on_gone));
}

}  // namespace ashlar::net
