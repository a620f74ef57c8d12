// Who has been served how much: shares of the computed tokens between tenants (Virtual Token
// Counter: Sheng et al. 2024, "Fairness in Serving Large Language Models").
//
// Every tenant has a counter of the tokens computed for it, divided by its weight. Whoever has the
// lowest goes first. A tenant that comes, or comes back, starts at the virtual time at least, which
// is the lowest counter of those that were there all along: being idle earns nothing. What it has
// used beyond that it still owes, for as long as others have not caught up.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ashlar::sched {

struct Sequence;

// The order between sequences: lower priority values first, then those that came first.
struct Order {
  std::int32_t priority = 0;
  std::uint64_t arrival = 0;

  friend auto operator<=>(const Order&, const Order&) = default;
};

inline constexpr std::uint32_t kMaxTenantWeight = 1000;

struct Tenant {
  std::uint64_t used = 0;  // virtual time: 1/65536 of a token at weight 1
  std::uint32_t weight = 1;
  std::uint64_t sequences = 0;         // waiting and running ones
  std::map<Order, Sequence*> waiting;  // the waiting line's (waiting_line.h)
};

class FairShare {
 public:
  // Tenants remembered without a sequence: beyond this the debts of the smallest debtor are
  // forgiven.
  static constexpr std::size_t kMaxIdle = 1024;

  // A sequence of this tenant is there; the last weight given counts. The tenant's address stays.
  // O(log tenants), and O(tenants) when it had none. Precondition: weight 1 to kMaxTenantWeight.
  Tenant& Join(std::string_view name, std::uint32_t weight);
  // One of them has gone. O(tenants) when it was the last.
  void Leave(Tenant& tenant);

  static void Charge(Tenant& tenant, std::uint64_t tokens) { tenant.used += Cost(tenant, tokens); }
  // What was charged at this weight and has not been computed after all.
  static void Refund(Tenant& tenant, std::uint64_t tokens) { tenant.used -= Cost(tenant, tokens); }

  std::size_t tenants() const { return tenants_.size(); }  // remembered

 private:
  static std::uint64_t Cost(const Tenant& tenant, std::uint64_t tokens) {
    return (tokens << 16) / tenant.weight;
  }
  void AdvanceTime();
  void ForgetIdle();

  std::map<std::string, Tenant, std::less<>> tenants_;
  std::size_t idle_ = 0;
  std::uint64_t virtual_time_ = 0;
};

}  // namespace ashlar::sched
