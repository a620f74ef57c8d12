#include "server/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ashlar::server {
namespace {

constexpr double kMinuteNs = 60e9;
constexpr std::int64_t kMaxRetryAfterS = 300;
// Weight of the latest sequence in the running mean.
constexpr double kLatestWeight = 0.1;

std::int64_t SecondsOf(double ns) {
  return static_cast<std::int64_t>(
      std::clamp(std::ceil(ns * 1e-9), 1.0, static_cast<double>(kMaxRetryAfterS)));
}

}  // namespace

Admission::Admission(const Clock& clock, std::size_t max_requests)
    : clock_(clock), max_requests_(max_requests) {}

ApiResult<Admission::Ticket> Admission::Enter(const Tenant& tenant) {
  const std::lock_guard lock(mutex_);
  if (is_draining_) {
    return BusyLocked(503, "the server is shutting down", drain_retry_after_s_);
  }
  if (requests_ >= max_requests_) {
    return BusyLocked(503, fmt::format("the server works on {} requests already", requests_),
                      RetryAfterLocked(1, requests_));
  }
  Account* const account = AccountLocked(tenant);
  if (account != nullptr && tenant.max_requests > 0 && account->requests >= tenant.max_requests) {
    return BusyLocked(429,
                      fmt::format("tenant '{}' has {} requests under way, as many as it may",
                                  tenant.name, account->requests),
                      RetryAfterLocked(1, account->requests));
  }
  if (account != nullptr && tenant.tokens_per_minute > 0 && account->tokens <= 0) {
    const double token_ns = kMinuteNs / static_cast<double>(tenant.tokens_per_minute);
    return BusyLocked(429,
                      fmt::format("tenant '{}' has used its {} tokens a minute", tenant.name,
                                  tenant.tokens_per_minute),
                      SecondsOf((1 - account->tokens) * token_ns));
  }
  ++requests_;
  if (account != nullptr) {
    ++account->requests;
  }
  return Ticket(shared_from_this(), account);
}

// Null without quotas. Else filled up to now.
Admission::Account* Admission::AccountLocked(const Tenant& tenant) {
  if (tenant.max_requests == 0 && tenant.tokens_per_minute == 0) {
    return nullptr;
  }
  const auto most = static_cast<double>(tenant.tokens_per_minute);
  const std::int64_t now_ns = clock_.NowNs();
  const auto [found, is_new] = accounts_.try_emplace(tenant.name);
  Account& account = found->second;
  if (is_new) {
    account.tokens = most;
  } else {
    const auto passed_ns = static_cast<double>(now_ns - account.filled_ns);
    account.tokens = std::min(most, account.tokens + passed_ns / kMinuteNs * most);
  }
  account.filled_ns = now_ns;
  return &account;
}

ApiError Admission::BusyLocked(int status, std::string message, std::int64_t retry_after_s) const {
  return {.status = status,
          .message = fmt::format("{}; try again in {} s", message, retry_after_s),
          .code = status == 429 ? "rate_limit_exceeded" : "service_unavailable",
          .retry_after_s = retry_after_s};
}

void Admission::BeginDrain(std::int64_t retry_after_s) {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  drain_retry_after_s_ = std::clamp<std::int64_t>(retry_after_s, 1, kMaxRetryAfterS);
}

bool Admission::is_draining() const {
  const std::lock_guard lock(mutex_);
  return is_draining_;
}

std::size_t Admission::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::int64_t Admission::RetryAfterS(std::uint64_t waiting, std::uint64_t running) const {
  const std::lock_guard lock(mutex_);
  return RetryAfterLocked(waiting, running);
}

std::int64_t Admission::RetryAfterLocked(std::uint64_t waiting, std::uint64_t running) const {
  return SecondsOf(service_ns_ * static_cast<double>(waiting) /
                   static_cast<double>(std::max<std::uint64_t>(running, 1)));
}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Release();
    admission_ = std::move(other.admission_);
    account_ = other.account_;
    is_inside_ = std::exchange(other.is_inside_, false);
  }
  return *this;
}

void Admission::Ticket::Charge(std::uint64_t tokens) {
  if (admission_ && account_ != nullptr) {
    const std::lock_guard lock(admission_->mutex_);
    account_->tokens -= static_cast<double>(tokens);
  }
}

void Admission::Ticket::AddServed(std::int64_t service_ns) {
  if (admission_) {
    const std::lock_guard lock(admission_->mutex_);
    double& mean = admission_->service_ns_;
    const auto latest = static_cast<double>(service_ns);
    mean = mean == 0 ? latest : mean + kLatestWeight * (latest - mean);
  }
}

std::int64_t Admission::Ticket::RetryAfterS(std::uint64_t waiting, std::uint64_t running) const {
  return admission_ ? admission_->RetryAfterS(waiting, running) : 1;
}

void Admission::Ticket::Release() {
  if (!std::exchange(is_inside_, false)) {
    return;
  }
  const std::lock_guard lock(admission_->mutex_);
  --admission_->requests_;
  if (account_ != nullptr) {
    --account_->requests;
  }
}

}  // namespace ashlar::server
