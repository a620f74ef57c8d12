// What a step is expected to last. The engine measures it, a simulator brings it.
#pragma once

#include <cstdint>

namespace ashlar::sched {

// Query-key pairs of `tokens` tokens that begin at `position`: each attends to those before it and
// to itself.
constexpr std::uint64_t AttendedPairs(std::uint64_t position, std::uint64_t tokens) {
  return tokens * position + tokens * (tokens + 1) / 2;
}

// A step of `tokens` tokens that attend to `pairs` tokens in all lasts
//   fixed_ns + per_token_ns * tokens + per_context_token_ns * pairs.
// None is negative; all 0: not known.
struct StepCost {
  double fixed_ns = 0;              // reading the weights once
  double per_token_ns = 0;          // the matrices' share of a token
  double per_context_token_ns = 0;  // a query's share of one key and value in all layers

  double PredictNs(std::uint64_t tokens, std::uint64_t pairs) const {
    return fixed_ns + per_token_ns * static_cast<double>(tokens) +
           per_context_token_ns * static_cast<double>(pairs);
  }

  // The most tokens from `position` on, up to `limit`, that add no more than budget_ns to a step.
  // O(log limit).
  std::uint32_t TokensWithin(double budget_ns, std::uint64_t position, std::uint32_t limit) const;

  friend bool operator==(const StepCost&, const StepCost&) = default;
};

}  // namespace ashlar::sched
