// The way back to one client, with what is known of its request: a net::Responder that puts the
// request's id into the answer's head and remembers its status. Before the client can see that its
// answer is complete, its request's ticket is given back: the next one finds the place free.
//
// Copyable handle. When the last copy goes, the request is over and its observer hears of it: who
// holds a copy decides when that is, and on which thread. The engine's must not be the one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/http_server.h"
#include "server/request_record.h"

namespace ashlar::server {

class Reply {
 public:
  // `clock` must outlive all copies; `observer` may be null.
  Reply(net::Responder responder, std::unique_ptr<RequestRecord> record, const Clock& clock,
        std::shared_ptr<RequestObserver> observer);

  // As net::Responder's.
  void Send(net::HttpResponse response) const;
  // Begins a stream of server-sent events, with a heartbeat.
  void StartEvents() const;
  bool Write(std::string_view bytes) const { return responder_.Write(bytes); }
  // The last bytes of the stream.
  void EndWith(std::string_view bytes) const;
  std::size_t unsent_bytes() const { return responder_.unsent_bytes(); }
  void OnClientGone(std::function<void()> on_gone) const;

  RequestRecord& record() const;
  // Null when nobody observes.
  RequestObserver* observer() const;
  // Since the request arrived.
  std::int64_t age_ns() const;

 private:
  struct Shared;

  net::Responder responder_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ashlar::server
