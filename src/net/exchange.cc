#include "net/exchange.h"

#include <utility>

#include "base/check.h"
#include "net/http_message.h"

namespace ashlar::net {

Exchange::Exchange(std::weak_ptr<AnswerTransport> transport, const AnswerOptions& options)
    : transport_(std::move(transport)), options_(options), keep_alive_(options.keep_alive) {}

void Exchange::Send(const HttpResponse& response) {
  std::function<void()> dropped;  // destroyed after the lock: it may hold anything
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kUnanswered, "a request is answered once");
  if (state_ == State::kUnanswered) {
    dropped.swap(on_gone_);
    SendLocked(response);
  }
}

void Exchange::SendLocked(const HttpResponse& response) {
  HeadOptions head{.keep_alive = keep_alive_, .is_chunked = false, .content_length = {}};
  const bool has_body = response.status != 204;
  if (has_body) {
    head.content_length = response.body.size();
  }
  pending_ = FormatHead(response, head);
  if (has_body && !options_.is_head) {
    pending_ += response.body;
  }
  unsent_bytes_ += pending_.size();
  state_ = State::kComplete;
  ScheduleFlushLocked();
}

void Exchange::StartStream(const HttpResponse& head) {
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kUnanswered, "a request is answered once");
  if (state_ != State::kUnanswered) {
    return;
  }
  is_chunked_ = !options_.is_http10;
  keep_alive_ = keep_alive_ && is_chunked_;
  pending_ = FormatHead(
      head, {.keep_alive = keep_alive_, .is_chunked = is_chunked_, .content_length = {}});
  unsent_bytes_ += pending_.size();
  state_ = State::kStreaming;
  ScheduleFlushLocked();
}

bool Exchange::Write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kStreaming, "Write comes after StartStream and before End");
  if (state_ != State::kStreaming || is_gone_ || is_cut_) {
    return false;
  }
  if (unsent_bytes_ > options_.max_pending_bytes) {
    is_cut_ = true;
    unsent_bytes_ -= pending_.size();
    pending_ = std::string();
    ScheduleFlushLocked();
    return false;
  }
  if (options_.is_head) {
    return true;
  }
  const std::size_t before = pending_.size();
  if (is_chunked_) {
    AppendChunk(bytes, pending_);
  } else {
    pending_ += bytes;
  }
  unsent_bytes_ += pending_.size() - before;
  ScheduleFlushLocked();
  return true;
}

void Exchange::End() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  ASHLAR_DCHECK(state_ == State::kStreaming, "End comes once, after StartStream");
  if (state_ != State::kStreaming) {
    return;
  }
  if (is_chunked_ && !options_.is_head && !is_cut_) {
    pending_ += kLastChunk;
    unsent_bytes_ += kLastChunk.size();
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
    is_cut_ = true;
    ScheduleFlushLocked();
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
  unsent_bytes_ -= bytes;
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
  }
  MarkGone();
}

void Exchange::ForbidKeepAlive() {
  const std::lock_guard lock(mutex_);
  keep_alive_ = false;
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

void Responder::Send(HttpResponse response) const { impl_->exchange().Send(response); }

void Responder::StartStream(HttpResponse headers) const { impl_->exchange().StartStream(headers); }

bool Responder::Write(std::string_view bytes) const { return impl_->exchange().Write(bytes); }

void Responder::End() const { impl_->exchange().End(); }

void Responder::OnClientGone(std::function<void()> on_gone) const {
  impl_->exchange().OnClientGone(std::move(on_gone));
}

}  // namespace ashlar::net
