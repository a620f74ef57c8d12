// One client's connection: reads requests one after the other, hands each to the handler, carries
// the answer, and notices when the client leaves. With TLS a TlsSession stands between the socket
// and everything else.
//
//   kReading    waits for a request, or for the rest of one
//   kAnswering  the handler has it; bytes of pipelined requests wait in the buffer, up to a bound
//   kLingering  the last answer has been sent and our half is closed; what still arrives is
//               thrown away for a moment, lest a reset overtake the answer
//   kClosed
//
// In all states but the last one wait for readable bytes is pending, which is how a client that
// leaves is noticed while its answer is still being computed. Once the client has closed its half,
// the wait is for an error instead: the reset that its machine sends when nobody reads the answer
// any more (see Exchange::Probe). An idle connection owns no read buffer.
//
// Threads: everything runs on the connection's strand; Start, StartRefusing, ScheduleFlush,
// BeginDrain and ForceClose may be called from any thread and post to it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "net/exchange.h"
#include "net/http_server.h"
#include "net/request_reader.h"
#include "net/tls.h"

namespace ashlar::net {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

class Connection;

// What the server and its connections share. Connections keep it alive, so that an answer that
// comes after the server has gone finds a closed connection and not freed memory.
struct ServerCore {
  ServerCore(const HttpServerOptions& server_options, HttpHandler server_handler)
      : options(server_options),
        handler(std::move(server_handler)),
        pending(std::make_shared<PendingTotal>(server_options.max_total_pending_bytes)),
        io(static_cast<int>(server_options.io_threads)) {}

  const HttpServerOptions options;
  const HttpHandler handler;
  const std::shared_ptr<PendingTotal> pending;  // see HttpServerOptions::max_total_pending_bytes
  boost::asio::io_context io;
  std::atomic<std::size_t> total_body_bytes{0};  // see HttpServerOptions::max_total_body_bytes

  std::mutex mutex;  // protects all below
  std::condition_variable all_closed;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;  // until closed
  bool is_draining = false;
};

class Connection final : public AnswerTransport, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, Socket socket);

  // Serves requests until the client leaves.
  void Start();
  // Answers 503 to whatever comes and closes.
  void StartRefusing();

  void ScheduleFlush() override;
  // Closes when idle, else after the answer that is under way.
  void BeginDrain();
  void ForceClose();

 private:
  enum class State { kReading, kAnswering, kLingering, kClosed };
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  void WaitReadable();
  void WaitError();
  void OnReadable();
  void OnWireInput(std::string_view bytes);
  void OnInput(std::string_view bytes);
  void OnPeerClosed();
  void GiveUpOnClient();
  void ParseInput();
  void ParseRequest();
  bool ChargeBody();
  std::optional<HttpResponse> RefusalByHead();
  void Dispatch();
  void NextRequest();

  void AnswerByItself(int status, std::string_view message) {
    AnswerByItself(ErrorResponse(core_->options, status, message));
  }
  void AnswerByItself(HttpResponse response);
  void QueueBytes(std::string_view bytes);
  void PumpOutput();
  bool TakeAnswer();
  bool FillWire();
  void OnWritten(std::size_t bytes);
  void OnOutputDrained();
  void Linger();
  void Close();
  void Abort();

  void SetDeadline(Clock::time_point deadline);
  void ArmTimer();
  void OnDeadline();
  void OnQuiet();
  Clock::time_point WriteDeadline() const;
  Clock::time_point QuietDeadline() const;
  bool is_shaking_hands() const { return tls_ != nullptr && !tls_->is_established(); }
  Clock::time_point After(std::int64_t ms) const {
    return Clock::now() + std::chrono::milliseconds(ms);
  }

  const std::shared_ptr<ServerCore> core_;
  Socket socket_;
  std::unique_ptr<TlsSession> tls_;  // null: plain
  boost::asio::steady_timer timer_;

  State state_ = State::kReading;
  bool is_waiting_readable_ = false;
  bool is_draining_ = false;
  bool has_read_ = false;         // any byte
  bool has_peer_closed_ = false;  // its sending half
  bool is_given_up_ = false;      // counts as gone, though it may still read
  std::size_t lingered_bytes_ = 0;

  std::string input_;  // bytes that no request has taken yet
  std::optional<RequestReader> reader_;
  std::size_t charged_bytes_ = 0;  // of total_body_bytes

  std::shared_ptr<Exchange> exchange_;  // while kAnswering
  std::string own_output_;              // what we say beside the answer; goes first
  std::string output_;                  // being written, from output_offset_
  std::size_t output_offset_ = 0;
  std::size_t exchange_bytes_ = 0;  // of output_, to be marked sent
  std::string wire_;                // with TLS: what is being written, from wire_offset_
  std::size_t wire_offset_ = 0;
  std::size_t wire_plain_bytes_ = 0;  // of output_, that wire_ carries
  bool is_writing_ = false;
  bool is_answer_complete_ = false;
  bool close_after_answer_ = false;

  Clock::time_point deadline_ = kNever;
  Clock::time_point handshake_deadline_ = kNever;
  Clock::time_point timer_expiry_ = kNever;  // kNever: not armed
};

}  // namespace ashlar::net
