// One record per block, and the lists that thread through the records by index: a block is in at
// most one list, so linking allocates nothing and a queue is no more than the ends of its lists.
//
// Thread: the owner's only.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kv/replacement/ghost.h"

namespace ashlar::kv {

// A block's id as an index of records.
using RecordIndex = std::uint32_t;
inline constexpr RecordIndex kNoRecord = std::numeric_limits<RecordIndex>::max();

enum class Place : std::uint8_t {
  kApart,    // in no list
  kOrdered,  // in one of the policy's lists
  kDue,      // in the due list: its turn came before it could leave
};

struct Record {
  RecordIndex prev = kNoRecord;
  RecordIndex next = kNoRecord;
  std::uint64_t value = 0;  // s3fifo: the content; cost-aware: what keeping the block is worth
  std::uint32_t queue = 0;  // the queue that knows the block; 0: none
  Place place = Place::kApart;
  std::uint8_t list = 0;  // which of the policy's lists holds it, held it last or will hold it
  std::uint8_t frequency = 0;
  bool is_idle : 1 = false;
  bool has_children : 1 = false;  // outlives the queue's knowledge of the block
  bool was_visited : 1 = false;
};
static_assert(sizeof(Record) <= 32, "two records per cache line");

// The ends of a list. `first` is served first.
struct RecordList {
  RecordIndex first = kNoRecord;
  RecordIndex last = kNoRecord;
  std::uint32_t size = 0;
};

class ReplacementRecords {
 public:
  explicit ReplacementRecords(std::uint32_t blocks) : records_(blocks), ghost_(blocks) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(records_.size()); }
  Record& operator[](RecordIndex i) {
    ASHLAR_DCHECK(i < records_.size());
    return records_[i];
  }
  const Record& operator[](RecordIndex i) const {
    ASHLAR_DCHECK(i < records_.size());
    return records_[i];
  }
  Ghost& ghost() { return ghost_; }

  // A name for a new queue: 1, 2, ...
  std::uint32_t NextQueue() { return ++queues_; }

  // Puts a record that is in no list in front of `before`, at the end for kNoRecord.
  void Insert(RecordList& list, RecordIndex i, RecordIndex before = kNoRecord) {
    CountStep();
    const RecordIndex after = before == kNoRecord ? list.last : records_[before].prev;
    records_[i].prev = after;
    records_[i].next = before;
    (after == kNoRecord ? list.first : records_[after].next) = i;
    (before == kNoRecord ? list.last : records_[before].prev) = i;
    ++list.size;
  }

  // Precondition: the record is in `list`.
  void Remove(RecordList& list, RecordIndex i) {
    CountStep();
    const Record& record = records_[i];
    (record.prev == kNoRecord ? list.first : records_[record.prev].next) = record.next;
    (record.next == kNoRecord ? list.last : records_[record.next].prev) = record.prev;
    --list.size;
  }

  // Links, unlinks and moves of a hand since the start: all the work that is not O(1) by itself.
  std::uint64_t steps() const { return steps_; }
  void CountStep() { ++steps_; }

 private:
  std::vector<Record> records_;
  Ghost ghost_;
  std::uint32_t queues_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace ashlar::kv
