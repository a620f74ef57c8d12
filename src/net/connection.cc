#include "net/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/http_message.h"

namespace ashlar::net {
namespace asio = boost::asio;
using boost::system::error_code;

// One read; shared by all connections of a thread.
constexpr std::size_t kReadBytes = 64 * 1024;
// For how many bytes a closing connection listens on.
constexpr std::size_t kMaxLingerBytes = 32u << 20;
// How long an answer to a client that counts as gone, because it closed its half and cannot be
// asked, may still take.
constexpr std::int64_t kGoneMs = 5'000;
// What a client may make a TLS session say (alerts, key updates) without reading it.
constexpr std::size_t kMaxTlsBacklogBytes = 256 * 1024;

Connection::Connection(std::shared_ptr<ServerCore> core, Socket socket)
    : core_(std::move(core)), socket_(std::move(socket)), timer_(socket_.get_executor()) {
  if (core_->options.tls) {
    tls_ = std::make_unique<TlsSession>(core_->options.tls);
    handshake_deadline_ = After(core_->options.tls_handshake_timeout_ms);
  }
}

void Connection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->SetDeadline(
        std::min(self->handshake_deadline_, self->After(self->core_->options.idle_timeout_ms)));
    self->WaitReadable();
  });
}

void Connection::StartRefusing() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->AnswerByItself(503, "too many connections; try again shortly");
    self->WaitReadable();
  });
}

void Connection::ScheduleFlush() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->PumpOutput(); });
}

void Connection::BeginDrain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->is_draining_ = true;
    if (self->exchange_) {
      self->exchange_->ForbidKeepAlive();
    } else if (self->state_ == State::kReading && !self->is_writing_) {
      self->Close();
    }
  });
}

void Connection::ForceClose() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Abort(); });
}

// --- Reading ---

void Connection::WaitReadable() {
  if (is_waiting_readable_ || has_peer_closed_ || state_ == State::kClosed) {
    return;
  }
  is_waiting_readable_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    self->is_waiting_readable_ = false;
    if (!error && self->state_ != State::kClosed) {
      self->OnReadable();
    }
  });
}

// Without the bytes that a client may still send: for one that has said it sends no more.
void Connection::WaitError() {
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](error_code error) {
    if (error || self->state_ == State::kClosed) {
      return;
    }
    int reason = 0;
    socklen_t bytes = sizeof(reason);
    getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &reason, &bytes);
    if (reason != 0) {
      self->Close();
    } else {
      self->WaitError();  // urgent data, of which we know nothing
    }
  });
}

void Connection::OnReadable() {
  static thread_local std::vector<char> buffer(kReadBytes);
  error_code error;
  const std::size_t bytes = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block || error == asio::error::try_again) {
    WaitReadable();
  } else if (error == asio::error::eof) {
    OnPeerClosed();
  } else if (error) {
    Close();
  } else {
    OnWireInput({buffer.data(), bytes});
  }
}

void Connection::OnWireInput(std::string_view bytes) {
  if (tls_ == nullptr) {
    OnInput(bytes);
    return;
  }
  const bool was_shaking_hands = is_shaking_hands();
  if (!std::exchange(has_read_, true) && !LooksLikeTls(bytes)) {
    if (state_ != State::kReading) {
      Close();  // is being refused already, in TLS
      return;
    }
    tls_.reset();
    AnswerByItself(400, "this port speaks HTTPS; the URL must begin with https://");
    WaitReadable();
    return;
  }
  std::string plain;
  const TlsSession::Progress progress = tls_->Receive(bytes, plain);
  if (progress == TlsSession::Progress::kFailed) {
    if (!is_writing_) {
      // The alert says why; one attempt.
      error_code ignored;
      socket_.write_some(asio::buffer(tls_->TakeOutput()), ignored);
    }
    Close();
    return;
  }
  if (was_shaking_hands && tls_->is_established() && state_ == State::kReading) {
    SetDeadline(After(core_->options.idle_timeout_ms));
  }
  if (!plain.empty()) {
    OnInput(plain);
  } else {
    WaitReadable();
  }
  if (progress == TlsSession::Progress::kPeerClosed) {
    OnPeerClosed();
  }
  if (was_shaking_hands || tls_->output_bytes() > 0) {
    PumpOutput();
  }
  if (tls_->output_bytes() > kMaxTlsBacklogBytes) {
    Abort();
  }
}

void Connection::OnInput(std::string_view bytes) {
  if (state_ == State::kLingering) {
    lingered_bytes_ += bytes.size();
    if (lingered_bytes_ > kMaxLingerBytes) {
      Close();
    } else {
      WaitReadable();
    }
    return;
  }
  input_ += bytes;
  if (state_ == State::kReading) {
    ParseInput();
  }
  // A client that pipelines more than this while it is owed an answer waits, unread.
  if (state_ != State::kAnswering || input_.size() < core_->options.max_header_bytes) {
    WaitReadable();
  }
}

void Connection::OnPeerClosed() {
  if (has_peer_closed_ || state_ == State::kClosed) {
    return;
  }
  has_peer_closed_ = true;
  if (state_ != State::kAnswering || !exchange_) {
    if (!is_writing_) {
      Close();
    }
    return;
  }
  is_draining_ = true;
  // on_gone may drop the last handle or answer; both only post.
  const std::shared_ptr<Exchange> exchange = exchange_;
  exchange->ForbidKeepAlive();
  WaitError();
  if (!exchange->Probe()) {
    GiveUpOnClient();
  } else if (!is_writing_) {
    SetDeadline(QuietDeadline());
  }
}

// Its work is called off; an answer that is all but ready may still reach it.
void Connection::GiveUpOnClient() {
  is_given_up_ = true;
  SetDeadline(std::min(deadline_, After(kGoneMs)));
  const std::shared_ptr<Exchange> exchange = exchange_;
  exchange->MarkGone();
}

void Connection::ParseInput() {
  try {
    ParseRequest();
  } catch (const std::exception& error) {
    ASHLAR_LOG_ERROR("net: reading a request: {}", error.what());
    Abort();
  }
}

void Connection::ParseRequest() {
  if (!reader_.has_value()) {
    if (input_.empty()) {
      return;
    }
    reader_.emplace(core_->options.max_header_bytes, core_->options.max_body_bytes);
    SetDeadline(After(core_->options.idle_timeout_ms));
  }
  std::size_t consumed = 0;
  const RequestReader::Progress progress = reader_->Feed(input_, consumed);
  input_.erase(0, consumed);
  if (input_.empty()) {
    input_ = std::string();
  }
  if (progress == RequestReader::Progress::kFailed) {
    AnswerByItself(reader_->failure_status(), reader_->failure_message());
    return;
  }
  if (!ChargeBody()) {
    AnswerByItself(503,
                   "the bodies of other requests fill the memory set aside; try again shortly");
    return;
  }
  if (progress == RequestReader::Progress::kDone) {
    Dispatch();
  } else if (auto refusal = RefusalByHead()) {
    AnswerByItself(*std::move(refusal));
  } else if (reader_->TakeContinueWish()) {
    QueueBytes("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

// The handler's word on a request whose body is still to come.
std::optional<HttpResponse> Connection::RefusalByHead() {
  const std::optional<HttpRequest> head =
      core_->options.refuse_head ? reader_->TakeHead() : std::nullopt;
  return head.has_value() ? core_->options.refuse_head(*head) : std::nullopt;
}

// Keeps the sum over all connections of request bytes held in memory.
bool Connection::ChargeBody() {
  const std::size_t held = reader_->body_bytes();
  if (held > charged_bytes_) {
    const std::size_t more = held - charged_bytes_;
    charged_bytes_ = held;
    return core_->total_body_bytes.fetch_add(more) + more <= core_->options.max_total_body_bytes;
  }
  return true;
}

void Connection::Dispatch() {
  const AnswerOptions answer{.is_head = false,
                             .is_http10 = reader_->is_http10(),
                             .keep_alive = reader_->keep_alive() && !is_draining_,
                             .max_pending_bytes = core_->options.max_pending_bytes,
                             .total = core_->pending};
  HttpRequest request = reader_->TakeRequest();
  reader_.reset();
  AnswerOptions options = answer;
  options.is_head = request.method == "HEAD";
  state_ = State::kAnswering;
  SetDeadline(kNever);
  exchange_ = std::make_shared<Exchange>(weak_from_this(), options);
  Responder responder(std::make_shared<Responder::Impl>(
      exchange_, ErrorResponse(core_->options, 500, "the request was dropped without an answer")));
  try {
    core_->handler(std::move(request), std::move(responder));
  } catch (const std::exception& error) {
    // The handle went with the exception, which answered 500.
    ASHLAR_LOG_ERROR("net: the handler failed: {}", error.what());
  }
}

void Connection::NextRequest() {
  core_->total_body_bytes -= std::exchange(charged_bytes_, 0);
  exchange_.reset();
  is_answer_complete_ = false;
  state_ = State::kReading;
  SetDeadline(After(core_->options.idle_timeout_ms));
  ParseInput();
  WaitReadable();
}

// --- Deadlines ---

// Deadlines move with every write, so the timer is lazy: it wakes at the earliest deadline it was
// armed for and looks.
void Connection::SetDeadline(Clock::time_point deadline) {
  deadline_ = deadline;
  if (deadline_ != kNever && (timer_expiry_ == kNever || deadline_ < timer_expiry_)) {
    ArmTimer();
  }
}

void Connection::ArmTimer() {
  timer_expiry_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->state_ == State::kClosed) {
      return;  // re-armed for an earlier deadline, or over
    }
    self->timer_expiry_ = kNever;
    if (self->deadline_ == kNever) {
      return;
    }
    if (Clock::now() >= self->deadline_) {
      self->OnDeadline();
    } else {
      self->ArmTimer();
    }
  });
}

void Connection::OnDeadline() {
  if (state_ == State::kReading && reader_.has_value() && reader_->has_started() && !is_writing_) {
    AnswerByItself(408, "the request did not arrive in time");
  } else if (state_ == State::kLingering) {
    Close();
  } else if (state_ == State::kAnswering && exchange_ && !is_writing_ && !is_given_up_) {
    OnQuiet();
  } else {
    Abort();
  }
}

// Nothing has been sent for a while, and the client is well or has closed its half.
void Connection::OnQuiet() {
  if (has_peer_closed_ ? exchange_->Probe() : exchange_->Beat()) {
    SetDeadline(QuietDeadline());
  } else if (has_peer_closed_) {
    GiveUpOnClient();
  } else {
    SetDeadline(kNever);
  }
}

// A client that takes nothing of its answer, or does not get on with its handshake, is cut.
Connection::Clock::time_point Connection::WriteDeadline() const {
  const Clock::time_point write = After(core_->options.idle_timeout_ms);
  return is_shaking_hands() ? std::min(write, handshake_deadline_) : write;
}

// While an answer is being computed and everything of it that is there has been sent.
Connection::Clock::time_point Connection::QuietDeadline() const {
  const bool is_watched = has_peer_closed_ || (exchange_ && exchange_->has_heartbeat());
  return is_watched ? After(core_->options.heartbeat_ms) : kNever;
}

}  // namespace ashlar::net
