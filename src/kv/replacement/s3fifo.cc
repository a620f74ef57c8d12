// s3fifo after Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
// SOSP 2023.
//
// New blocks enter the small list, a tenth of the queue, and leave it soon: to the main list where
// they were hit more than once, else for good, and the ghost remembers their content. What returns
// while the ghost remembers it enters the main list at once. In the main list every hit, up to
// three, buys another round.
//
// A block keeps its place while it is in use; one that is met there is judged as any other, but is
// out of the lists until it is idle again. One that may not leave because it has children and is
// then hit is judged again when it is idle.
#include <algorithm>
#include <array>

#include "kv/replacement/policies.h"
#include "kv/replacement/policy_queue.h"

namespace ashlar::kv {
namespace {

class S3FifoQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  enum : std::uint8_t { kSmall, kMain, kLists };
  // All from the paper: the small list's share, the hits that count, the hits that promote.
  static constexpr std::uint64_t kSmallDivisor = 10;
  static constexpr std::uint8_t kMaxFrequency = 3;
  static constexpr std::uint8_t kPromotingFrequency = 2;

  void Enter(RecordIndex i, const BlockTraits& traits) override {
    record(i).value = traits.content;
    record(i).list = records().ghost().Take(traits.content) ? kMain : kSmall;
    Append(i);
  }
  void Reenter(RecordIndex i, const BlockTraits&) override {
    if (IsOrdered(i)) return;
    if (DeservesMain(i)) Promote(i);
    Append(i);
  }
  void Touch(RecordIndex i) override {
    std::uint8_t& frequency = record(i).frequency;
    frequency = std::min<std::uint8_t>(frequency + 1, kMaxFrequency);
  }
  RecordIndex Next() override {
    for (;;) {
      const RecordIndex i = lists_[ListToShrink()].first;
      if (i == kNoRecord) return kNoRecord;
      Record& r = record(i);
      if (r.is_idle && (r.list == kMain ? r.frequency == 0 : !DeservesMain(i))) return i;
      Remove(i);
      if (DeservesMain(i)) {
        Promote(i);
      } else if (r.list == kMain) {
        --r.frequency;
      }
      if (r.is_idle) Append(i);
    }
  }
  void Remove(RecordIndex i) override { Unlink(lists_[record(i).list], i); }
  void Replaced(RecordIndex i) override {
    if (record(i).list == kSmall) records().ghost().Add(record(i).value);
  }

  std::uint8_t ListToShrink() const {
    const std::uint64_t small = lists_[kSmall].size;
    const std::uint64_t all = small + lists_[kMain].size;
    return small > 0 && small * kSmallDivisor >= all ? kSmall : kMain;
  }
  bool DeservesMain(RecordIndex i) const {
    return record(i).list == kSmall && record(i).frequency >= kPromotingFrequency;
  }
  // The hits are spent on the promotion.
  void Promote(RecordIndex i) {
    record(i).list = kMain;
    record(i).frequency = 0;
  }
  void Append(RecordIndex i) { Link(lists_[record(i).list], i); }

  std::span<const RecordList> lists() const override { return lists_; }
  void CheckPolicy() const override {
    for (const RecordList& list : lists_) {
      for (RecordIndex i = list.first; i != kNoRecord; i = record(i).next) {
        ASHLAR_CHECK(record(i).frequency <= kMaxFrequency, "block {}", i);
        ASHLAR_CHECK(record(i).is_idle || record(i).frequency > 0, "block {} was not hit", i);
      }
    }
  }

  std::array<RecordList, kLists> lists_;  // oldest first
};

}  // namespace

std::unique_ptr<ReplacementQueue> MakeS3FifoQueue(ReplacementRecords& records) {
  return std::make_unique<S3FifoQueue>(records);
}

}  // namespace ashlar::kv
