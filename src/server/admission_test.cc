#include "server/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace ashlar::server {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

using Ticket = Admission::Ticket;

class AdmissionTest : public ::testing::Test {
 protected:
  // A ticket, which must be had.
  Ticket Enter(const Tenant& tenant) {
    auto ticket = admission_->Enter(tenant);
    EXPECT_TRUE(ticket.ok()) << (ticket.ok() ? "" : ticket.error().message);
    return ticket.ok() ? std::move(ticket).value() : Ticket();
  }

  ApiError Refusal(const Tenant& tenant) {
    auto ticket = admission_->Enter(tenant);
    EXPECT_FALSE(ticket.ok());
    return ticket.ok() ? ApiError{.status = 200} : ticket.error();
  }

  ManualClock clock_;
  std::shared_ptr<Admission> admission_ = std::make_shared<Admission>(clock_, 3);
  const Tenant owner_{.name = ""};
  const Tenant acme_{.name = "acme", .max_requests = 2, .tokens_per_minute = 600};
};

TEST_F(AdmissionTest, AsManyAsTheServerTakesAndNoMore) {
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(Enter(owner_));
  }
  EXPECT_EQ(admission_->requests(), 3u);
  const ApiError full = Refusal(owner_);
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.retry_after_s, 1);
  tickets.pop_back();
  Enter(owner_);
  tickets.clear();
  EXPECT_EQ(admission_->requests(), 0u);
}

TEST_F(AdmissionTest, AsManyAsATenantMayAndNoMore) {
  Ticket first = Enter(acme_);
  const Ticket second = Enter(acme_);
  EXPECT_EQ(Refusal(acme_).status, 429);
  const Ticket other = Enter(owner_);
  first.Release();
  first.Release();  // once
  const Ticket third = Enter(acme_);
  EXPECT_EQ(admission_->requests(), 3u);
}

TEST_F(AdmissionTest, ATicketMovesWithItsPlace) {
  Ticket first = Enter(owner_);
  Ticket second = std::move(first);
  EXPECT_EQ(admission_->requests(), 1u);
  second = Enter(owner_);
  EXPECT_EQ(admission_->requests(), 1u);
}

TEST_F(AdmissionTest, TokensAreUsedUpAndComeBackWithTime) {
  Ticket ticket = Enter(acme_);
  ticket.Charge(599);
  Enter(acme_);  // one is left
  ticket.Charge(11);
  const ApiError error = Refusal(acme_);  // 10 in debt, at 10 a second: more than 1 s
  EXPECT_EQ(error.status, 429);
  EXPECT_EQ(error.code, "rate_limit_exceeded");
  EXPECT_EQ(error.retry_after_s, 2);
  clock_.AdvanceNs(kSecondNs);
  EXPECT_EQ(Refusal(acme_).retry_after_s, 1);
  clock_.AdvanceNs(kSecondNs);
  Enter(acme_);
  // An hour fills no more than a minute's worth.
  clock_.AdvanceNs(3600 * kSecondNs);
  Enter(acme_);
  ticket.Charge(600);
  EXPECT_EQ(Refusal(acme_).status, 429);
}

// Of an answer that failed, the engine may end some sequences after it has left.
TEST_F(AdmissionTest, WhatIsUsedAfterItsPlaceWasGivenBackIsChargedAsWell) {
  Ticket ticket = Enter(acme_);
  ticket.Release();
  EXPECT_EQ(admission_->requests(), 0u);
  ticket.Charge(600);
  EXPECT_EQ(Refusal(acme_).status, 429);
  Ticket moved = std::move(ticket);
  moved.Release();
  EXPECT_EQ(admission_->requests(), 0u);
}

TEST_F(AdmissionTest, ARateOfOneRefusesForAWhileButNotForEver) {
  const Tenant slow{.name = "slow", .tokens_per_minute = 1};
  Ticket ticket = Enter(slow);
  ticket.Charge(1'000'000);
  EXPECT_EQ(Refusal(slow).retry_after_s, 300);
}

TEST_F(AdmissionTest, WhenToComeAgainFollowsFromHowLongRequestsTake) {
  EXPECT_EQ(admission_->RetryAfterS(100, 2), 1);  // nothing is known yet
  {
    Ticket ticket = Enter(owner_);
    ticket.AddServed(4 * kSecondNs);
    EXPECT_EQ(admission_->RetryAfterS(10, 2), 20);
    ticket.AddServed(14 * kSecondNs);
    EXPECT_EQ(admission_->RetryAfterS(10, 2), 25);
  }
  EXPECT_EQ(admission_->RetryAfterS(1, 0), 5);
  EXPECT_EQ(admission_->RetryAfterS(0, 2), 1);
  EXPECT_EQ(admission_->RetryAfterS(100'000, 1), 300);
}

TEST_F(AdmissionTest, NobodyEntersADrainingServerButThoseInsideStay) {
  const Ticket ticket = Enter(owner_);
  EXPECT_FALSE(admission_->is_draining());
  admission_->BeginDrain(7);
  EXPECT_TRUE(admission_->is_draining());
  const ApiError error = Refusal(owner_);
  EXPECT_EQ(error.status, 503);
  EXPECT_EQ(error.retry_after_s, 7);
  EXPECT_EQ(admission_->requests(), 1u);
}

TEST_F(AdmissionTest, ATicketMayOutliveTheDoor) {
  Ticket ticket = Enter(acme_);
  admission_.reset();
  ticket.Charge(5);
}

}  // namespace
}  // namespace ashlar::server
