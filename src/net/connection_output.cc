// The half of Connection that writes, and the ways a connection ends.
#include <boost/asio/buffer.hpp>
#include <utility>

#include "net/connection.h"

namespace ashlar::net {
namespace asio = boost::asio;
using boost::system::error_code;

// How long a closing connection listens on.
constexpr std::int64_t kLingerMs = 2'000;
// Encrypted at a time, so that ciphertext does not double what is unsent.
constexpr std::size_t kTlsWriteBytes = 64 * 1024;

// --- Writing ---

// Ends the connection with an answer of the server's own.
void Connection::AnswerByItself(HttpResponse response) {
  Exchange exchange({}, {.is_head = false,
                         .is_http10 = false,
                         .keep_alive = false,
                         .max_pending_bytes = core_->options.max_pending_bytes});
  exchange.Send(std::move(response));
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
  if (state_ == State::kClosed) {
    return;
  }
  if (is_writing_) {
    if (exchange_ && exchange_->is_cut()) {
      Abort();  // or a client that takes nothing would hold what is unsent until its deadline
    }
    return;
  }
  if (!TakeAnswer() || !FillWire()) {
    Abort();
    return;
  }
  const std::string_view wire = tls_ != nullptr ? std::string_view(wire_).substr(wire_offset_)
                                                : std::string_view(output_).substr(output_offset_);
  if (wire.empty()) {
    if (output_.empty()) {  // else it waits for the handshake
      OnOutputDrained();
    }
    return;
  }
  is_writing_ = true;
  SetDeadline(WriteDeadline());
  socket_.async_write_some(asio::buffer(wire.data(), wire.size()),
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

// The next bytes to send become output_. False when the stream was cut.
bool Connection::TakeAnswer() {
  if (output_.empty()) {
    output_.swap(own_output_);
  }
  if (output_.empty() && exchange_ && !is_answer_complete_) {
    Exchange::Output taken = exchange_->TakeOutput();
    if (taken.is_cut) {
      return false;
    }
    output_ = std::move(taken.bytes);
    exchange_bytes_ = output_.size();
    is_answer_complete_ = taken.is_last;
    close_after_answer_ = taken.close_after || is_draining_;
  }
  return true;
}

// With TLS: what the session has to say, and the next part of output_, become wire_. False when the
// session is beyond use.
bool Connection::FillWire() {
  if (tls_ == nullptr || wire_offset_ < wire_.size()) {
    return true;
  }
  if (tls_->is_established()) {
    const std::string_view next = std::string_view(output_).substr(output_offset_, kTlsWriteBytes);
    if (!tls_->Send(next)) {
      return false;
    }
    wire_plain_bytes_ = next.size();
  }
  wire_ = tls_->TakeOutput();
  wire_offset_ = 0;
  return true;
}

void Connection::OnWritten(std::size_t bytes) {
  if (tls_ != nullptr) {
    wire_offset_ += bytes;
    if (wire_offset_ == wire_.size()) {
      wire_ = std::string();
      wire_offset_ = 0;
      output_offset_ += std::exchange(wire_plain_bytes_, 0);
    }
  } else {
    output_offset_ += bytes;
  }
  if (output_offset_ == output_.size()) {
    if (exchange_ && exchange_bytes_ > 0) {
      exchange_->MarkSent(std::exchange(exchange_bytes_, 0));
    }
    output_ = std::string();
    output_offset_ = 0;
    if (state_ == State::kAnswering && !is_given_up_) {
      SetDeadline(QuietDeadline());
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
  if (tls_ != nullptr && tls_->SayClosing()) {
    PumpOutput();  // and back here when it is out
    return;
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

}  // namespace ashlar::net
