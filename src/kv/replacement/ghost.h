// Remembers the contents of the blocks that left last, without the blocks: what comes back soon
// after it left was wanted more than its short stay had shown.
//
// A table of 8-way sets, one cache line each; an entry is a fingerprint and the number of the
// departure. With `window` entries alive the table is at most half full. It may err in two ways,
// both harmless: a full set forgets its oldest entry early (some 2 % of sets at the highest load),
// and two contents may share set and fingerprint (one in 2^32 pairs of a set).
//
// All operations are O(1) and allocate nothing, except the constructor. Thread: the owner's only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ashlar::kv {

class Ghost {
 public:
  // Remembers the last `window` departures.
  explicit Ghost(std::uint32_t window);

  void Add(std::uint64_t content);
  // True when `content` was among the last departures; it no longer is.
  bool Take(std::uint64_t content);

 private:
  struct Entry {
    std::uint32_t fingerprint = 0;
    std::uint32_t departure = 0;
  };
  using Set = std::array<Entry, 8>;

  // Departures are numbered modulo 2^32: an entry that nobody overwrote for so long looks young
  // again, once.
  std::uint32_t AgeOf(const Entry& entry) const { return departures_ - entry.departure; }
  Set& SetOf(std::uint64_t hash) { return sets_[hash & (sets_.size() - 1)]; }

  std::uint32_t window_;
  std::uint32_t departures_;  // starts beyond the window: empty entries (number 0) are too old
  std::vector<Set> sets_;     // a power of two
};

}  // namespace ashlar::kv
