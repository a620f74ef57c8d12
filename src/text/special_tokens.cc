#include "text/special_tokens.h"

#include <algorithm>

namespace ashlar::text {
namespace {

std::uint8_t ByteAt(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

}  // namespace

SpecialTokens::SpecialTokens(std::span<const Entry> entries) : nodes_(1), first_{} {
  std::vector<Entry> sorted(entries.begin(), entries.end());
  // string_view compares as unsigned bytes, so all texts with one prefix stand together.
  std::sort(sorted.begin(), sorted.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });

  // Breadth first: a node's children are added in one go, which keeps them contiguous.
  struct Pending {
    std::uint32_t node;
    std::span<const Entry> entries;
    std::size_t depth;
  };
  std::vector<Pending> pending = {{0, sorted, 0}};
  for (std::size_t next = 0; next < pending.size(); ++next) {
    const Pending work = pending[next];
    AddChildren(work.node, work.entries, work.depth);
    std::span<const Entry> rest = work.entries;
    for (std::uint32_t child = nodes_[work.node].children_begin;
         child < nodes_[work.node].children_end; ++child) {
      while (rest.front().text.size() == work.depth) rest = rest.subspan(1);
      std::size_t count = 0;
      while (count < rest.size() && ByteAt(rest[count].text, work.depth) == nodes_[child].byte) {
        ++count;
      }
      pending.push_back({child, rest.first(count), work.depth + 1});
      rest = rest.subspan(count);
    }
  }
  for (std::uint32_t child = nodes_[0].children_begin; child < nodes_[0].children_end; ++child) {
    first_[nodes_[child].byte] = child;
  }
}

// Adds the nodes below `node`, whose texts are `sorted` and agree in their first `depth` bytes.
void SpecialTokens::AddChildren(std::uint32_t node, std::span<const Entry> sorted,
                                std::size_t depth) {
  const auto begin = static_cast<std::uint32_t>(nodes_.size());
  for (const Entry& entry : sorted) {
    if (entry.text.size() == depth) {
      nodes_[node].token = entry.token;
      continue;
    }
    const std::uint8_t byte = ByteAt(entry.text, depth);
    if (nodes_.size() == begin || nodes_.back().byte != byte) nodes_.push_back(Node{.byte = byte});
  }
  nodes_[node].children_begin = begin;
  nodes_[node].children_end = static_cast<std::uint32_t>(nodes_.size());
}

std::uint32_t SpecialTokens::ChildOf(std::uint32_t node, std::uint8_t byte) const {
  const auto begin = nodes_.begin() + nodes_[node].children_begin;
  const auto end = nodes_.begin() + nodes_[node].children_end;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& child, std::uint8_t value) { return child.byte < value; });
  if (found == end || found->byte != byte) return kNoNode;
  return static_cast<std::uint32_t>(found - nodes_.begin());
}

std::optional<SpecialTokens::Found> SpecialTokens::FindFrom(std::string_view text,
                                                            std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::uint32_t node = first_[ByteAt(text, begin)];
    std::optional<Found> longest;
    for (std::size_t end = begin + 1; node != kNoNode; ++end) {
      if (nodes_[node].token >= 0) longest = Found{begin, end - begin, nodes_[node].token};
      if (end == text.size()) break;
      node = ChildOf(node, ByteAt(text, end));
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace ashlar::text
