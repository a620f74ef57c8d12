// The door every generation passes: how many requests are inside, of whom, and what their tenants
// have used of their minute.
//
// A Ticket is the right to be inside. Its tenant's tokens are a bucket that fills by
// tokens_per_minute a minute, up to one minute's worth; a request may enter while it is not empty,
// is charged for what it really uses, and may leave it in debt: so a long prompt is not shut out,
// and the rate holds over time.
//
// When to come again is computed: from the bucket, or from how long requests took lately and how
// many stand before.
//
// Thread-safe; shared with tickets, which may outlive the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "server/api_error.h"
#include "server/api_keys.h"

namespace ashlar::server {

class Admission : public std::enable_shared_from_this<Admission> {
 public:
  class Ticket;

  // `max_requests`: inside at once. `clock` must outlive it and its tickets.
  Admission(const Clock& clock, std::size_t max_requests);

  // Errors: 503 when the server is full or shutting down, 429 when the tenant's quota is used up.
  ApiResult<Ticket> Enter(const Tenant& tenant);

  // From now on nobody enters; they may come again when the server should be back.
  void BeginDrain(std::int64_t retry_after_s);
  bool is_draining() const;

  std::size_t requests() const;  // inside

  // In seconds, from 1 to 300: until `waiting` sequences have been served, when `running` are
  // served at once.
  std::int64_t RetryAfterS(std::uint64_t waiting, std::uint64_t running) const;

 private:
  // What a tenant with quotas has in use.
  struct Account {
    std::size_t requests = 0;
    double tokens = 0;  // left of this minute; below 0: debt
    std::int64_t filled_ns = 0;
  };

  std::int64_t RetryAfterLocked(std::uint64_t waiting, std::uint64_t running) const;
  ApiError BusyLocked(int status, std::string message, std::int64_t retry_after_s) const;
  Account* AccountLocked(const Tenant& tenant);

  const Clock& clock_;
  const std::size_t max_requests_;
  mutable std::mutex mutex_;  // protects all below
  std::size_t requests_ = 0;
  std::map<std::string, Account> accounts_;  // as many as the key file names
  double service_ns_ = 0;  // running mean of a sequence's time from its admission to its end
  bool is_draining_ = false;
  std::int64_t drain_retry_after_s_ = 1;
};

class Admission::Ticket {
 public:
  Ticket() = default;  // to nothing
  Ticket(std::shared_ptr<Admission> admission, Account* account)
      : admission_(std::move(admission)), account_(account), is_inside_(true) {}
  Ticket(Ticket&& other) noexcept
      : admission_(std::move(other.admission_)),
        account_(other.account_),
        is_inside_(std::exchange(other.is_inside_, false)) {}
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket() { Release(); }

  // `tokens` of the tenant's minute were used. After Release, too: of an answer that failed, the
  // engine may end some sequences later.
  void Charge(std::uint64_t tokens);
  // A sequence has been served in so much time, waiting not counted.
  void AddServed(std::int64_t service_ns);
  // See Admission.
  std::int64_t RetryAfterS(std::uint64_t waiting, std::uint64_t running) const;
  // Leaves: the place is free. Idempotent.
  void Release();

 private:
  std::shared_ptr<Admission> admission_;  // null: to nothing
  Account* account_ = nullptr;            // of admission_; null: a tenant without quotas
  bool is_inside_ = false;
};

}  // namespace ashlar::server
