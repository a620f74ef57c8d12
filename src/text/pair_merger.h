// The merge loop of byte-pair encoding: again and again, of all neighbours that may merge, those
// with the lowest rank do, the leftmost first.
//
// Cost: O(n log n) for n symbols. Short words, nearly all of them, are scanned instead of kept in a
// heap: same result, several times faster below about 30 symbols.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "text/token_table.h"

namespace ashlar::text {

// A stretch of the text that is one token so far.
struct Symbol {
  std::size_t begin;
  std::uint32_t bytes;
  TokenId token;  // -1: no token has this text
  Merge merge;    // with the symbol to the right; kept by PairMerger
};

// Holds scratch memory; one per thread.
class PairMerger {
 public:
  static constexpr std::size_t kScanLimit = 32;

  // Merges neighbours in `symbols` (adjacent, in order) until none may. `find(left, right)` gives
  // their Merge; its result may depend on the two symbols' texts and tokens only.
  template <typename FindMerge>
  void Run(std::vector<Symbol>& symbols, FindMerge&& find) {
    if (symbols.size() <= kScanLimit) {
      Scan(symbols, find);
    } else {
      RunHeap(symbols, find);
    }
  }

  // Run's two ways, of which each does for any size. Public so that a test can compare them.
  template <typename FindMerge>
  static void Scan(std::vector<Symbol>& symbols, FindMerge&& find) {
    std::size_t count = symbols.size();
    for (std::size_t i = 0; i < count; ++i) {
      symbols[i].merge = i + 1 < count ? find(symbols[i], symbols[i + 1]) : Merge{};
    }
    for (;;) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < count; ++i) {
        if (symbols[i].merge.rank < symbols[best].merge.rank) best = i;
      }
      if (count == 0 || symbols[best].merge.rank == Merge::kNever) break;
      Join(symbols[best], symbols[best + 1]);
      std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best + 2),
                symbols.begin() + static_cast<std::ptrdiff_t>(count),
                symbols.begin() + static_cast<std::ptrdiff_t>(best + 1));
      --count;
      if (best > 0) symbols[best - 1].merge = find(symbols[best - 1], symbols[best]);
      symbols[best].merge = best + 1 < count ? find(symbols[best], symbols[best + 1]) : Merge{};
    }
    symbols.resize(count);
  }

  template <typename FindMerge>
  void RunHeap(std::vector<Symbol>& symbols, FindMerge&& find) {
    Fill(symbols, find);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
      const auto left = static_cast<std::uint32_t>(heap_.back());
      heap_.pop_back();
      // A symbol that was merged away has rank kNever; one whose neighbour changed has another
      // rank, or the same, and then this entry stands for the new pair as well.
      if (symbols[left].merge.rank != rank) continue;
      const std::uint32_t right = links_[left].next;
      Join(symbols[left], symbols[right]);
      symbols[right].merge = Merge{};
      symbols[right].bytes = 0;
      links_[left].next = links_[right].next;
      if (links_[left].next != kNone) links_[links_[left].next].previous = left;
      if (links_[left].previous != kNone) Push(symbols, links_[left].previous, find);
      Push(symbols, left, find);
    }
    std::erase_if(symbols, [](const Symbol& symbol) { return symbol.bytes == 0; });
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Links {
    std::uint32_t previous;
    std::uint32_t next;
  };

  static void Join(Symbol& left, const Symbol& right) {
    left.bytes += right.bytes;
    left.token = left.merge.result;
  }

  static std::uint64_t Entry(const Symbol& symbol, std::uint32_t index) {
    return (std::uint64_t{symbol.merge.rank} << 32) | index;
  }

  template <typename FindMerge>
  void Fill(std::vector<Symbol>& symbols, FindMerge& find) {
    const auto count = static_cast<std::uint32_t>(symbols.size());
    heap_.clear();
    links_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      links_[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
      symbols[i].merge = i + 1 < count ? find(symbols[i], symbols[i + 1]) : Merge{};
      if (symbols[i].merge.rank != Merge::kNever) heap_.push_back(Entry(symbols[i], i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // Works out what `index` and its right neighbour give and queues it.
  template <typename FindMerge>
  void Push(std::vector<Symbol>& symbols, std::uint32_t index, FindMerge& find) {
    Symbol& symbol = symbols[index];
    const std::uint32_t next = links_[index].next;
    symbol.merge = next == kNone ? Merge{} : find(symbol, symbols[next]);
    if (symbol.merge.rank == Merge::kNever) return;
    heap_.push_back(Entry(symbol, index));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  std::vector<std::uint64_t> heap_;  // rank above index: the smallest is the next merge
  std::vector<Links> links_;
};

}  // namespace ashlar::text
