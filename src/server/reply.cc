#include "server/reply.h"

#include <utility>

namespace ashlar::server {
namespace {

// A comment of server-sent events, which readers skip.
constexpr std::string_view kHeartbeat = ":\n\n";

}  // namespace

struct Reply::Shared {
  Shared(std::unique_ptr<RequestRecord> its_record, const Clock& its_clock,
         std::shared_ptr<RequestObserver> its_observer)
      : record(std::move(its_record)), clock(its_clock), observer(std::move(its_observer)) {}
  ~Shared() {
    if (observer != nullptr) observer->OnRequestEnd(*record, age_ns());
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  std::int64_t age_ns() const { return clock.NowNs() - record->started_ns; }

  const std::unique_ptr<RequestRecord> record;
  const Clock& clock;
  const std::shared_ptr<RequestObserver> observer;
};

Reply::Reply(net::Responder responder, std::unique_ptr<RequestRecord> record, const Clock& clock,
             std::shared_ptr<RequestObserver> observer)
    : responder_(std::move(responder)),
      shared_(std::make_shared<Shared>(std::move(record), clock, std::move(observer))) {
  responder_.AddHeader("X-Request-Id", shared_->record->id);
}

RequestRecord& Reply::record() const { return *shared_->record; }

RequestObserver* Reply::observer() const { return shared_->observer.get(); }

std::int64_t Reply::age_ns() const { return shared_->age_ns(); }

void Reply::Send(net::HttpResponse response) const {
  record().status = response.status;
  record().ticket.Release();
  responder_.Send(std::move(response));
}

void Reply::StartEvents() const {
  net::HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  // No proxy may hold events back.
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  record().status = head.status;
  responder_.StartStream(head, kHeartbeat);
}

void Reply::EndWith(std::string_view bytes) const {
  record().ticket.Release();
  responder_.Write(bytes);
  responder_.End();
}

void Reply::OnClientGone(std::function<void()> on_gone) const {
  // Weak: the connection that keeps the callback must not keep the request from being over.
  responder_.OnClientGone([weak = std::weak_ptr(shared_), on_gone = std::move(on_gone)] {
    if (const auto shared = weak.lock()) shared->record->client_left = true;
    on_gone();
  });
}

}  // namespace ashlar::server
