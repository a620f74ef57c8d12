// Ids that cannot be mixed up: BlockId and SequenceId are different types over the same integer.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace ashlar {

template <typename Tag, typename Integer>
class StrongId {
 public:
  using ValueType = Integer;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Integer value) : value_(value) {}

  constexpr Integer value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Integer value_ = 0;
};

// A token's id in the model's vocabulary: below 2^31 in every model we read. A plain integer,
// because kernels, files and JSON all treat it as data.
using TokenId = std::int32_t;

using BlockId = StrongId<struct BlockIdTag, std::uint32_t>;
using SequenceId = StrongId<struct SequenceIdTag, std::uint64_t>;
using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;

}  // namespace ashlar

template <typename Tag, typename Integer>
struct std::hash<ashlar::StrongId<Tag, Integer>> {
  std::size_t operator()(ashlar::StrongId<Tag, Integer> id) const {
    return std::hash<Integer>()(id.value());
  }
};
