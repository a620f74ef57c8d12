#include "kv/match.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::kv {
namespace {

// How far ahead of the comparison the hash table is fetched from memory.
constexpr std::size_t kPrefetchBlocks = 12;

MissReason ReasonFor(ScopeDifference difference) {
  switch (difference) {
    case ScopeDifference::kModel:
      return MissReason::kOtherModel;
    case ScopeDifference::kEpoch:
      return MissReason::kOtherEpoch;
    case ScopeDifference::kCodec:
      return MissReason::kOtherCodec;
    case ScopeDifference::kLayout:
      return MissReason::kOtherLayout;
    case ScopeDifference::kSalt:
      return MissReason::kOtherSalt;
    case ScopeDifference::kAdapter:
      return MissReason::kOtherAdapter;
    case ScopeDifference::kNone:
      break;
  }
  return MissReason::kNeverSeen;
}

}  // namespace

void Matcher::Begin(const ScopeDigest& digest, std::span<const TokenId> prompt,
                    PrefixHashes& known) {
  match_.path.clear();
  match_.partial = kNoNode;
  match_.partial_tokens = 0;
  match_.whole_blocks = 0;
  match_.tokens = 0;
  match_.report = {.prompt_tokens = prompt.size()};
  const std::uint64_t root_hash = core_.RootHashOf(digest);
  if (!known.is_for(root_hash, prompt.size())) {
    known.root = root_hash;
    known.tokens = prompt.size();
    ChainHashes(root_hash, prompt, core_.block_tokens(), known.blocks, core_.options.hasher);
  }
}

const Match& Matcher::FindNothing(const ScopeDigest& digest, std::span<const TokenId> prompt,
                                  PrefixHashes& known) {
  Begin(digest, prompt, known);
  match_.report.reason = MissReason::kDisabled;
  return match_;
}

const Match& Matcher::Find(const Scope& scope, const ScopeDigest& digest,
                           std::span<const TokenId> prompt, PrefixHashes& known) {
  Begin(digest, prompt, known);
  const NodeId root = core_.FindRoot(digest);
  const std::uint64_t block_tokens = core_.block_tokens();
  const std::uint64_t limit = prompt.empty() ? 0 : prompt.size() - 1;
  if (root != kNoNode && limit > 0) {
    Walk(root, prompt, known.blocks);
    const std::size_t walked = std::min<std::size_t>(match_.path.size(), limit / block_tokens);
    const std::size_t whole = LongestValid(walked);
    // Longest first. A part of a block needs less of the windows before it than the whole block.
    std::size_t used = walked;
    for (;; --used) {
      const NodeId last = used == 0 ? root : match_.path[used - 1];
      const std::uint64_t from = used * block_tokens;
      FindPart(last, used, prompt.subspan(from, std::min(block_tokens - 1, limit - from)));
      if (match_.partial != kNoNode || used == whole) break;
    }
    match_.tokens = used * block_tokens + match_.partial_tokens;
    match_.report.hit_tokens = match_.report.position = match_.tokens;
    const NodeId last = used == 0 ? root : match_.path[used - 1];
    match_.report.pending_tokens = PendingAfter(last, used, prompt, known.blocks);
    if (used < walked && match_.report.pending_tokens == 0) {
      match_.report.reason = MissReason::kWindowPassed;
    }
    match_.path.resize(used);
    match_.whole_blocks = whole;
  }
  if (match_.tokens == limit) {
    match_.report.reason = MissReason::kNone;
  } else if (match_.report.reason == MissReason::kNeverSeen) {
    ExplainStop(scope, root, prompt, known.blocks);
  }
  return match_;
}

const Match& Matcher::WithoutPart() {
  match_.path.resize(match_.whole_blocks);
  match_.partial = kNoNode;
  match_.partial_tokens = 0;
  match_.tokens = match_.whole_blocks * core_.block_tokens();
  return match_;
}

// Whole blocks from the root on, as far as the tree has them and every group without a window has
// its block.
void Matcher::Walk(NodeId root, std::span<const TokenId> prompt,
                   std::span<const std::uint64_t> hashes) {
  const PrefixIndex& index = core_.index;
  const std::size_t block_tokens = core_.block_tokens();
  for (std::size_t i = 0; i < std::min(hashes.size(), kPrefetchBlocks); ++i) {
    index.Prefetch(hashes[i]);
  }
  NodeId node = root;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kPrefetchBlocks < hashes.size()) index.Prefetch(hashes[i + kPrefetchBlocks]);
    node = index.Find(node, hashes[i], prompt.subspan(i * block_tokens, block_tokens));
    if (node == kNoNode) return;
    for (std::uint32_t g = 0; g < core_.groups(); ++g) {
      if (!core_.layout.group(g).has_window() && index.block(node, g) == kNoBlock) return;
    }
    match_.path.push_back(node);
  }
}

// Of the first `blocks` of the path, the most that are valid in every windowed group too.
std::size_t Matcher::LongestValid(std::size_t blocks) {
  runs_.assign(core_.groups(), 0);
  std::size_t longest = 0;
  bool has_windows = false;
  for (const LaneGroup& group : core_.layout.groups()) has_windows |= group.has_window();
  if (!has_windows) return blocks;
  std::vector<std::uint64_t>& runs = runs_;
  bool has_sinks = true;
  for (std::size_t end = 1; end <= blocks; ++end) {
    bool is_valid = true;
    for (std::uint32_t g = 0; g < core_.groups(); ++g) {
      const LaneGroup& group = core_.layout.group(g);
      if (!group.has_window()) continue;
      const bool is_here = core_.index.block(match_.path[end - 1], g) != kNoBlock;
      runs[g] = is_here ? runs[g] + 1 : 0;
      if (end <= group.sink_blocks() && !is_here) has_sinks = false;
      const std::uint64_t first = group.FirstLiveBlock(end * core_.block_tokens());
      is_valid = is_valid && runs[g] >= end - std::max(first, std::min<std::uint64_t>(
                                                                  group.sink_blocks(), end));
      if (first < group.sink_blocks()) is_valid = is_valid && runs[g] == end;
    }
    if (!has_sinks) return longest;
    if (is_valid) longest = end;
  }
  return longest;
}

// Part of one more block, number `depth`: of the tokens that come next, `rest`.
void Matcher::FindPart(NodeId last, std::size_t depth, std::span<const TokenId> rest) {
  if (rest.empty()) return;
  const std::optional<PartialMatch> part = core_.index.FindPartial(last, rest);
  if (!part) return;
  const std::uint64_t tokens = depth * core_.block_tokens() + part->tokens;
  for (std::uint32_t g = 0; g < core_.groups(); ++g) {
    const LaneGroup& group = core_.layout.group(g);
    if (!group.shares_tokens()) {
      match_.report.reason = MissReason::kBelowGranularity;
      return;
    }
    if (!group.has_window()) continue;
    const auto is_gone = [&](NodeId node) { return core_.index.block(node, g) == kNoBlock; };
    const auto path = match_.path.begin();
    const std::uint64_t live = std::min<std::uint64_t>(group.FirstLiveBlock(tokens), depth);
    const std::uint64_t sinks = std::min<std::uint64_t>(group.sink_blocks(), depth);
    if (std::any_of(path + live, path + depth, is_gone)) return;
    if (std::any_of(path, path + sinks, is_gone)) return;
  }
  match_.partial = part->node;
  match_.partial_tokens = part->tokens;
}

// Tokens after the match that another sequence has promised to compute.
std::uint64_t Matcher::PendingAfter(NodeId node, std::size_t depth, std::span<const TokenId> prompt,
                                    std::span<const std::uint64_t> hashes) const {
  const std::size_t block_tokens = core_.block_tokens();
  std::uint64_t end = 0;
  for (std::size_t i = depth; i < hashes.size(); ++i) {
    node = core_.index.Find(node, hashes[i], prompt.subspan(i * block_tokens, block_tokens));
    if (node == kNoNode || !core_.index.is_promised(node)) break;
    end = (i + 1) * block_tokens;
  }
  end = std::min<std::uint64_t>(end, prompt.empty() ? 0 : prompt.size() - 1);
  return end > match_.tokens ? end - match_.tokens : 0;
}

void Matcher::ExplainStop(const Scope& scope, NodeId root, std::span<const TokenId> prompt,
                          std::span<const std::uint64_t> hashes) {
  LookupReport& report = match_.report;
  const std::size_t depth = match_.path.size();
  if (report.pending_tokens > 0) {
    report.reason = MissReason::kBeingComputed;
    return;
  }
  if (depth < hashes.size()) {
    report.time_ns = core_.misses.WhenReplaced(hashes[depth]);
    if (report.time_ns != 0) {
      report.reason = MissReason::kReplaced;
      return;
    }
  }
  if (match_.tokens == 0 && !hashes.empty()) {
    const std::uint64_t tokens_hash = NextHash(0, prompt.first(core_.block_tokens()));
    report.reason = ReasonFor(core_.misses.OtherScope(tokens_hash, scope));
    if (report.reason != MissReason::kNeverSeen) return;
  }
  const NodeId last = depth == 0 ? root : match_.path[depth - 1];
  const bool continues = match_.partial != kNoNode ||
                         (last != kNoNode && core_.index.children(last) > 0 && match_.tokens > 0);
  report.reason = continues ? MissReason::kDiverged : MissReason::kNeverSeen;
}

}  // namespace ashlar::kv
