// lru, and slru: LRU in two segments. slru after Karedla, Love, Wherry: "Caching strategies to
// improve disk system performance", IEEE Computer 1994.
#include <array>

#include "kv/replacement/policies.h"
#include "kv/replacement/policy_queue.h"

namespace ashlar::kv {
namespace {

class LruQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  void Enter(RecordIndex i, const BlockTraits&) override { Link(lists_[0], i); }
  void Reenter(RecordIndex i, const BlockTraits&) override { Link(lists_[0], i); }
  void Touch(RecordIndex i) override {
    if (IsOrdered(i)) Remove(i);
  }
  RecordIndex Next() override { return lists_[0].first; }
  void Remove(RecordIndex i) override { Unlink(lists_[0], i); }
  std::span<const RecordList> lists() const override { return lists_; }

  std::array<RecordList, 1> lists_;  // longest idle first
};

// A block enters the probation segment; one that was used again enters the protected segment. Where
// that is beyond its share when a victim is sought, its longest idle blocks go back to probation,
// as if they had just become idle. Sooner would be wrong: while memory is free nothing is to be
// gained by a demotion, and the share of a queue that still fills up is small.
class SlruQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  enum : std::uint8_t { kProbation, kProtected, kLists };
  // Of the blocks the queue knows, four in five may be protected: the authors found 60 to 80 %.
  static constexpr std::uint64_t kShareNumerator = 4;
  static constexpr std::uint64_t kShareDenominator = 5;

  void Enter(RecordIndex i, const BlockTraits&) override { Append(kProbation, i); }
  void Reenter(RecordIndex i, const BlockTraits&) override { Append(kProtected, i); }
  void Touch(RecordIndex i) override {
    if (IsOrdered(i)) Remove(i);
  }
  RecordIndex Next() override {
    const RecordList& segment = lists_[kProtected];
    while (segment.size * kShareDenominator > known_blocks() * kShareNumerator) {
      const RecordIndex demoted = segment.first;
      Remove(demoted);
      Append(kProbation, demoted);
    }
    return lists_[lists_[kProbation].size > 0 ? kProbation : kProtected].first;
  }
  void Remove(RecordIndex i) override { Unlink(lists_[record(i).list], i); }
  void Append(std::uint8_t list, RecordIndex i) {
    record(i).list = list;
    Link(lists_[list], i);
  }
  std::span<const RecordList> lists() const override { return lists_; }

  std::array<RecordList, kLists> lists_;  // longest idle first
};

}  // namespace

std::unique_ptr<ReplacementQueue> MakeLruQueue(ReplacementRecords& records) {
  return std::make_unique<LruQueue>(records);
}

std::unique_ptr<ReplacementQueue> MakeSlruQueue(ReplacementRecords& records) {
  return std::make_unique<SlruQueue>(records);
}

}  // namespace ashlar::kv
