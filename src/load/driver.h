// Runs a workload: begins conversations when the pacer says so, sends their turns one by one with
// the answers so far, and writes down what happened. Knows no sockets and no real time, so tests
// drive it by a scripted transport and a clock of their own. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "load/pacer.h"
#include "load/request_body.h"
#include "load/results.h"
#include "load/transport.h"
#include "load/workload.h"

namespace ashlar::load {

struct DriverOptions {
  BodyOptions body;
  PacerOptions pacer;
  // Requests at a time. Where more conversations are open, their turns go round: the one that has
  // waited longest is sent first.
  std::size_t max_requests = 1;
};

class Driver {
 public:
  // All must outlive the driver and every sink given to the transport. Times begin now.
  Driver(const Workload& workload, DriverOptions options, Transport& transport, const Clock& clock,
         Results& results);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Sends what is due. To be called again after any answer has come on, and at the time returned.
  std::optional<std::int64_t> Poke();

  // No more requests are sent; those under way may still end.
  void Stop();

  bool is_done() const { return pacer_.is_done(); }
  std::size_t running() const { return running_; }  // requests
  std::int64_t NowNs() const { return clock_.NowNs() - start_ns_; }

 private:
  struct Conversation;
  class Answer;

  void SendTurn(std::unique_ptr<Conversation> conversation);
  void OnAnswer(std::unique_ptr<Conversation> conversation, const AnswerMeter& meter,
                const std::optional<Failure>& failure);

  const Workload& workload_;
  const DriverOptions options_;
  Transport& transport_;
  const Clock& clock_;
  Results& results_;
  const std::int64_t start_ns_;
  Pacer pacer_;
  std::deque<std::unique_ptr<Conversation>> ready_;  // whose next turn may be sent
  std::size_t running_ = 0;
  bool is_stopped_ = false;
};

}  // namespace ashlar::load
