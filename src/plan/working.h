// The sums of a plan with the numbers in them, a line each, for people to check.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace ashlar::plan {

// "f16"; "hq8 + q8" where K and V differ.
std::string CodecsOf(const GroupNeed& group);

std::vector<std::string> Working(const Plan& plan);

}  // namespace ashlar::plan
