#include "sched/fair_share.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace ashlar::sched {

Tenant& FairShare::Join(std::string_view name, std::uint32_t weight) {
  ASHLAR_CHECK(weight > 0 && weight <= kMaxTenantWeight, "a weight of {}", weight);
  AdvanceTime();
  auto it = tenants_.find(name);
  if (it == tenants_.end()) {
    it = tenants_.emplace(name, Tenant{}).first;
    ++idle_;
  }
  Tenant& tenant = it->second;
  tenant.weight = weight;
  if (tenant.sequences++ == 0) {
    --idle_;
    tenant.used = std::max(tenant.used, virtual_time_);
  }
  return tenant;
}

void FairShare::Leave(Tenant& tenant) {
  AdvanceTime();
  if (--tenant.sequences > 0) return;
  ++idle_;
  ForgetIdle();
}

// To the lowest counter of those that are there; it stands still when nobody is.
void FairShare::AdvanceTime() {
  constexpr auto kNobody = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t lowest = kNobody;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.sequences > 0) lowest = std::min(lowest, tenant.used);
  }
  if (lowest != kNobody) virtual_time_ = std::max(virtual_time_, lowest);
}

// Whoever owes nothing would start at the virtual time anyway.
void FairShare::ForgetIdle() {
  std::erase_if(tenants_, [this](const auto& entry) {
    const bool owes_nothing = entry.second.sequences == 0 && entry.second.used <= virtual_time_;
    if (owes_nothing) --idle_;
    return owes_nothing;
  });
  if (idle_ <= kMaxIdle) return;
  auto least = tenants_.end();
  for (auto it = tenants_.begin(); it != tenants_.end(); ++it) {
    if (it->second.sequences > 0) continue;
    if (least == tenants_.end() || it->second.used < least->second.used) least = it;
  }
  tenants_.erase(least);
  --idle_;
}

}  // namespace ashlar::sched
