#include "kv/tree_summary.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "kv/core.h"

namespace ashlar::kv {
namespace {

// Of a node, while the tree is folded from its leaves up.
struct Fold {
  NodeId last_child = kNoNode;
  NodeId run_end = kNoNode;  // of the run that goes on from here
  std::uint64_t run_tokens = 0;
  std::uint64_t run_bytes = 0;
  std::uint64_t run_live_bytes = 0;
  std::uint64_t subtree_bytes = 0;
};

class Summarizer {
 public:
  explicit Summarizer(const KvCache& cache)
      : core_(cache.core()), index_(core_.index), folds_(index_.max_nodes()) {}

  TreeSummary Run(std::size_t max_runs) {
    summary_.max_nodes = index_.max_nodes();
    Count();
    for (const NodeId node : DeepestFirst()) FoldNode(node);
    TellRuns(max_runs);
    return std::move(summary_);
  }

 private:
  Fold& Of(NodeId node) { return folds_[node.value()]; }
  bool IsRoot(NodeId node) const { return index_.parent(node) == kNoNode; }
  bool BeginsRun(NodeId node) const {
    const NodeId parent = index_.parent(node);
    return IsRoot(parent) || index_.children(parent) != 1;
  }

  void Count() {
    index_.ForEach([&](NodeId node) {
      if (!core_.is_reachable(node)) {
        if (!IsRoot(node)) ++summary_.stale_nodes;
        return;
      }
      if (IsRoot(node)) {
        ++summary_.roots;
        return;
      }
      nodes_.push_back(node);
      ++summary_.nodes;
      if (!index_.is_whole(node)) ++summary_.tails;
      if (index_.children(node) == 0) ++summary_.leaves;
      const auto blocks = static_cast<std::uint32_t>(index_.depth(node) + 1);
      ++summary_.by_depth[static_cast<std::size_t>(std::bit_width(blocks) - 1)];
    });
  }

  std::vector<NodeId> DeepestFirst() const {
    std::vector<std::size_t> place;  // by depth: how many are deeper
    for (const NodeId node : nodes_) {
      const std::size_t depth = index_.depth(node);
      if (place.size() <= depth) place.resize(depth + 1);
      ++place[depth];
    }
    std::size_t deeper = 0;
    for (std::size_t depth = place.size(); depth-- > 0;) {
      deeper += std::exchange(place[depth], deeper);
    }
    std::vector<NodeId> order(nodes_.size(), kNoNode);
    for (const NodeId node : nodes_) order[place[index_.depth(node)]++] = node;
    return order;
  }

  void FoldNode(NodeId node) {
    Fold& fold = Of(node);
    fold.run_tokens = index_.tokens(node).size();
    for (std::uint32_t g = 0; g < core_.groups(); ++g) {
      const BlockId block = index_.block(node, g);
      if (block == kNoBlock) continue;
      const std::uint64_t bytes = core_.layout.group(g).block_bytes();
      fold.run_bytes += bytes;
      if (core_.pool.state(block) != BlockState::kIdle) fold.run_live_bytes += bytes;
    }
    summary_.bytes += fold.run_bytes;
    fold.subtree_bytes += fold.run_bytes;
    fold.run_end = node;
    if (index_.children(node) == 1) {
      const Fold& child = Of(fold.last_child);
      fold.run_end = child.run_end;
      fold.run_tokens += child.run_tokens;
      fold.run_bytes += child.run_bytes;
      fold.run_live_bytes += child.run_live_bytes;
    }
    Fold& parent = Of(index_.parent(node));
    parent.last_child = node;
    parent.subtree_bytes += fold.subtree_bytes;
  }

  void TellRuns(std::size_t max_runs) {
    std::vector<NodeId> begins;
    std::ranges::copy_if(nodes_, std::back_inserter(begins),
                         [this](NodeId node) { return BeginsRun(node); });
    summary_.total_runs = begins.size();
    const std::size_t told = std::min(max_runs, begins.size());
    // A run's subtree is at least as large as that of any run below it: so parents come first.
    std::ranges::partial_sort(
        begins, begins.begin() + static_cast<std::ptrdiff_t>(told), [this](NodeId a, NodeId b) {
          const Fold& left = Of(a);
          const Fold& right = Of(b);
          if (left.subtree_bytes != right.subtree_bytes) {
            return left.subtree_bytes > right.subtree_bytes;
          }
          return index_.depth(a) != index_.depth(b) ? index_.depth(a) < index_.depth(b) : a < b;
        });
    std::unordered_map<std::uint32_t, std::uint32_t> told_by_end;
    summary_.runs.reserve(told);
    for (std::size_t i = 0; i < told; ++i) {
      const NodeId begin = begins[i];
      const Fold& fold = Of(begin);
      const auto parent = told_by_end.find(index_.parent(begin).value());
      summary_.runs.push_back(
          {.key = core_.events.is_on() ? std::optional(core_.KeyOf(fold.run_end)) : std::nullopt,
           .parent = parent == told_by_end.end() ? PrefixRun::kNoParent : parent->second,
           .children = index_.children(fold.run_end),
           .position = std::uint64_t{index_.depth(begin)} * core_.block_tokens(),
           .tokens = fold.run_tokens,
           .bytes = fold.run_bytes,
           .live_bytes = fold.run_live_bytes,
           .subtree_bytes = fold.subtree_bytes});
      told_by_end.emplace(fold.run_end.value(), static_cast<std::uint32_t>(i));
    }
  }

  const CacheCore& core_;
  const PrefixIndex& index_;
  std::vector<Fold> folds_;    // by node
  std::vector<NodeId> nodes_;  // that can be found, roots not among them
  TreeSummary summary_;
};

}  // namespace

TreeSummary SummarizeTree(const KvCache& cache, std::size_t max_runs) {
  return Summarizer(cache).Run(max_runs);
}

}  // namespace ashlar::kv
