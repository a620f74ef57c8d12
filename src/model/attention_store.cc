// What a step writes: rows rotated, stored raw, blocks encoded when they are full; and the queries,
// scaled and as integers.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "model/attention_work.h"

namespace ashlar::model {
namespace {

// Below this many rows a parallel region costs more than it saves.
constexpr std::size_t kSerialRows = 4;

}  // namespace

void Attention::ForEachRow(FunctionRef<void(std::size_t row)> body) {
  if (rows_ <= kSerialRows) {
    for (std::size_t row = 0; row < rows_; ++row) body(row);
    return;
  }
  pool_.ParallelFor(rows_, [&](std::size_t row, std::size_t) { body(row); });
}

// Blocks that a chunk touches and that lie in no open block: the first ones.
void Attention::PlaceKeptTiles() {
  kept_base_.clear();
  if (!layout_.has_encoded()) return;
  std::size_t kept = 0;
  for (const AttentionChunk& chunk : chunks_) {
    kept_base_.push_back(kept);
    kept += (chunk.position + chunk.tokens - 1) / block_tokens_ - chunk.position / block_tokens_;
  }
  ASHLAR_CHECK(kept * kv_heads_ * sizes_.kept_tile_bytes <= kept_.bytes(), "{} blocks in a step",
               kept);
}

Attention::RawTiles Attention::RawTilesOf(std::size_t layer, std::uint32_t chunk,
                                          std::uint64_t number, std::size_t kv_head) const {
  const AttentionChunk& c = chunks_[chunk];
  const kv::LanePlace& place = PlaceOf(layer, kv_head);
  const GroupBlocks& blocks = c.groups[place.group];
  const kv::LaneGroup& lanes = layout_.group(place.group);
  if (!lanes.is_encoded()) {
    return {blocks.blocks[number] + place.key_offset, blocks.blocks[number] + place.value_offset};
  }
  const std::uint64_t last = (c.position + c.tokens - 1) / block_tokens_;
  if (number + blocks.open.size() > last) {
    std::byte* const open = blocks.open[number % blocks.open.size()];
    return {open + place.open_key_offset, open + place.open_value_offset};
  }
  const std::size_t tile = kept_base_[chunk] + (number - c.position / block_tokens_);
  std::byte* const kept =
      const_cast<std::byte*>(kept_.data()) + (tile * kv_heads_ + kv_head) * sizes_.kept_tile_bytes;
  return {kept, kept + lanes.open_key_tile_bytes()};
}

// The rows of a block that goes on from an earlier step are in its open block, which a later block
// of this step may take: they move to where the step's other raw tiles are.
void Attention::KeepOpenRows(std::size_t layer) {
  const kv::LaneGroup& lanes = layout_.group(PlaceOf(layer, 0).group);
  if (!lanes.is_encoded()) return;
  for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
    const AttentionChunk& chunk = chunks_[c];
    const std::uint64_t first = chunk.position / block_tokens_;
    const std::uint64_t last = (chunk.position + chunk.tokens - 1) / block_tokens_;
    for (std::size_t head = 0; head < kv_heads_; ++head) {
      const kv::LanePlace& place = PlaceOf(layer, head);
      const std::span<std::byte* const> open = chunk.groups[place.group].open;
      if (chunk.position % block_tokens_ == 0 || first + open.size() > last) continue;
      const std::byte* const from = open[first % open.size()];
      const RawTiles to = RawTilesOf(layer, c, first, head);
      std::memcpy(to.k, from + place.open_key_offset, lanes.open_key_tile_bytes());
      std::memcpy(to.v, from + place.open_value_offset, lanes.open_value_tile_bytes());
    }
  }
}

// That become text: a tree's do not.
std::uint64_t Attention::FullBlocks(const AttentionChunk& chunk) const {
  if (!chunk.parents.empty()) return 0;
  return (chunk.position + chunk.tokens) / block_tokens_ - chunk.position / block_tokens_;
}

void Attention::Store(std::size_t layer, float* q, float* k, float* v) {
  layer_ = layer;
  KeepOpenRows(layer);
  ForEachRow([&](std::size_t row) { StoreRow(layer, row, q, k, v); });
  if (!lane_group().is_encoded()) return;
  // Full blocks, one item for each and kv head.
  std::size_t full = 0;
  for (const AttentionChunk& chunk : chunks_) {
    full += FullBlocks(chunk);
  }
  if (full == 0) return;
  pool_.ParallelFor(full * kv_heads_, [&](std::size_t item, std::size_t) {
    std::size_t rest = item / kv_heads_;
    for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
      const std::uint64_t first = chunks_[c].position / block_tokens_;
      const std::uint64_t count = FullBlocks(chunks_[c]);
      if (rest < count) return SealBlock(layer, c, first + rest, item % kv_heads_);
      rest -= count;
    }
  });
}

void Attention::StoreRow(std::size_t layer, std::size_t row, float* q, float* k, float* v) {
  const std::uint32_t c = row_chunk_[row];
  const std::uint64_t position = chunks_[c].position + (row - chunks_[c].first_row);
  const kv::LaneGroupSpec& lanes = lane_group().spec();
  const std::size_t stored_value_dim = lanes.value_dim;
  bool is_finite = true;
  for (std::size_t head = 0; head < kv_heads_; ++head) {
    float* const k_row = k + (row * kv_heads_ + head) * head_dim_;
    float* const v_row = v + (row * kv_heads_ + head) * stored_value_dim;
    if (lanes.key_codec.is_rotated) kernels_.hadamard(k_row, head_dim_);
    if (lanes.value_codec.is_rotated && stored_value_dim > 0) {
      kernels_.hadamard(v_row, stored_value_dim);
    }
    const RawTiles tiles = RawTilesOf(layer, c, position / block_tokens_, head);
    is_finite &= kernels_.store_kv({.key_kind = OpenKindOf(lanes.key_codec),
                                    .value_kind = OpenKindOf(lanes.value_codec),
                                    .k = k_row,
                                    .v = v_row,
                                    .head_dim = head_dim_,
                                    .value_dim = stored_value_dim,
                                    .block_tokens = block_tokens_,
                                    .slot = position % block_tokens_,
                                    .k_tile = tiles.k,
                                    .v_tile = tiles.v});
  }
  if (!is_finite) std::atomic_ref(refused_[c]).store(1, std::memory_order_relaxed);
  if (lanes.key_codec.is_rotated) {
    for (std::size_t head = 0; head < heads_; ++head) {
      kernels_.hadamard(q + (row * heads_ + head) * head_dim_, head_dim_);
    }
  }
}

void Attention::SealBlock(std::size_t layer, std::uint32_t chunk, std::uint64_t number,
                          std::size_t kv_head) const {
  if (refused_[chunk] != 0) return;  // what is not finite has no code
  const kv::LanePlace& place = PlaceOf(layer, kv_head);
  const kv::LaneGroup& lanes = layout_.group(place.group);
  const RawTiles raw = RawTilesOf(layer, chunk, number, kv_head);
  std::byte* const block = chunks_[chunk].groups[place.group].blocks[number];
  const auto seal = [&](KvCodec codec, KvRole role, const std::byte* from, std::size_t dim,
                        std::size_t bytes, std::byte* to) {
    if (dim == 0) return;
    if (IsRaw(codec)) {
      std::memcpy(to, from, bytes);
      return;
    }
    kernels_.encode({.kind = codec.kind,
                     .role = role,
                     .raw_kind = kOpenKind,
                     .raw = from,
                     .dim = dim,
                     .block_tokens = block_tokens_,
                     .tile = to});
  };
  const kv::LaneGroupSpec& spec = lanes.spec();
  seal(spec.key_codec, KvRole::kKey, raw.k, spec.key_dim, lanes.key_tile_bytes(),
       block + place.key_offset);
  seal(spec.value_codec, KvRole::kValue, raw.v, spec.value_dim, lanes.value_tile_bytes(),
       block + place.value_offset);
}

// Scales the row's queries and makes them integers where the keys are.
void Attention::PrepareRow(std::size_t layer, std::size_t row, const float* q) {
  const KvCodecKind kind = layout_.group(PlaceOf(layer, 0).group).spec().key_codec.kind;
  for (std::size_t head = 0; head < kv_heads_; ++head) {
    const std::size_t first = QueryRow(row, head);
    float* const scaled = queries_.data() + first * head_dim_;
    kernels_.scale(q + (row * heads_ + head * group_) * head_dim_, spec_.scale, group_ * head_dim_,
                   scaled);
    const std::size_t bytes = kernels::PreparedBytes(kind, 1, head_dim_);
    if (bytes == 0) continue;
    kernels_.prepare({.key_kind = kind,
                      .q = scaled,
                      .q_stride = head_dim_,
                      .rows = group_,
                      .head_dim = head_dim_,
                      .prepared = prepared_.data() + first * bytes});
  }
}

}  // namespace ashlar::model
