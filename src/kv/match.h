// Finds how much of a prompt the cache holds, and why not more. Reads only.
//
// The longest usable prefix has L tokens, at most one less than the prompt (the last token must be
// computed to know what follows), such that every lane group has the blocks a query at position L
// reads: groups that keep all tokens need every block, windowed groups their sinks and window. L is
// a whole number of blocks, or, where all codecs are raw, any number: then the last block is
// matched in part and copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/core.h"
#include "kv/miss.h"

namespace ashlar::kv {

// The chained hashes of a prompt's full blocks, computed once for a prompt that is looked up again
// and again (while it waits, say).
struct PrefixHashes {
  std::uint64_t root = 0;
  std::vector<std::uint64_t> blocks;
  std::uint64_t tokens = 0;  // of the prompt they were computed for

  bool is_for(std::uint64_t root_hash, std::size_t prompt_tokens) const {
    return root == root_hash && tokens == prompt_tokens && !blocks.empty();
  }
};

struct Match {
  std::vector<NodeId> path;  // whole blocks that are used, from the first
  NodeId partial = kNoNode;  // matched in part: to be copied
  std::uint32_t partial_tokens = 0;
  std::uint64_t tokens = 0;      // L
  std::size_t whole_blocks = 0;  // of the path, the most that are a valid prefix without the part
  LookupReport report;
};

// Keeps its memory between calls: a lookup allocates nothing once it has seen its longest prompt.
class Matcher {
 public:
  explicit Matcher(const CacheCore& core) : core_(core) {}

  // The `known` hashes are used when they are for this prompt, and made so otherwise. Valid until
  // the next call.
  const Match& Find(const Scope& scope, const ScopeDigest& digest, std::span<const TokenId> prompt,
                    PrefixHashes& known);
  // Only computes the hashes.
  const Match& FindNothing(const ScopeDigest& digest, std::span<const TokenId> prompt,
                           PrefixHashes& known);
  // The last match without its part: whole blocks only.
  const Match& WithoutPart();

 private:
  void Begin(const ScopeDigest& digest, std::span<const TokenId> prompt, PrefixHashes& known);
  void Walk(NodeId root, std::span<const TokenId> prompt, std::span<const std::uint64_t> hashes);
  std::size_t LongestValid(std::size_t blocks);
  void FindPart(NodeId last, std::size_t depth, std::span<const TokenId> rest);
  void ExplainStop(const Scope& scope, NodeId root, std::span<const TokenId> prompt,
                   std::span<const std::uint64_t> hashes);
  std::uint64_t PendingAfter(NodeId node, std::size_t depth, std::span<const TokenId> prompt,
                             std::span<const std::uint64_t> hashes) const;

  const CacheCore& core_;
  Match match_;
  std::vector<std::uint64_t> runs_;  // per group: blocks in a row that end with the current one
};

}  // namespace ashlar::kv
