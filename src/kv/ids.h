// The ids of the cache. Flat arrays are indexed by them; kNone... stands for "no such thing" where
// an array must hold a value.
#pragma once

#include <cstdint>
#include <limits>

#include "base/ids.h"

namespace ashlar::kv {

// One node of the prefix index: a block's worth of tokens after one prefix, in one scope.
using NodeId = StrongId<struct NodeIdTag, std::uint32_t>;
// Whose bytes these are: a tenant with limits of its own, or everybody else (kCommonAccount).
using AccountId = StrongId<struct AccountIdTag, std::uint16_t>;

inline constexpr BlockId kNoBlock{std::numeric_limits<std::uint32_t>::max()};
inline constexpr NodeId kNoNode{std::numeric_limits<std::uint32_t>::max()};
inline constexpr AccountId kCommonAccount{0};

}  // namespace ashlar::kv
