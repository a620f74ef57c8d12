#include "kv/snapshot_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::kv {

void SnapshotBuilder::Add(SnapshotPart part) {
  ASHLAR_CHECK(!has_all_parts_ && part.sequence >= last_part_, "parts come in order");
  if (!std::exchange(has_parts_, true)) sequence_ = part.sequence;
  last_part_ = part.sequence;
  next_node_ = part.next;
  has_all_parts_ = part.is_last;
  for (SnapshotEntry& entry : part.entries) {
    // It may have moved to another node since an earlier part.
    Known& known = known_[{.key = entry.key, .group = entry.group}];
    known.entry = std::move(entry);
    known.as_of = part.sequence;
  }
}

void SnapshotBuilder::Apply(const KvEvent& event) {
  ASHLAR_CHECK(has_all_parts_ && event.sequence == next_event(), "event {} where {} is due",
               event.sequence, next_event());
  sequence_ = event.sequence;
  if (event.kind == KvEventKind::kCleared) {
    std::erase_if(known_, [&](const auto& one) { return one.second.as_of < event.sequence; });
    return;
  }
  const BlockPlace place{.key = event.key, .group = event.group};
  const auto found = known_.find(place);
  if (found != known_.end() && found->second.as_of >= event.sequence) return;
  if (event.kind == KvEventKind::kRemoved) {
    known_.erase(place);
  } else {
    known_[place] = {.entry = EntryOf(event), .as_of = event.sequence};
  }
}

Snapshot SnapshotBuilder::Finish() {
  ASHLAR_CHECK(is_complete(), "parts or events are missing");
  Snapshot snapshot{.sequence = sequence_};
  snapshot.entries.reserve(known_.size());
  for (auto& [place, known] : known_) snapshot.entries.push_back(std::move(known.entry));
  known_.clear();
  return snapshot;
}

}  // namespace ashlar::kv
