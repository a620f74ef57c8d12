#include "model/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace ashlar::model {
namespace {

using kernels::kSegmentTokens;

// Rows of a tile: enough to reuse each K and V vector often, few enough that their logits (1 KiB a
// row) stay in the L2 cache.
constexpr std::size_t kTileRows = 32;
// States of split decode items: 4 MiB holds about 16,000 rows of head_dim 64.
constexpr std::size_t kPartialFloats = std::size_t{1} << 20;
constexpr std::size_t kMaxBlocksPerSegment = kSegmentTokens / 16;  // blocks have 16 tokens or more
constexpr std::size_t kMaxRows = 1024;  // of an item: kTileRows, or one token's query heads

std::size_t RoundUp(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

kernels::KvFormat FormatOf(KvCodec codec) {
  switch (codec.kind) {
    case KvCodecKind::kF32:
      return kernels::KvFormat::kF32;
    case KvCodecKind::kF16:
      return kernels::KvFormat::kF16;
    case KvCodecKind::kBF16:
      return kernels::KvFormat::kBF16;
    default:
      ASHLAR_CHECK(false, "codec {} has no kernel", NameOf(codec));
  }
}

std::uint64_t SegmentsOf(std::uint64_t tokens) {
  return (tokens + kSegmentTokens - 1) / kSegmentTokens;
}

}  // namespace

Attention::Attention(const ModelConfig& config, const kv::KvLayout& layout,
                     const kernels::KernelSet& kernels, ThreadPool& pool, std::size_t max_tokens)
    : layout_(layout),
      kernels_(kernels),
      pool_(pool),
      heads_(config.heads),
      kv_heads_(config.kv_heads),
      group_(config.group()),
      head_dim_(config.head_dim),
      tile_tokens_(std::max<std::size_t>(1, kTileRows / config.group())),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))),
      format_(FormatOf(layout.group(0).spec().key_codec)),
      partials_(kPartialFloats) {
  ASHLAR_CHECK(layout.groups().size() == 1,
               "a layout of {} lane groups; this forward pass reads one", layout.groups().size());
  ASHLAR_CHECK(layout.group(0).spec().key_codec == layout.group(0).spec().value_codec,
               "K and V in two codecs; this forward pass reads one");
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    for (std::uint32_t head = 0; head < config.kv_heads; ++head) {
      const std::optional<kv::LanePlace> place = layout.Find({.layer = layer, .head = head});
      ASHLAR_CHECK(place, "layer {} kv head {} has no lane", layer, head);
      places_.push_back(*place);
    }
  }
  ASHLAR_CHECK(group_ <= kMaxRows, "{} query heads share a kv head", group_);
  const std::size_t rows = tile_tokens_ * group_;
  const std::size_t state_floats = RoundUp(rows * (head_dim_ + 2), 16);
  worker_floats_ =
      RoundUp(rows * head_dim_, 16) + 2 * state_floats + kernels::AttendScratchFloats(rows);
  worker_floats_ = RoundUp(worker_floats_, 16);
  scratch_ = AlignedArray<float>(worker_floats_ * pool.threads());
  items_.reserve(std::max(max_tokens * kv_heads_, partials_.size() / (group_ * (head_dim_ + 2))));
}

std::uint64_t Attention::workspace_bytes() const { return scratch_.bytes() + partials_.bytes(); }

Attention::State Attention::StateAt(float* base, std::size_t rows) const {
  return {.max = base + rows * head_dim_, .sum = base + rows * (head_dim_ + 1), .acc = base};
}

void Attention::Run(std::size_t layer, const float* q, float* out) {
  const std::size_t row_floats = group_ * (head_dim_ + 2);
  pool_.ParallelFor(items_.size(), [&](std::size_t i, std::size_t worker) {
    const Item& item = items_[i];
    const AttentionChunk& chunk = chunks_[item.chunk];
    if (item.count > 0) {
      RunTile(layer, chunk, item, q, out, worker);
    } else {
      RunSegment(layer, chunk, item, q, worker, StateAt(partials_.data() + i * row_floats, group_));
    }
  });
  if (is_split_) FoldSegments(out);
}

void Attention::Plan(std::span<const AttentionChunk> chunks) {
  chunks_ = chunks;
  items_.clear();
  std::size_t tiles = 0;
  std::size_t segments = 0;
  bool is_decode = true;
  for (const AttentionChunk& chunk : chunks) {
    tiles += (chunk.tokens + tile_tokens_ - 1) / tile_tokens_ * kv_heads_;
    segments += SegmentsOf(chunk.position + 1) * kv_heads_;
    is_decode = is_decode && chunk.tokens == 1;
  }
  // Splitting pays while there are too few tiles to keep the threads evenly busy.
  is_split_ = is_decode && pool_.threads() > 1 && tiles < 8 * pool_.threads() &&
              segments * group_ * (head_dim_ + 2) <= partials_.size();
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    for (std::uint32_t head = 0; head < kv_heads_; ++head) {
      if (is_split_) {
        const std::uint64_t count = SegmentsOf(chunks[c].position + 1);
        for (std::uint32_t s = 0; s < count; ++s) items_.push_back({c, head, s, 0});
        continue;
      }
      for (std::size_t first = 0; first < chunks[c].tokens; first += tile_tokens_) {
        const std::size_t count = std::min(tile_tokens_, chunks[c].tokens - first);
        items_.push_back(
            {c, head, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)});
      }
    }
  }
}

// rows: [count * group, head_dim], scaled.
void Attention::LoadQueries(const AttentionChunk& chunk, std::size_t kv_head, std::size_t first,
                            std::size_t count, const float* q, float* rows) const {
  for (std::size_t t = 0; t < count; ++t) {
    const float* const from =
        q + ((chunk.first_row + first + t) * heads_ + kv_head * group_) * head_dim_;
    kernels_.scale(from, scale_, group_ * head_dim_, rows + t * group_ * head_dim_);
  }
}

void Attention::AttendSegment(std::size_t layer, const AttentionChunk& chunk, std::size_t kv_head,
                              std::uint64_t segment, const float* rows, std::size_t row_count,
                              const std::uint32_t* visible, State state, float* scratch) const {
  const std::size_t block_tokens = layout_.block_tokens();
  const std::size_t first_block = segment * kSegmentTokens / block_tokens;
  const std::size_t block_count = (visible[row_count - 1] + block_tokens - 1) / block_tokens;
  const kv::LanePlace place = PlaceOf(layer, kv_head);
  std::array<const std::byte*, kMaxBlocksPerSegment> k_tiles;
  std::array<const std::byte*, kMaxBlocksPerSegment> v_tiles;
  for (std::size_t b = 0; b < block_count; ++b) {
    const std::byte* const block = chunk.blocks[first_block + b];
    k_tiles[b] = block + place.key_offset;
    v_tiles[b] = block + place.value_offset;
  }
  kernels_.attend({.format = format_,
                   .head_dim = head_dim_,
                   .block_tokens = block_tokens,
                   .k_tiles = k_tiles.data(),
                   .v_tiles = v_tiles.data(),
                   .q = rows,
                   .q_stride = head_dim_,
                   .rows = row_count,
                   .visible = visible,
                   .max = state.max,
                   .sum = state.sum,
                   .acc = state.acc,
                   .scratch = scratch});
}

void Attention::RunTile(std::size_t layer, const AttentionChunk& chunk, const Item& item,
                        const float* q, float* out, std::size_t worker) {
  const std::size_t max_rows = tile_tokens_ * group_;
  const std::size_t state_floats = RoundUp(max_rows * (head_dim_ + 2), 16);
  float* const queries = WorkerScratch(worker);
  float* const states = queries + RoundUp(max_rows * head_dim_, 16);
  float* const kernel_scratch = states + 2 * state_floats;
  const State total = StateAt(states, max_rows);
  const State part = StateAt(states + state_floats, max_rows);
  LoadQueries(chunk, item.kv_head, item.first, item.count, q, queries);

  std::array<std::uint32_t, kMaxRows> visible;
  const std::uint64_t first_position = chunk.position + item.first;
  const std::uint64_t end = first_position + item.count;  // keys the last token sees
  for (std::uint64_t segment = 0; segment < SegmentsOf(end); ++segment) {
    const std::uint64_t begin = segment * kSegmentTokens;
    // Tokens before `begin` see nothing of this segment: they are the first ones of the tile.
    const std::size_t skipped = begin > first_position ? begin - first_position : 0;
    const std::size_t rows = (item.count - skipped) * group_;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::uint64_t sees = first_position + skipped + r / group_ + 1 - begin;
      visible[r] = static_cast<std::uint32_t>(std::min<std::uint64_t>(sees, kSegmentTokens));
    }
    const std::size_t offset = skipped * group_;
    const State from = segment == 0 ? total : part;
    AttendSegment(layer, chunk, item.kv_head, segment, queries + offset * head_dim_, rows,
                  visible.data(), from, kernel_scratch);
    if (segment == 0) continue;
    kernels_.merge({.rows = rows,
                    .head_dim = head_dim_,
                    .max = total.max + offset,
                    .sum = total.sum + offset,
                    .acc = total.acc + offset * head_dim_,
                    .from_max = part.max,
                    .from_sum = part.sum,
                    .from_acc = part.acc});
  }
  for (std::size_t t = 0; t < item.count; ++t) {
    float* const to =
        out + ((chunk.first_row + item.first + t) * heads_ + item.kv_head * group_) * head_dim_;
    kernels_.finish(total.acc + t * group_ * head_dim_, total.sum + t * group_, group_, head_dim_,
                    to, head_dim_);
  }
}

void Attention::RunSegment(std::size_t layer, const AttentionChunk& chunk, const Item& item,
                           const float* q, std::size_t worker, State state) {
  float* const queries = WorkerScratch(worker);
  float* const kernel_scratch =
      WorkerScratch(worker + 1) - RoundUp(kernels::AttendScratchFloats(tile_tokens_ * group_), 16);
  LoadQueries(chunk, item.kv_head, 0, 1, q, queries);
  const std::uint64_t sees = chunk.position + 1 - std::uint64_t{item.first} * kSegmentTokens;
  std::array<std::uint32_t, kMaxRows> visible;
  std::fill_n(visible.begin(), group_,
              static_cast<std::uint32_t>(std::min<std::uint64_t>(sees, kSegmentTokens)));
  AttendSegment(layer, chunk, item.kv_head, item.first, queries, group_, visible.data(), state,
                kernel_scratch);
}

// Items of one (chunk, kv head) stand together, in order of segment.
void Attention::FoldSegments(float* out) {
  const std::size_t row_floats = group_ * (head_dim_ + 2);
  State total = {};
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    const State part = StateAt(partials_.data() + i * row_floats, group_);
    if (item.first == 0) {
      total = part;
    } else {
      kernels_.merge({.rows = group_,
                      .head_dim = head_dim_,
                      .max = total.max,
                      .sum = total.sum,
                      .acc = total.acc,
                      .from_max = part.max,
                      .from_sum = part.sum,
                      .from_acc = part.acc});
    }
    const bool is_last = i + 1 == items_.size() || items_[i + 1].first == 0;
    if (is_last) {
      float* const to =
          out + (chunks_[item.chunk].first_row * heads_ + item.kv_head * group_) * head_dim_;
      kernels_.finish(total.acc, total.sum, group_, head_dim_, to, head_dim_);
    }
  }
}

}  // namespace ashlar::model
