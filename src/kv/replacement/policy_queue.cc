#include "kv/replacement/policy_queue.h"

#include "base/check.h"

namespace ashlar::kv {

void PolicyQueue::OnIdle(BlockId block, const BlockTraits& traits) {
  const RecordIndex i = OwnIndex(block);
  Record& r = record(i);
  ASHLAR_CHECK(!r.is_idle, "block {} is idle already", i);
  r.is_idle = true;
  ++idle_;
  if (r.queue == queue_) {
    Reenter(i, traits);
    return;
  }
  r.queue = queue_;
  ++known_;
  Enter(i, traits);
}

void PolicyQueue::OnUse(BlockId block) {
  const RecordIndex i = KnownIndex(block);
  ASHLAR_CHECK(record(i).is_idle, "block {} is in use already", i);
  record(i).is_idle = false;
  --idle_;
  if (offered_ == i) offered_ = kNoRecord;
  if (record(i).place == Place::kDue) UnlinkDue(i);
  Touch(i);
}

void PolicyQueue::OnDrop(BlockId block) {
  const RecordIndex i = KnownIndex(block);
  Record& r = record(i);
  if (r.place == Place::kDue) UnlinkDue(i);
  if (r.place == Place::kOrdered) Remove(i);
  if (offered_ == i) {
    offered_ = kNoRecord;
    Replaced(i);
  }
  --known_;
  if (r.is_idle) --idle_;
  const bool has_children = r.has_children;
  r = Record();
  r.has_children = has_children;
}

void PolicyQueue::OnFirstChild(BlockId block) {
  const RecordIndex i = OwnIndex(block);
  ASHLAR_CHECK(!record(i).has_children, "block {} has children already", i);
  record(i).has_children = true;
  if (offered_ == i) offered_ = kNoRecord;
  if (record(i).place == Place::kDue) UnlinkDue(i);  // set aside again
}

void PolicyQueue::OnLastChildGone(BlockId block) {
  const RecordIndex i = OwnIndex(block);
  Record& r = record(i);
  ASHLAR_CHECK(r.has_children, "block {} has no children", i);
  r.has_children = false;
  if (r.is_idle && r.place == Place::kApart) BecomeDue(i);
}

std::optional<BlockId> PolicyQueue::Victim() {
  offered_ = due_.first;
  while (offered_ == kNoRecord) {
    const RecordIndex i = Next();
    if (i == kNoRecord) return std::nullopt;
    if (record(i).has_children) {
      Remove(i);  // set aside
    } else {
      offered_ = i;
    }
  }
  return BlockId(offered_);
}

void PolicyQueue::Link(RecordList& list, RecordIndex i, RecordIndex before) {
  ASHLAR_DCHECK(record(i).place == Place::kApart);
  records_.Insert(list, i, before);
  record(i).place = Place::kOrdered;
}

void PolicyQueue::Unlink(RecordList& list, RecordIndex i) {
  ASHLAR_DCHECK(record(i).place == Place::kOrdered);
  records_.Remove(list, i);
  record(i).place = Place::kApart;
}

void PolicyQueue::BecomeDue(RecordIndex i) {
  ASHLAR_DCHECK(record(i).place == Place::kApart && record(i).is_idle);
  if (record(i).has_children) return;
  records_.Insert(due_, i);
  record(i).place = Place::kDue;
}

void PolicyQueue::UnlinkDue(RecordIndex i) {
  records_.Remove(due_, i);
  record(i).place = Place::kApart;
}

RecordIndex PolicyQueue::OwnIndex(BlockId block) const {
  const RecordIndex i = block.value();
  ASHLAR_CHECK(i < records_.size(), "block {} of {}", i, records_.size());
  ASHLAR_CHECK(record(i).queue == 0 || record(i).queue == queue_, "block {} is in another queue",
               i);
  return i;
}

RecordIndex PolicyQueue::KnownIndex(BlockId block) const {
  const RecordIndex i = OwnIndex(block);
  ASHLAR_CHECK(record(i).queue == queue_, "block {} is not in this queue", i);
  return i;
}

void PolicyQueue::CheckInvariants() const {
  std::uint32_t known = 0;
  std::uint32_t idle = 0;
  std::uint32_t linked = 0;
  for (RecordIndex i = 0; i < records_.size(); ++i) {
    const Record& r = record(i);
    if (r.queue == 0) ASHLAR_CHECK(!r.is_idle && r.place == Place::kApart, "block {}", i);
    if (r.queue != queue_) continue;
    ++known;
    if (r.is_idle) ++idle;
    if (r.place != Place::kApart) ++linked;
    if (r.place == Place::kDue) ASHLAR_CHECK(r.is_idle && !r.has_children, "due block {}", i);
    if (r.is_idle && r.place == Place::kApart) ASHLAR_CHECK(r.has_children, "lost block {}", i);
  }
  ASHLAR_CHECK(known == known_, "{} blocks are known, not {}", known, known_);
  ASHLAR_CHECK(idle == idle_, "{} blocks are idle, not {}", idle, idle_);
  std::uint32_t listed = due_.size;
  CheckList(due_, Place::kDue, 0);
  for (std::size_t k = 0; k < lists().size(); ++k) {
    CheckList(lists()[k], Place::kOrdered, static_cast<std::uint8_t>(k));
    listed += lists()[k].size;
  }
  ASHLAR_CHECK(linked == listed, "{} blocks are linked, {} are in lists", linked, listed);
  if (offered_ != kNoRecord) {
    const Record& r = record(offered_);
    ASHLAR_CHECK(r.queue == queue_ && r.is_idle && !r.has_children, "victim {}", offered_);
  }
  CheckPolicy();
}

void PolicyQueue::CheckList(const RecordList& list, Place place, std::uint8_t number) const {
  std::uint32_t size = 0;
  RecordIndex prev = kNoRecord;
  for (RecordIndex i = list.first; i != kNoRecord; prev = i, i = record(i).next) {
    const Record& r = record(i);
    ++size;
    ASHLAR_CHECK(size <= list.size, "a list is longer than its size of {}", list.size);
    ASHLAR_CHECK(r.prev == prev, "block {} follows {}, not {}", i, prev, r.prev);
    ASHLAR_CHECK(r.queue == queue_ && r.place == place, "block {} is in the wrong list", i);
    ASHLAR_CHECK(place == Place::kDue || r.list == number, "block {} is in list {}", i, number);
  }
  ASHLAR_CHECK(list.last == prev && list.size == size, "a list of {} says {}", size, list.size);
}

}  // namespace ashlar::kv
