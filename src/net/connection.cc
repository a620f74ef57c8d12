#include "net/connection.h"

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
// How long, and for how many bytes, a closing connection listens on.
constexpr std::int64_t kLingerMs = 2'000;
constexpr std::size_t kMaxLingerBytes = 32u << 20;
// How long an answer to a client that has closed its half may still take.
constexpr std::int64_t kHalfClosedMs = 5'000;

Connection::Connection(std::shared_ptr<ServerCore> core, Socket socket)
    : core_(std::move(core)), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

void Connection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->SetDeadline(self->After(self->core_->options.idle_timeout_ms));
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
    OnInput({buffer.data(), bytes});
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
  has_peer_closed_ = true;
  if (state_ != State::kAnswering) {
    if (!is_writing_) {
      Close();
    }
    return;
  }
  is_draining_ = true;
  SetDeadline(std::min(deadline_, After(kHalfClosedMs)));
  // on_gone may drop the last handle or answer; both only post.
  const std::shared_ptr<Exchange> exchange = exchange_;
  exchange->ForbidKeepAlive();
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
  } else if (reader_->TakeContinueWish()) {
    QueueBytes("HTTP/1.1 100 Continue\r\n\r\n");
  }
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
                             .max_pending_bytes = core_->options.max_pending_bytes};
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

// --- Writing ---

// Ends the connection with an answer of the server's own.
void Connection::AnswerByItself(int status, std::string_view message) {
  Exchange exchange({}, {.is_head = false,
                         .is_http10 = false,
                         .keep_alive = false,
                         .max_pending_bytes = core_->options.max_pending_bytes});
  exchange.Send(ErrorResponse(core_->options, status, message));
  reader_.reset();
  input_ = std::string();
  state_ = State::kLingering;
  SetDeadline(After(kLingerMs));
  is_answer_complete_ = true;
  close_after_answer_ = true;
  QueueBytes(exchange.TakeOutput().bytes);
}

void Connection::QueueBytes(std::string_view bytes) {
  own_output_ += bytes;
  PumpOutput();
}

void Connection::PumpOutput() {
  if (is_writing_ || state_ == State::kClosed) {
    return;
  }
  if (output_.empty()) {
    output_.swap(own_output_);
  }
  if (output_.empty() && exchange_ && !is_answer_complete_) {
    Exchange::Output taken = exchange_->TakeOutput();
    if (taken.is_cut) {
      Abort();
      return;
    }
    output_ = std::move(taken.bytes);
    exchange_bytes_ = output_.size();
    is_answer_complete_ = taken.is_last;
    close_after_answer_ = taken.close_after || is_draining_;
  }
  if (output_.empty()) {
    OnOutputDrained();
    return;
  }
  is_writing_ = true;
  SetDeadline(After(core_->options.idle_timeout_ms));
  socket_.async_write_some(
      asio::buffer(output_.data() + output_offset_, output_.size() - output_offset_),
      [self = shared_from_this()](error_code error, std::size_t bytes) {
        self->is_writing_ = false;
        if (self->state_ == State::kClosed) {
          return;
        }
        if (error) {
          self->Close();
        } else {
          self->OnWritten(bytes);
        }
      });
}

void Connection::OnWritten(std::size_t bytes) {
  output_offset_ += bytes;
  if (output_offset_ == output_.size()) {
    if (exchange_ && exchange_bytes_ > 0) {
      exchange_->MarkSent(std::exchange(exchange_bytes_, 0));
    }
    output_ = std::string();
    output_offset_ = 0;
    if (state_ == State::kAnswering && !has_peer_closed_) {
      SetDeadline(kNever);
    }
  }
  PumpOutput();
}

void Connection::OnOutputDrained() {
  if (!is_answer_complete_) {
    if (state_ == State::kReading && (is_draining_ || has_peer_closed_)) {
      Close();
    }
    return;
  }
  if (close_after_answer_ || is_draining_) {
    Linger();
  } else if (state_ == State::kAnswering) {
    NextRequest();
  }
}

// --- Ending ---

void Connection::Linger() {
  if (exchange_) {
    exchange_->MarkClosed();
    exchange_.reset();
  }
  error_code ignored;
  // Closing with unread bytes would send a reset.
  const bool may_have_unread =
      state_ == State::kLingering || !input_.empty() || socket_.available(ignored) > 0;
  if (has_peer_closed_ || !may_have_unread) {
    Close();
    return;
  }
  socket_.shutdown(Socket::shutdown_send, ignored);
  state_ = State::kLingering;
  input_ = std::string();
  SetDeadline(After(kLingerMs));
  WaitReadable();
}

void Connection::Close() {
  if (state_ == State::kClosed) {
    return;
  }
  state_ = State::kClosed;
  const auto self = shared_from_this();
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  core_->total_body_bytes -= std::exchange(charged_bytes_, 0);
  reader_.reset();
  if (const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr)) {
    exchange->MarkClosed();
  }
  const std::lock_guard lock(core_->mutex);
  core_->connections.erase(this);
  core_->all_closed.notify_all();
}

// Closes with a reset: the client must not take what it has for a whole answer, and unsent bytes
// are freed.
void Connection::Abort() {
  if (state_ != State::kClosed) {
    error_code ignored;
    if (state_ == State::kAnswering) {
      socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    }
    Close();
  }
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
  } else {
    Abort();
  }
}

}  // namespace ashlar::net
