// Finds the tokens that stand as a whole in a text ("<|im_start|>", runs of newlines) before the
// rest of it is encoded: at each position, from left to right, the longest one that begins there.
//
// Cost: O(text) for texts without them; O(text x longest special token) at worst, and token texts
// are bounded (kMaxSpecialTokenBytes).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace ashlar::text {

// A set of texts, as a tree of bytes.
class SpecialTokens {
 public:
  struct Entry {
    std::string_view text;  // not empty; copied into the tree
    TokenId token;
  };
  struct Found {
    std::size_t begin;
    std::size_t bytes;
    TokenId token;
  };

  // Texts are unique. Order does not matter.
  explicit SpecialTokens(std::span<const Entry> entries = {});

  // The first match at or after `from`: the leftmost, and of those the longest.
  std::optional<Found> FindFrom(std::string_view text, std::size_t from) const;

 private:
  static constexpr std::uint32_t kNoNode = 0;  // the root is nobody's child

  // Children are contiguous in nodes_, ordered by byte.
  struct Node {
    std::uint8_t byte = 0;  // that leads here
    std::uint32_t children_begin = 0;
    std::uint32_t children_end = 0;
    TokenId token = -1;
  };

  void AddChildren(std::uint32_t node, std::span<const Entry> sorted, std::size_t depth);
  std::uint32_t ChildOf(std::uint32_t node, std::uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_;  // the root's children by byte
};

}  // namespace ashlar::text
