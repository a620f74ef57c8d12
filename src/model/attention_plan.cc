// How attention's work is cut into items.
#include <algorithm>

#include "base/check.h"
#include "model/attention_work.h"

namespace ashlar::model {
namespace {

using kernels::kSegmentTokens;
using kernels::kSpanSegments;

// Query rows of a tile: enough to reuse what is read of a block often.
constexpr std::size_t kTileRows = 64;
// Below so many tiles for each thread, single tokens are cut into spans to keep all busy.
constexpr std::size_t kTilesPerThread = 8;
// At least so many batches of items for each thread, to end at nearly the same time.
constexpr std::size_t kBatchesPerThread = 4;
// Tiles that are read in a row: longer pieces are read no faster, and a segment of them and the
// next one must have room in the level 2 cache (decision 10).
constexpr std::size_t kMaxPieceBytes = std::size_t{16} << 10;

constexpr std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

void Attention::Plan(std::span<const AttentionChunk> chunks) {
  chunks_ = chunks;
  row_chunk_.clear();
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    ASHLAR_CHECK(chunks[c].groups.size() == layout_.groups().size(), "{} lane groups, not {}",
                 chunks[c].groups.size(), layout_.groups().size());
    if (!chunks[c].parents.empty()) CheckTree(chunks[c]);
    ASHLAR_CHECK(chunks[c].first_row == row_chunk_.size(), "rows of a step are consecutive");
    row_chunk_.insert(row_chunk_.end(), chunks[c].tokens, c);
  }
  rows_ = row_chunk_.size();
  ASHLAR_CHECK(rows_ <= max_tokens_, "{} rows, at most {}", rows_, max_tokens_);
  refused_.assign(chunks.size(), 0);
  PlaceKeptTiles();
  for (std::uint32_t group = 0; group < layout_.groups().size(); ++group) PlanGroup(group);
}

void Attention::PlanGroup(std::uint32_t group) {
  GroupPlan& plan = plans_[group];
  plan.items.clear();
  plan.members.clear();
  plan.split.clear();
  plan.pieces.clear();
  plan.bytes = 0;
  SplitChunks(group, WantsSplit());
  for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
    if (splits_[group * max_tokens_ + c].first_piece == kNotSplit) PlanTiles(group, c);
  }
  std::uint64_t spans = 0;
  for (const std::uint32_t c : plan.split) {
    spans = std::max(spans, CeilDiv(splits_[group * max_tokens_ + c].segments, kSpanSegments));
  }
  for (std::uint64_t span = 0; span < spans; ++span) PlanSpan(group, span);
  plan.batch = spans == 0 ? 1 : BatchOf(group);
}

// The most kv heads of a span that a worker may run together.
std::size_t Attention::BatchOf(std::uint32_t group) const {
  if (!heads_are_in_a_row_) return 1;
  const std::size_t most = plans_[group].items.size() / (kBatchesPerThread * pool_.threads());
  for (std::size_t heads = kv_heads_; heads > 1; --heads) {
    if (kv_heads_ % heads == 0 && heads <= most && heads * TileBytes(group) <= kMaxPieceBytes) {
      return heads;
    }
  }
  return 1;
}

// Tokens of one block each, at most kTileRows rows; those of a tree one by one.
void Attention::PlanTiles(std::uint32_t group, std::uint32_t chunk) {
  GroupPlan& plan = plans_[group];
  const AttentionChunk& c = chunks_[chunk];
  const bool is_tree = !c.parents.empty();
  const std::size_t most = is_tree ? 1 : std::max<std::size_t>(1, kTileRows / group_);
  const auto member = static_cast<std::uint32_t>(plan.members.size());
  plan.members.push_back(chunk);
  for (std::uint32_t head = 0; head < kv_heads_; ++head) {
    for (std::size_t first = 0; first < c.tokens;) {
      const std::uint64_t position = c.position + first;
      const std::size_t in_block = block_tokens_ - position % block_tokens_;
      const std::size_t count = std::min({most, in_block, c.tokens - first});
      plan.items.push_back({.kv_head = head,
                            .member = member,
                            .members = 1,
                            .first = static_cast<std::uint32_t>(first),
                            .count = static_cast<std::uint32_t>(count)});
      plan.bytes += BlocksRead(group, is_tree ? c.position : position) * TileBytes(group);
      first += count;
    }
  }
}

// Whether single tokens are cut into spans for the sake of the threads.
bool Attention::WantsSplit() const {
  if (pool_.threads() == 1) return false;
  std::size_t tiles = 0;
  for (const AttentionChunk& chunk : chunks_) {
    tiles += CeilDiv(chunk.tokens * group_, kTileRows) * kv_heads_;
  }
  return tiles < kTilesPerThread * pool_.threads();
}

// Chooses the chunks whose spans become items, all single tokens or those that share blocks with
// another, as long as there is room for their partial states.
void Attention::SplitChunks(std::uint32_t group, bool splits_all) {
  GroupPlan& plan = plans_[group];
  const kv::LaneGroup& lanes = layout_.group(group);
  std::fill_n(splits_.begin() + static_cast<std::ptrdiff_t>(group * max_tokens_), chunks_.size(),
              Split{});
  if (lanes.spec().sinks > 0) return;
  sharers_.clear();
  for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c].tokens != 1 || !chunks_[c].parents.empty()) continue;
    const bool has_segment = !lanes.has_window() && SealedTokens(chunks_[c]) >= kSegmentTokens;
    const std::size_t last = kSegmentTokens / block_tokens_ - 1;
    sharers_.emplace_back(has_segment ? chunks_[c].groups[group].blocks[last] : nullptr, c);
  }
  std::ranges::sort(sharers_);
  const std::size_t room = partials_.size() / (StateFloats(group_) * kv_heads_);
  for (std::size_t i = 0; i < sharers_.size(); ++i) {
    const auto& [block, c] = sharers_[i];
    const bool shares =
        block != nullptr && ((i > 0 && sharers_[i - 1].first == block) ||
                             (i + 1 < sharers_.size() && sharers_[i + 1].first == block));
    const std::uint64_t segments = CeilDiv(chunks_[c].position + 1, kSegmentTokens);
    if (!(splits_all || shares) || plan.pieces.size() + segments > room) continue;
    splits_[group * max_tokens_ + c] = {.first_piece = plan.pieces.size(), .segments = segments};
    plan.pieces.resize(plan.pieces.size() + segments, 0);
    plan.split.push_back(c);
  }
}

// Of the split chunks: those that have the whole span sealed in the same blocks are one item. Of
// the others, those that have segments of it in common are items segment by segment (a partial
// state is a run from the span's first segment on, or one segment), and the rest alone. Sorted by
// the last block of what may be shared: who has that in common has all before it in common, but
// not the other way round.
void Attention::PlanSpan(std::uint32_t group, std::uint64_t span) {
  const std::uint64_t begin = span * kSpanSegments;
  const std::uint64_t end = begin + kSpanSegments;
  const bool may_share = !layout_.group(group).has_window();
  sharers_.clear();
  rest_.clear();
  const auto enter = [&](std::span<const std::uint32_t> chunks, std::uint64_t first,
                         std::uint64_t last) {
    sharers_.clear();
    for (const std::uint32_t c : chunks) {
      if (splits_[group * max_tokens_ + c].segments <= first) continue;
      const bool is_sealed = may_share && SealedTokens(chunks_[c]) >= last * kSegmentTokens;
      const std::size_t block = last * kSegmentTokens / block_tokens_ - 1;
      sharers_.emplace_back(is_sealed ? chunks_[c].groups[group].blocks[block] : nullptr, c);
    }
    std::ranges::sort(sharers_);
  };
  enter(plans_[group].split, begin, end);
  PlanRange(group, sharers_, begin, end, &rest_);
  if (rest_.empty()) return;
  enter(rest_, begin, begin + 1);
  bool has_common_segment = false;
  for (std::size_t i = 1; i < sharers_.size(); ++i) {
    has_common_segment = has_common_segment || (sharers_[i].first != nullptr &&
                                                sharers_[i].first == sharers_[i - 1].first);
  }
  if (!has_common_segment) {
    enter(rest_, begin, end);
    for (std::size_t i = 0; i < sharers_.size(); ++i) {
      const std::uint32_t c = sharers_[i].second;
      const std::uint64_t first = std::max(begin, FirstSegment(group, chunks_[c].position));
      const std::uint64_t last = std::min(end, splits_[group * max_tokens_ + c].segments);
      if (first < last) AddSpanItems(group, Sharers(sharers_).subspan(i, 1), first, last);
    }
    return;
  }
  for (std::uint64_t segment = begin; segment < end; ++segment) {
    enter(rest_, segment, segment + 1);
    PlanRange(group, sharers_, segment, segment + 1, nullptr);
  }
}

// Items of the chunks, sorted by their last block, that have the same blocks for segments [begin,
// end). The others go to `rest`; without one they become items of one.
void Attention::PlanRange(std::uint32_t group, Sharers chunks, std::uint64_t begin,
                          std::uint64_t end, std::vector<std::uint32_t>* rest) {
  const std::size_t most = kMaxItemRows / group_;
  for (std::size_t i = 0; i < chunks.size();) {
    std::size_t same = 1;
    while (chunks[i].first != nullptr && i + same < chunks.size() && same < most &&
           chunks[i + same].first == chunks[i].first &&
           SameBlocks(group, chunks[i].second, chunks[i + same].second, begin, end)) {
      ++same;
    }
    if (same > 1 || rest == nullptr) {
      AddSpanItems(group, chunks.subspan(i, same), begin, end);
    } else {
      rest->push_back(chunks[i].second);
    }
    i += same;
  }
}

bool Attention::SameBlocks(std::uint32_t group, std::uint32_t a, std::uint32_t b,
                           std::uint64_t begin, std::uint64_t end) const {
  const std::size_t first = begin * kSegmentTokens / block_tokens_;
  const std::size_t count = (end - begin) * kSegmentTokens / block_tokens_;
  return std::ranges::equal(chunks_[a].groups[group].blocks.subspan(first, count),
                            chunks_[b].groups[group].blocks.subspan(first, count));
}

void Attention::AddSpanItems(std::uint32_t group, Sharers members, std::uint64_t begin,
                             std::uint64_t end) {
  GroupPlan& plan = plans_[group];
  const auto member = static_cast<std::uint32_t>(plan.members.size());
  std::uint64_t sealed = end * kSegmentTokens;
  for (const auto& [block, c] : members) {
    plan.members.push_back(c);
    plan.pieces[splits_[group * max_tokens_ + c].first_piece + begin] = 1;
    sealed = std::min(sealed, SealedTokens(chunks_[c]));
  }
  const std::uint64_t position = chunks_[plan.members[member]].position;
  const std::uint64_t start = std::max(begin * kSegmentTokens / block_tokens_,
                                       layout_.group(group).FirstLiveBlock(position));
  const std::uint64_t blocks = sealed / block_tokens_ - std::min(start, sealed / block_tokens_);
  for (std::uint32_t head = 0; head < kv_heads_; ++head) {
    plan.items.push_back({.kv_head = head,
                          .member = member,
                          .members = static_cast<std::uint32_t>(members.size()),
                          .first = 0,
                          .count = 1,
                          .begin = begin,
                          .end = end});
    plan.bytes += blocks * TileBytes(group);
  }
}

// The first segment that a query at `position` or later reads.
std::uint64_t Attention::FirstSegment(std::uint32_t group, std::uint64_t position) const {
  const kv::LaneGroup& lanes = layout_.group(group);
  return lanes.FirstLiveBlock(position) * block_tokens_ / kSegmentTokens;
}

// Sealed blocks that a query at `position` reads: those of its window, and of the sinks.
std::uint64_t Attention::BlocksRead(std::uint32_t group, std::uint64_t position) const {
  const kv::LaneGroup& lanes = layout_.group(group);
  const std::uint64_t first = lanes.FirstLiveBlock(position);
  return position / block_tokens_ - first + std::min(first, lanes.sink_blocks());
}

// K and V of one block and head.
std::uint64_t Attention::TileBytes(std::uint32_t group) const {
  return layout_.group(group).key_tile_bytes() + layout_.group(group).value_tile_bytes();
}

}  // namespace ashlar::model
