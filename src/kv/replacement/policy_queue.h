// What all policies have in common: which blocks a queue knows, which are idle, and the two rules
// of replacement.h. A policy derives from PolicyQueue and says only in which order turns come.
//
//   apart    in no list: in use and not ordered meanwhile; or idle and *set aside*: its turn came
//            while it had children.
//   ordered  in a list of the policy. In use as well where a policy keeps the place (fifo, s3fifo,
//            sieve).
//   due      idle, without children, its turn has come: leaves before all that is ordered, longest
//            due first.
//
// An idle block that is apart has children; so "set aside" needs no mark of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kv/replacement.h"
#include "kv/replacement/records.h"

namespace ashlar::kv {

class PolicyQueue : public ReplacementQueue {
 public:
  explicit PolicyQueue(ReplacementRecords& records)
      : records_(records), queue_(records.NextQueue()) {}
  PolicyQueue(const PolicyQueue&) = delete;
  PolicyQueue& operator=(const PolicyQueue&) = delete;

  void OnIdle(BlockId block, const BlockTraits& traits) final;
  void OnUse(BlockId block) final;
  void OnDrop(BlockId block) final;
  void OnFirstChild(BlockId block) final;
  void OnLastChildGone(BlockId block) final;
  std::optional<BlockId> Victim() final;
  std::uint64_t idle_blocks() const final { return idle_; }
  void CheckInvariants() const final;

 protected:
  // The block is new to this queue, and idle. The policy puts it in order.
  virtual void Enter(RecordIndex i, const BlockTraits& traits) = 0;
  // A block that this queue knows is idle again; it is apart, or ordered where it kept its place.
  virtual void Reenter(RecordIndex i, const BlockTraits& traits) = 0;
  // An idle block was hit and is in use; it is ordered, or apart after it was set aside or due.
  virtual void Touch(RecordIndex i) = 0;
  // The idle block whose turn it is, still ordered; kNoRecord when none is ordered. May rearrange
  // what it meets on the way, and must then answer the same again.
  virtual RecordIndex Next() = 0;
  // Takes an ordered block out of its list, by Unlink.
  virtual void Remove(RecordIndex i) = 0;
  // The victim leaves for good; its record still holds what the policy wrote.
  virtual void Replaced(RecordIndex) {}

  // All lists of the policy; list k holds the records whose `list` is k.
  virtual std::span<const RecordList> lists() const = 0;
  virtual void CheckPolicy() const {}

  ReplacementRecords& records() { return records_; }
  Record& record(RecordIndex i) { return records_[i]; }
  const Record& record(RecordIndex i) const { return records_[i]; }
  // Blocks this queue knows, idle or in use.
  std::uint32_t known_blocks() const { return known_; }
  bool IsOrdered(RecordIndex i) const { return records_[i].place == Place::kOrdered; }

  // Apart -> ordered, in front of `before` or last. Ordered -> apart.
  void Link(RecordList& list, RecordIndex i, RecordIndex before = kNoRecord);
  void Unlink(RecordList& list, RecordIndex i);
  // For a block that is apart and whose turn has passed: due now, or once its children have gone.
  void BecomeDue(RecordIndex i);

 private:
  // The index of a block this queue knows.
  RecordIndex KnownIndex(BlockId block) const;
  // The index of a block that no other queue knows.
  RecordIndex OwnIndex(BlockId block) const;
  void UnlinkDue(RecordIndex i);
  void CheckList(const RecordList& list, Place place, std::uint8_t number) const;

  ReplacementRecords& records_;
  const std::uint32_t queue_;  // its name in the records
  std::uint32_t known_ = 0;
  std::uint32_t idle_ = 0;
  RecordIndex offered_ = kNoRecord;  // the victim last answered, while it can still leave
  RecordList due_;
};

}  // namespace ashlar::kv
