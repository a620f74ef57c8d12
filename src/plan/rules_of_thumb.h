// What popular rules of thumb say of the KV cache, beside what it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/geometry.h"
#include "plan/kv_need.h"

namespace ashlar::plan {

struct RuleOfThumb {
  std::string name;         // "query heads instead of kv heads"
  std::string formula;      // with the numbers in it
  std::uint64_t bytes = 0;  // of one sequence
  double factor = 0;        // of what the sequence takes
};

// Those that say something else than `need`, which is of this geometry and workload.
std::vector<RuleOfThumb> RulesOfThumb(const Geometry& geometry, const KvNeed& need,
                                      const Workload& workload);

}  // namespace ashlar::plan
