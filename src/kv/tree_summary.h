// The prefix tree as an operator sees it: how large and how deep it is, and which prefixes hold the
// most memory. Prefixes are named by their keys: no token is told.
//
// Nodes that follow each other without a branch are one run: a system prompt of 4,096 tokens that
// thirty requests share is one run of 256 blocks with thirty below it.
//
//   root --- run A (256 blocks) -+- run B (4 blocks)
//                                +- run C (9 blocks) -+- ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kv/block_key.h"
#include "kv/cache.h"

namespace ashlar::kv {

struct PrefixRun {
  static constexpr std::uint32_t kNoParent = std::numeric_limits<std::uint32_t>::max();

  std::optional<BlockKey> key;       // of its last block; without events there are no keys
  std::uint32_t parent = kNoParent;  // index of the run before; kNoParent: it begins a text
  std::uint32_t children = 0;        // runs that begin where it ends
  std::uint64_t position = 0;        // of its first token
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;          // of its own blocks, of all groups
  std::uint64_t live_bytes = 0;     // of those, held by running sequences or pins
  std::uint64_t subtree_bytes = 0;  // with all runs below
};

struct TreeSummary {
  std::uint64_t max_nodes = 0;
  std::uint64_t nodes = 0;  // that can be found; roots not counted
  std::uint64_t roots = 0;  // scopes
  std::uint64_t tails = 0;  // nodes of less than a block
  std::uint64_t leaves = 0;
  std::uint64_t stale_nodes = 0;  // that cannot be found any more, and leave first
  std::uint64_t bytes = 0;        // of all blocks that can be found
  // Nodes by depth: [i] counts those with 2^i to 2^(i+1) - 1 blocks up to and with their own.
  std::array<std::uint64_t, 32> by_depth = {};
  std::uint64_t total_runs = 0;
  std::vector<PrefixRun> runs;  // the largest subtrees first; parents before children
};

// `max_runs`: runs told of. O(nodes of the index, used or not): milliseconds for a hundred
// thousand.
TreeSummary SummarizeTree(const KvCache& cache, std::size_t max_runs);

}  // namespace ashlar::kv
