// A snapshot put together from parts taken at different times and the events in between: exact,
// though the cache went on. So its owner is asked for little at a time and never stands still for
// the whole.
//
//   part, part, part ...      of all nodes in turn, each as of some event
//   (KvCache::TakeSnapshotPart) events                    from the first part's on, at least to the
//   last part's Finish                    the state after the last event
//
// What is known of a block is as of its part or of the last event that named it; an event that is
// not newer than that is in it already.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kv/event_log.h"

namespace ashlar::kv {

// Of the nodes [first, next) of an index.
struct SnapshotPart {
  std::uint64_t sequence = 0;  // the state after this event
  std::vector<SnapshotEntry> entries;
  std::uint32_t next = 0;  // the first node of the part that follows
  bool is_last = false;
};

class SnapshotBuilder {
 public:
  // Parts in the order they were taken; no event comes between.
  void Add(SnapshotPart part);
  // The next event is next_event().
  void Apply(const KvEvent& event);

  // The node to go on from, and whether all have been seen.
  std::uint32_t next_node() const { return next_node_; }
  bool has_all_parts() const { return has_all_parts_; }
  std::uint64_t next_event() const { return sequence_ + 1; }
  bool is_complete() const { return has_all_parts_ && sequence_ >= last_part_; }

  // Precondition: is_complete().
  Snapshot Finish();

 private:
  struct Known {
    SnapshotEntry entry;
    std::uint64_t as_of = 0;  // event
  };
  std::unordered_map<BlockPlace, Known, BlockPlaceHash> known_;
  std::uint32_t next_node_ = 0;
  bool has_all_parts_ = false;
  bool has_parts_ = false;
  std::uint64_t sequence_ = 0;  // of the first part, then of the last event applied
  std::uint64_t last_part_ = 0;
};

}  // namespace ashlar::kv
