// cost-aware: GreedyDual (Young, 1994) with costs rounded as in CAMP (Ghandeharizadeh, Irani, Lam,
// Yap, Middleware 2014), so that the search for a victim takes O(classes).
//
// A block that becomes idle is worth inflation + cost, and the least worthy leaves first. The
// inflation is the worth of the last victim: what stays idle is overtaken by what becomes idle
// later, the sooner the cheaper it is.
//
// The cost of computing a block again is that of its tokens, the same for all, and of their
// attention to the depth_tokens before them. The two are about equal at 4,096 tokens (a model of
// 135 M parameters in 30 layers of width 576: 270 MFLOP a token, and 69 kFLOP a token and token
// before it), so cost = 1 + depth_tokens / 4096, here in halves. Deeper costs saturate at 192, a
// depth of 782,336 tokens.
#include <algorithm>
#include <array>
#include <bit>

#include "kv/replacement/policies.h"
#include "kv/replacement/policy_queue.h"

namespace ashlar::kv {
namespace {

// Costs are rounded down to their two highest bits: 2, 3, 4, 6, 8, 12, ..., 256, 384 halves.
constexpr std::uint32_t kClasses = 16;
constexpr std::uint32_t kTokensPerHalf = 2048;

constexpr std::uint8_t ClassOf(std::uint32_t depth_tokens) {
  const std::uint32_t halves = 2 + depth_tokens / kTokensPerHalf;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(halves)) - 2;
  return static_cast<std::uint8_t>(std::min(2 * shift + (halves >> shift & 1), kClasses - 1));
}

constexpr std::uint64_t CostOf(std::uint8_t cost_class) {
  return std::uint64_t{2u + (cost_class & 1u)} << (cost_class >> 1);
}

static_assert(ClassOf(0) == 0 && CostOf(0) == 2);
static_assert(ClassOf(4096) == 2 && CostOf(2) == 4);
static_assert(CostOf(ClassOf(382 * kTokensPerHalf)) == 384);

class CostAwareQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  void Enter(RecordIndex i, const BlockTraits& traits) override {
    record(i).list = ClassOf(traits.depth_tokens);
    record(i).value = inflation_ + CostOf(record(i).list);
    Link(lists_[record(i).list], i);
  }
  void Reenter(RecordIndex i, const BlockTraits& traits) override { Enter(i, traits); }
  void Touch(RecordIndex i) override {
    if (IsOrdered(i)) Remove(i);
  }
  // The first of each class is its least worthy, as the inflation never falls. Of equals the one
  // that cost more entered at a lower inflation and is idle for longer: it goes first.
  RecordIndex Next() override {
    RecordIndex least = kNoRecord;
    for (std::size_t k = kClasses; k-- > 0;) {
      const RecordIndex i = lists_[k].first;
      if (i == kNoRecord) continue;
      if (least == kNoRecord || record(i).value < record(least).value) least = i;
    }
    return least;
  }
  void Remove(RecordIndex i) override { Unlink(lists_[record(i).list], i); }
  // A victim that had been set aside may be worth less than the last one.
  void Replaced(RecordIndex i) override { inflation_ = std::max(inflation_, record(i).value); }

  std::span<const RecordList> lists() const override { return lists_; }
  void CheckPolicy() const override {
    for (const RecordList& list : lists_) {
      std::uint64_t least = 0;
      for (RecordIndex i = list.first; i != kNoRecord; i = record(i).next) {
        ASHLAR_CHECK(least <= record(i).value, "block {} is worth less than the one before", i);
        least = record(i).value;
      }
    }
  }

  std::array<RecordList, kClasses> lists_;  // longest idle first
  std::uint64_t inflation_ = 0;             // in halves
};

}  // namespace

std::unique_ptr<ReplacementQueue> MakeCostAwareQueue(ReplacementRecords& records) {
  return std::make_unique<CostAwareQueue>(records);
}

}  // namespace ashlar::kv
