#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::kv {
namespace {

std::uint32_t TagOf(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

std::size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t size = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < size && a[i] == b[i]) ++i;
  return i;
}

// In the order of siblings: by tokens, a prefix before what it begins.
bool ComesBefore(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

PrefixIndex::PrefixIndex(const PrefixIndexOptions& options) : options_(options) {
  ASHLAR_CHECK(options.max_nodes > 0 && options.max_nodes < kNoNode.value(), "{} nodes",
               options.max_nodes);
  nodes_.resize(options.max_nodes);
  tokens_.resize(std::size_t{options.max_nodes} * options.block_tokens);
  blocks_.assign(std::size_t{options.max_nodes} * options.groups, kNoBlock);
  slots_.resize(std::bit_ceil(std::size_t{options.max_nodes} * 2));
  mask_ = slots_.size() - 1;
}

std::optional<NodeId> PrefixIndex::NewNode() {
  NodeId node = first_free_;
  if (node != kNoNode) {
    first_free_ = Of(node).first;
  } else if (fresh_ < options_.max_nodes) {
    node = NodeId(fresh_++);
  } else {
    return std::nullopt;
  }
  Of(node) = Node{};
  Of(node).is_used = true;
  ++used_;
  return node;
}

std::optional<NodeId> PrefixIndex::InsertRoot(std::uint64_t hash) {
  const std::optional<NodeId> node = NewNode();
  if (node) {
    Of(*node).hash = hash;
    Of(*node).root = *node;
  }
  return node;
}

void PrefixIndex::Prefetch(std::uint64_t hash) const {
  __builtin_prefetch(&slots_[HomeOf(TagOf(hash))]);
}

NodeId PrefixIndex::Find(NodeId parent, std::uint64_t hash, std::span<const TokenId> wanted) const {
  const std::uint32_t tag = TagOf(hash);
  for (std::size_t i = HomeOf(tag); slots_[i].node != kNoNode; i = (i + 1) & mask_) {
    if (slots_[i].tag != tag) continue;
    const NodeId node = slots_[i].node;
    if (Of(node).parent == parent && std::ranges::equal(tokens(node), wanted)) return node;
  }
  return kNoNode;
}

std::optional<PartialMatch> PrefixIndex::FindPartial(NodeId parent,
                                                     std::span<const TokenId> wanted) const {
  // The nodes next to `wanted` in the order share most with it, and both are on the way down.
  std::uint32_t longest = 0;
  for (NodeId node = Of(parent).first; node != kNoNode;) {
    const std::span<const TokenId> own = tokens(node);
    const auto common = static_cast<std::uint32_t>(CommonPrefix(own, wanted));
    longest = std::max(longest, common);
    if (common == wanted.size()) break;  // all that can be had
    const bool goes_left = common < own.size() && wanted[common] < own[common];
    node = goes_left ? Of(node).left : Of(node).right;
  }
  if (longest == 0) return std::nullopt;
  return PartialMatch{.node = EldestWith(parent, wanted.first(longest)), .tokens = longest};
}

// Of the siblings that begin with `prefix`, which lie side by side in the order. There is one.
NodeId PrefixIndex::EldestWith(NodeId parent, std::span<const TokenId> prefix) const {
  // -1: before them, 0: one of them, 1: behind them.
  const auto place = [&](NodeId node) {
    const std::span<const TokenId> own = tokens(node);
    const std::size_t common = CommonPrefix(own, prefix);
    if (common == prefix.size()) return 0;
    return common < own.size() && prefix[common] < own[common] ? 1 : -1;
  };
  NodeId top = Of(parent).first;
  for (int at = place(top); at != 0; at = place(top)) top = at < 0 ? Of(top).right : Of(top).left;
  // Whatever hangs between `top` and one of them is one of them too.
  NodeId eldest = top;
  for (NodeId node = Of(top).left; node != kNoNode;) {
    if (place(node) == 0) {
      eldest = ElderOf(eldest, ElderOf(node, EldestOf(Of(node).right)));
      node = Of(node).left;
    } else {
      node = Of(node).right;
    }
  }
  for (NodeId node = Of(top).right; node != kNoNode;) {
    if (place(node) == 0) {
      eldest = ElderOf(eldest, ElderOf(node, EldestOf(Of(node).left)));
      node = Of(node).right;
    } else {
      node = Of(node).left;
    }
  }
  return eldest;
}

std::optional<NodeId> PrefixIndex::FindTailBefore(NodeId parent,
                                                  std::span<const TokenId> wanted) const {
  // A tail comes before `wanted`, and all between them begin with it: so the last one before
  // `wanted` either is the tail or shares it.
  for (bool is_proper = true; !wanted.empty(); is_proper = false) {
    NodeId last = kNoNode;
    for (NodeId node = Of(parent).first; node != kNoNode;) {
      const bool is_before =
          is_proper ? ComesBefore(tokens(node), wanted) : !ComesBefore(wanted, tokens(node));
      if (is_before) last = node;
      node = is_before ? Of(node).right : Of(node).left;
    }
    if (last == kNoNode) return std::nullopt;
    const std::size_t common = CommonPrefix(tokens(last), wanted);
    if (common == tokens(last).size()) return last;
    wanted = wanted.first(common);
  }
  return std::nullopt;
}

std::optional<NodeId> PrefixIndex::Insert(NodeId parent, std::uint64_t hash,
                                          std::span<const TokenId> tokens) {
  ASHLAR_DCHECK(!tokens.empty() && tokens.size() <= options_.block_tokens, "{} tokens",
                tokens.size());
  const std::optional<NodeId> id = NewNode();
  if (!id) return std::nullopt;
  Node& node = Of(*id);
  Node& above = Of(parent);
  node.hash = hash;
  node.parent = parent;
  node.root = above.root;
  node.depth = above.parent == kNoNode ? 0 : above.depth + 1;
  node.count = static_cast<std::uint16_t>(tokens.size());
  ++above.children;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + std::size_t{id->value()} * options_.block_tokens);
  if (is_whole(*id)) InsertSlot(*id);
  return id;
}

void PrefixIndex::Remove(NodeId id) {
  Node& node = Of(id);
  ASHLAR_CHECK(node.is_used && is_unneeded(id), "node {} is still needed", id.value());
  if (node.parent != kNoNode) {
    --Of(node.parent).children;
    if (is_whole(id)) RemoveSlot(id);
  }
  node.is_used = false;
  node.first = first_free_;
  first_free_ = id;
  --used_;
}

void PrefixIndex::SetBlock(NodeId node, std::uint32_t group, BlockId block) {
  BlockId& entry = blocks_[std::size_t{node.value()} * options_.groups + group];
  ASHLAR_DCHECK(entry == kNoBlock, "node {} has a block in group {}", node.value(), group);
  entry = block;
  if (++Of(node).blocks == options_.groups) LinkSibling(node);
}

void PrefixIndex::ClearBlock(NodeId node, std::uint32_t group) {
  BlockId& entry = blocks_[std::size_t{node.value()} * options_.groups + group];
  ASHLAR_DCHECK(entry != kNoBlock, "node {} has no block in group {}", node.value(), group);
  if (is_complete(node)) UnlinkSibling(node);
  entry = kNoBlock;
  --Of(node).blocks;
}

void PrefixIndex::InsertSlot(NodeId node) {
  const std::uint32_t tag = TagOf(Of(node).hash);
  std::size_t i = HomeOf(tag);
  while (slots_[i].node != kNoNode) i = (i + 1) & mask_;
  slots_[i] = {.tag = tag, .node = node};
}

void PrefixIndex::RemoveSlot(NodeId node) {
  std::size_t hole = HomeOf(TagOf(Of(node).hash));
  while (slots_[hole].node != node) hole = (hole + 1) & mask_;
  // Moves back what the hole would cut off from its home.
  for (std::size_t i = (hole + 1) & mask_; slots_[i].node != kNoNode; i = (i + 1) & mask_) {
    const std::size_t home = HomeOf(slots_[i].tag);
    if (((i - home) & mask_) >= ((i - hole) & mask_)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = Slot{};
}

std::uint64_t PrefixIndex::Priority(NodeId node) const {
  return MixBits(Of(node).hash ^ Of(node).age);
}

NodeId PrefixIndex::ElderOf(NodeId a, NodeId b) const {
  if (a == kNoNode || b == kNoNode) return a == kNoNode ? b : a;
  return static_cast<std::int32_t>(Of(a).age - Of(b).age) < 0 ? a : b;
}

void PrefixIndex::UpdateEldest(NodeId id) {
  Node& node = Of(id);
  node.eldest = ElderOf(id, ElderOf(EldestOf(node.left), EldestOf(node.right)));
}

NodeId& PrefixIndex::LinkTo(NodeId id) {
  Node& node = Of(id);
  if (node.up == kNoNode) return Of(node.parent).first;
  return Of(node.up).left == id ? Of(node.up).left : Of(node.up).right;
}

void PrefixIndex::LinkSibling(NodeId id) {
  Node& node = Of(id);
  if (node.parent == kNoNode) return;
  node.left = node.right = node.up = kNoNode;
  node.eldest = id;
  node.age = next_age_++;
  NodeId* link = &Of(node.parent).first;
  while (*link != kNoNode) {
    node.up = *link;
    link = ComesBefore(tokens(id), tokens(*link)) ? &Of(*link).left : &Of(*link).right;
  }
  *link = id;
  while (node.up != kNoNode && Priority(node.up) < Priority(id)) RotateUp(id);
}

void PrefixIndex::UnlinkSibling(NodeId id) {
  Node& node = Of(id);
  if (node.parent == kNoNode) return;
  while (node.left != kNoNode || node.right != kNoNode) {
    const bool left = node.right == kNoNode ||
                      (node.left != kNoNode && Priority(node.left) > Priority(node.right));
    RotateUp(left ? node.left : node.right);
  }
  LinkTo(id) = kNoNode;
  for (NodeId above = node.up; above != kNoNode; above = Of(above).up) UpdateEldest(above);
  node.up = kNoNode;
}

// Changes places with the node above it; the order stays.
void PrefixIndex::RotateUp(NodeId id) {
  Node& node = Of(id);
  const NodeId above_id = node.up;
  Node& above = Of(above_id);
  LinkTo(above_id) = id;
  node.up = above.up;
  above.up = id;
  NodeId& inner = above.left == id ? node.right : node.left;
  NodeId& outer = above.left == id ? above.left : above.right;
  outer = inner;
  if (inner != kNoNode) Of(inner).up = above_id;
  inner = above_id;
  UpdateEldest(above_id);
  UpdateEldest(id);
}

void PrefixIndex::CheckInvariants() const {
  std::vector<std::uint32_t> children(nodes_.size());
  std::vector<std::uint32_t> linked(nodes_.size());
  std::uint32_t used = 0;
  std::size_t whole = 0;
  ForEach([&](NodeId id) {
    const Node& node = Of(id);
    ++used;
    std::uint32_t blocks = 0;
    for (std::uint32_t g = 0; g < options_.groups; ++g) blocks += block(id, g) != kNoBlock ? 1 : 0;
    ASHLAR_CHECK(blocks == node.blocks, "node {} counts {} blocks and has {}", id.value(),
                 node.blocks, blocks);
    if (node.parent == kNoNode) return;
    ++children[node.parent.value()];
    ASHLAR_CHECK(Of(node.parent).is_used && Of(node.parent).root == node.root,
                 "node {} hangs in the air", id.value());
    if (is_whole(id)) {
      ++whole;
      ASHLAR_CHECK(Find(node.parent, node.hash, tokens(id)) == id, "node {} is not found",
                   id.value());
    }
    if (is_complete(id)) {
      const auto match = FindPartial(node.parent, tokens(id));
      ASHLAR_CHECK(match && match->tokens == node.count, "node {} is not among its siblings",
                   id.value());
      ASHLAR_CHECK(node.up == kNoNode || Priority(node.up) >= Priority(id), "node {} heap order",
                   id.value());
      ASHLAR_CHECK(node.eldest == ElderOf(id, ElderOf(EldestOf(node.left), EldestOf(node.right))),
                   "node {} names node {} as the eldest", id.value(), node.eldest.value());
    }
  });
  ForEach([&](NodeId id) {
    ASHLAR_CHECK(children[id.value()] == Of(id).children, "node {} counts {} children and has {}",
                 id.value(), Of(id).children, children[id.value()]);
  });
  const auto filled = static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.node != kNoNode; }));
  ASHLAR_CHECK(used == used_ && whole == filled, "{} nodes, {} counted; {} whole, {} hashed", used_,
               used, whole, filled);
}

}  // namespace ashlar::kv
