// Finds the blocks that already hold the K and V of a prompt's beginning.
//
// A tree of nodes. A root stands for a scope (what must match besides tokens); every other node
// stands for the up to `block_tokens` tokens that follow its parent's prefix, and names the block
// of each lane group that holds their K and V, or none where that block has left or has not been
// computed yet. All lane groups share the tree, so a hybrid model has one prefix and not several.
//
//   root ── [tok 0..15] ──┬── [tok 16..31] ── [32..47] ── ...
//                         ├── [other 16..31]
//                         └── [16..20]              a tail: the last, partly filled block of a text
//
//   complete    it has a block in every group; only these serve partial (token-granular) matches
//   promised    some sequence has promised to compute it (single flight)
//   bare        it has no block and no promise; it exists because it has children or is referenced
//
// A node is found by a hash of its whole prefix and believed only when its parent is the node
// matched before and all its tokens are equal: so a match is exact by induction, and a collision of
// hashes costs a comparison. Siblings that are complete are ordered by their tokens (a treap whose
// nodes know the eldest below), so the one with the longest common prefix is found without trying
// all. Which one that is follows from what was done, never from ids that nodes happen to have: the
// same history gives the same hits.
//
// Cost: Find, Insert, Remove O(1) expected plus O(log siblings); nothing allocates after
// construction, except a new root.
//
// Thread: the owner's only.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/ids.h"

namespace ashlar::kv {

struct PrefixIndexOptions {
  std::uint32_t max_nodes = 0;  // roots included
  std::uint32_t groups = 1;
  std::uint32_t block_tokens = 16;
};

struct PartialMatch {
  NodeId node;
  std::uint32_t tokens = 0;  // of the node's tokens, how many match; at least 1
};

class PrefixIndex {
 public:
  explicit PrefixIndex(const PrefixIndexOptions& options);

  // nullopt when all nodes are in use. `hash` is the root's own, from its scope.
  std::optional<NodeId> InsertRoot(std::uint64_t hash);
  // The child of `parent` with exactly these tokens (a whole block of them); kNoNode when there is
  // none. `hash` is the chained hash that includes them.
  NodeId Find(NodeId parent, std::uint64_t hash, std::span<const TokenId> wanted) const;
  // Starts loading what Find will touch.
  void Prefetch(std::uint64_t hash) const;
  // Of the complete children, the one that shares most leading tokens with `wanted`; nullopt when
  // none shares any. Of several, the one that was complete first: one that is used again stays,
  // and the others can go.
  std::optional<PartialMatch> FindPartial(NodeId parent, std::span<const TokenId> wanted) const;
  // The longest complete child whose tokens are all a proper prefix of `wanted`: a tail that they
  // make superfluous.
  std::optional<NodeId> FindTailBefore(NodeId parent, std::span<const TokenId> wanted) const;

  // A new child without blocks. nullopt when all nodes are in use. Precondition: 1 to block_tokens
  // tokens; no child has the same.
  std::optional<NodeId> Insert(NodeId parent, std::uint64_t hash, std::span<const TokenId> tokens);
  // Precondition: no block, no children, no promise, no reference.
  void Remove(NodeId id);

  BlockId block(NodeId node, std::uint32_t group) const {
    return blocks_[std::size_t{node.value()} * options_.groups + group];
  }
  // Precondition: it has none in that group.
  void SetBlock(NodeId node, std::uint32_t group, BlockId block);
  // Precondition: it has one.
  void ClearBlock(NodeId node, std::uint32_t group);
  bool is_complete(NodeId node) const { return Of(node).blocks == options_.groups; }

  // Promises to compute a node, and references that keep it: counted.
  void AddPromise(NodeId node) { ++nodes_[node.value()].promises; }
  void DropPromise(NodeId node) { --nodes_[node.value()].promises; }
  bool is_promised(NodeId node) const { return Of(node).promises > 0; }
  void AddReference(NodeId node) { ++nodes_[node.value()].references; }
  void DropReference(NodeId node) { --nodes_[node.value()].references; }
  // Nothing needs it: no block, no child, no promise, no reference.
  bool is_unneeded(NodeId node) const {
    const Node& n = Of(node);
    return n.blocks == 0 && n.children == 0 && n.promises == 0 && n.references == 0;
  }

  NodeId parent(NodeId node) const { return Of(node).parent; }  // kNoNode: a root
  NodeId root(NodeId node) const { return Of(node).root; }      // itself for a root
  std::uint64_t hash(NodeId node) const { return Of(node).hash; }
  // Blocks before this one: 0 for a child of a root. Not for roots.
  std::uint32_t depth(NodeId node) const { return Of(node).depth; }
  std::uint32_t children(NodeId node) const { return Of(node).children; }
  std::span<const TokenId> tokens(NodeId node) const {
    return {tokens_.data() + std::size_t{node.value()} * options_.block_tokens, Of(node).count};
  }
  bool is_whole(NodeId node) const { return Of(node).count == options_.block_tokens; }

  std::uint32_t nodes() const { return used_; }
  std::uint32_t max_nodes() const { return options_.max_nodes; }
  // Calls visit(NodeId) for every node in use, in the order of ids. O(max_nodes).
  template <typename Visit>
  void ForEach(Visit visit) const {
    ForEach(0, max_nodes(), visit);
  }
  // Of those with ids in [first, end). Precondition: first <= end <= max_nodes().
  template <typename Visit>
  void ForEach(std::uint32_t first, std::uint32_t end, Visit visit) const {
    for (std::uint32_t id = first; id < end; ++id) {
      if (nodes_[id].is_used) visit(NodeId(id));
    }
  }

  // Recounts from scratch and CHECKs. O(max_nodes).
  void CheckInvariants() const;

 private:
  struct Node {
    std::uint64_t hash = 0;
    NodeId parent = kNoNode;
    NodeId root = kNoNode;
    std::uint32_t depth = 0;
    std::uint32_t children = 0;
    std::uint32_t promises = 0;
    std::uint32_t references = 0;
    std::uint16_t blocks = 0;  // groups in which it has one
    std::uint16_t count = 0;   // tokens
    // Root of the treap of its complete children; of a free node: next free.
    NodeId first = kNoNode;
    NodeId left = kNoNode, right = kNoNode, up = kNoNode;  // in its parent's treap
    NodeId eldest = kNoNode;  // of itself and those below it in that treap
    std::uint32_t age = 0;    // when it came there; wraps around
    bool is_used = false;
  };
  static_assert(sizeof(Node) == 64);
  struct Slot {
    std::uint32_t tag = 0;
    NodeId node = kNoNode;
  };

  const Node& Of(NodeId node) const { return nodes_[node.value()]; }
  Node& Of(NodeId node) { return nodes_[node.value()]; }
  std::optional<NodeId> NewNode();
  // From the tag alone, so that moving a slot need not touch its node.
  std::size_t HomeOf(std::uint32_t tag) const { return tag & mask_; }
  void InsertSlot(NodeId node);
  void RemoveSlot(NodeId node);

  // The treap of complete siblings.
  std::uint64_t Priority(NodeId node) const;
  NodeId& LinkTo(NodeId id);  // the pointer that leads to it
  void LinkSibling(NodeId id);
  void UnlinkSibling(NodeId id);
  void RotateUp(NodeId id);
  NodeId ElderOf(NodeId a, NodeId b) const;  // either may be kNoNode
  NodeId EldestOf(NodeId top) const { return top == kNoNode ? kNoNode : Of(top).eldest; }
  void UpdateEldest(NodeId id);
  NodeId EldestWith(NodeId parent, std::span<const TokenId> prefix) const;

  PrefixIndexOptions options_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // [max_nodes, block_tokens]
  std::vector<BlockId> blocks_;  // [max_nodes, groups]
  std::vector<Slot> slots_;      // open addressing, linear probing; whole nodes only
  std::size_t mask_ = 0;
  NodeId first_free_ = kNoNode;
  std::uint32_t fresh_ = 0;  // nodes [fresh_, max) were never used
  std::uint32_t used_ = 0;
  std::uint32_t next_age_ = 0;
};

}  // namespace ashlar::kv
