// fifo, and sieve: FIFO with a hand that spares the blocks that were hit. sieve after Zhang, Yang,
// Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024.
//
// Both keep a block's place while it is in use. One that is met there is taken out, so that it is
// met once and not at every search.
#include <array>

#include "kv/replacement/policies.h"
#include "kv/replacement/policy_queue.h"

namespace ashlar::kv {
namespace {

// A block whose turn comes while it is in use or has children has had its turn: it is due as soon
// as it is idle and has none.
class FifoQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  void Enter(RecordIndex i, const BlockTraits&) override { Link(lists_[0], i); }
  void Reenter(RecordIndex i, const BlockTraits&) override {
    if (!IsOrdered(i)) BecomeDue(i);
  }
  void Touch(RecordIndex) override {}
  RecordIndex Next() override {
    while (lists_[0].size > 0 && !record(lists_[0].first).is_idle) Remove(lists_[0].first);
    return lists_[0].first;
  }
  void Remove(RecordIndex i) override { Unlink(lists_[0], i); }
  std::span<const RecordList> lists() const override { return lists_; }

  std::array<RecordList, 1> lists_;  // first become idle first
};

// The hand moves from the oldest block to the newest and round again. It clears the mark of a
// visited block and passes; it stops at one without. A block that it met in use, or that was used
// after it had been set aside, re-enters just behind the hand: the whole round is ahead of it.
class SieveQueue final : public PolicyQueue {
 public:
  using PolicyQueue::PolicyQueue;

 private:
  void Enter(RecordIndex i, const BlockTraits&) override { Link(lists_[0], i); }
  void Reenter(RecordIndex i, const BlockTraits&) override {
    if (!IsOrdered(i)) Link(lists_[0], i, hand_);
  }
  void Touch(RecordIndex i) override { record(i).was_visited = true; }
  RecordIndex Next() override {
    while (lists_[0].size > 0) {
      const RecordIndex i = hand_ == kNoRecord ? lists_[0].first : hand_;
      Record& r = record(i);
      if (!r.was_visited) return hand_ = i;
      r.was_visited = false;
      hand_ = r.next;
      records().CountStep();
      if (!r.is_idle) Remove(i);
    }
    return kNoRecord;
  }
  void Remove(RecordIndex i) override {
    if (hand_ == i) hand_ = record(i).next;
    Unlink(lists_[0], i);
  }

  std::span<const RecordList> lists() const override { return lists_; }
  void CheckPolicy() const override {
    if (hand_ != kNoRecord) ASHLAR_CHECK(IsOrdered(hand_), "the hand is at block {}", hand_);
    for (RecordIndex i = lists_[0].first; i != kNoRecord; i = record(i).next) {
      ASHLAR_CHECK(record(i).is_idle || record(i).was_visited, "block {} was not visited", i);
    }
  }

  std::array<RecordList, 1> lists_;  // oldest first
  RecordIndex hand_ = kNoRecord;     // the next to look at; kNoRecord: the oldest
};

}  // namespace

std::unique_ptr<ReplacementQueue> MakeFifoQueue(ReplacementRecords& records) {
  return std::make_unique<FifoQueue>(records);
}

std::unique_ptr<ReplacementQueue> MakeSieveQueue(ReplacementRecords& records) {
  return std::make_unique<SieveQueue>(records);
}

}  // namespace ashlar::kv
