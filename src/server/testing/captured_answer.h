// Stands in for a connection: gives a Responder and collects what is answered through it. Used by
// the one thread of a test; only ScheduleFlush comes from others.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/exchange.h"
#include "net/http_server.h"
#include "server/json.h"

namespace ashlar::server::testing {

class CapturedAnswer : public net::AnswerTransport {
 public:
  static std::shared_ptr<CapturedAnswer> Create(const net::AnswerOptions& options = {});

  // The handle to answer through. To be taken once: dropping it counts.
  net::Responder TakeResponder();

  void ScheduleFlush() override;

  // Blocks until the answer is complete or cut; false after a long time.
  bool Wait();
  // Blocks until the body so far contains `text`.
  bool WaitFor(std::string_view text);

  // The client leaves.
  void Leave() { exchange_->MarkClosed(); }

  std::size_t unsent_bytes() const { return exchange_->unsent_bytes(); }
  // Of what has come so far.
  int status() const;
  std::string Header(std::string_view name) const;
  std::string body() const;  // chunks joined
  bool is_cut() const { return is_cut_; }
  Json json() const;
  // Of a stream: the JSON of every event but "[DONE]".
  std::vector<Json> events() const;

 private:
  bool Receive();  // waits for a flush and takes what there is

  std::shared_ptr<net::Exchange> exchange_;
  std::optional<net::Responder> responder_;
  bool is_complete_ = false;
  bool is_cut_ = false;
  std::string bytes_;

  std::mutex mutex_;
  std::condition_variable flush_;
  bool is_flush_due_ = false;  // protected by mutex_
};

}  // namespace ashlar::server::testing
