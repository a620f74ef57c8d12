// lfu: one LRU list per frequency, and a mask of those that are not empty.
//
// Frequencies stop at 32, so that blocks that were ever popular compete by recency, and nothing
// ages. Halving all counts now and then was rejected: it would take O(blocks) at once or an epoch
// in every record, and slru and s3fifo are there for workloads whose favourites change.
#include <algorithm>
#include <array>
#include <bit>

#include "kv/replacement/policies.h"
#include "kv/replacement/policy_queue.h"

namespace ashlar::kv {
namespace {

class LfuQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  static constexpr std::uint8_t kFrequencies = 32;

  void Enter(RecordIndex i, const BlockTraits&) override { Append(i); }
  void Reenter(RecordIndex i, const BlockTraits&) override { Append(i); }
  // A record's list is its frequency - 1.
  void Touch(RecordIndex i) override {
    if (IsOrdered(i)) Remove(i);
    record(i).list = std::min<std::uint8_t>(record(i).list + 1, kFrequencies - 1);
  }
  RecordIndex Next() override {
    return filled_ == 0 ? kNoRecord : lists_[std::countr_zero(filled_)].first;
  }
  void Remove(RecordIndex i) override {
    const std::uint8_t list = record(i).list;
    Unlink(lists_[list], i);
    if (lists_[list].size == 0) filled_ &= ~(1u << list);
  }
  void Append(RecordIndex i) {
    const std::uint8_t list = record(i).list;
    Link(lists_[list], i);
    filled_ |= 1u << list;
  }

  std::span<const RecordList> lists() const override { return lists_; }
  void CheckPolicy() const override {
    for (std::uint8_t k = 0; k < kFrequencies; ++k) {
      ASHLAR_CHECK((filled_ >> k & 1u) == (lists_[k].size > 0 ? 1u : 0u), "list {}", k);
    }
  }

  std::array<RecordList, kFrequencies> lists_;  // longest idle first
  std::uint32_t filled_ = 0;                    // bit k: list k is not empty
};

static_assert(sizeof(LfuQueue) <= 512, "the largest queue; replacement.h promises its size");

}  // namespace

std::unique_ptr<ReplacementQueue> MakeLfuQueue(ReplacementRecords& records) {
  return std::make_unique<LfuQueue>(records);
}

}  // namespace ashlar::kv
