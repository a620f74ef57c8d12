// The tree mask: what a token of a tree of guesses sees is gathered, block by block, as a plain
// sequence along its path would have it, and then read as any other block. Simple and exact rather
// than fast: a tree is small beside the text before it, which is read from the cache as always.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "model/attention_work.h"

namespace ashlar::model {
namespace {

std::size_t ElementBytes(KvCodecKind raw) { return raw == KvCodecKind::kF32 ? 4 : 2; }

// Elements `from`, from + stride, ... to `to`, to + stride, ...
template <typename T>
void CopyStrided(const std::byte* from, std::byte* to, std::size_t count, std::size_t stride) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * stride * sizeof(T), from + i * stride * sizeof(T), sizeof(T));
  }
}

}  // namespace

std::size_t TreeDepth(std::span<const std::int32_t> parents, std::size_t token) {
  if (parents.empty()) return token;
  std::size_t depth = 0;
  for (std::int32_t at = parents[token]; at >= 0; at = parents[static_cast<std::size_t>(at)]) {
    ++depth;
  }
  return depth;
}

struct Attention::PathTiles {
  RawTiles raw;
  RawTiles sealed;
};

// Tiles of one block: raw K and V, then sealed ones.
void Attention::CheckTree(const AttentionChunk& chunk) const {
  ASHLAR_CHECK(chunk.parents.size() == chunk.tokens, "{} parents of {} tokens",
               chunk.parents.size(), chunk.tokens);
  ASHLAR_CHECK(chunk.tokens <= kMaxTreeTokens, "a tree of {} tokens, at most {}", chunk.tokens,
               kMaxTreeTokens);
  for (std::size_t i = 0; i < chunk.tokens; ++i) {
    ASHLAR_CHECK(chunk.parents[i] >= -1 && chunk.parents[i] < static_cast<std::int32_t>(i),
                 "token {} goes on from {}", i, chunk.parents[i]);
  }
  const std::uint64_t touched =
      (chunk.position + chunk.tokens - 1) / block_tokens_ - chunk.position / block_tokens_ + 1;
  for (std::size_t g = 0; g < layout_.groups().size(); ++g) {
    const kv::LaneGroup& group = layout_.group(g);
    ASHLAR_CHECK(!group.has_window(), "a tree over lane group '{}' with a window", group.name());
    ASHLAR_CHECK(!group.is_encoded() || chunk.groups[g].open.size() >= touched,
                 "a tree in {} blocks, {} open ones", touched, chunk.groups[g].open.size());
  }
}

Attention::PathTiles Attention::PathTilesOf(const Work& work, std::size_t j) const {
  const kv::LaneGroup& group = lane_group();
  std::byte* at = work.path_memory + j * sizes_.path_block_bytes;
  const RawTiles sealed = {at, at + group.key_tile_bytes()};
  if (!group.is_encoded()) return {.raw = sealed, .sealed = sealed};
  at = sealed.v + group.value_tile_bytes();
  return {.raw = {at, at + group.open_key_tile_bytes()}, .sealed = sealed};
}

// The blocks from the text's last, partly filled one on, as the item's only token sees them.
void Attention::LoadPath(Work& work) const {
  const Item& item = *work.item;
  const AttentionChunk& chunk = chunks_[work.chunk];
  std::array<std::uint32_t, kMaxTreeTokens> path;
  std::size_t length = 0;
  for (auto at = static_cast<std::int32_t>(item.first); at >= 0;
       at = chunk.parents[static_cast<std::size_t>(at)]) {
    path[length++] = static_cast<std::uint32_t>(at);
  }
  std::reverse(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(length));
  work.path_first = chunk.position / block_tokens_;
  CopyPathRows(work, std::span(path).first(length));
  const std::size_t filled = work.own_start / block_tokens_ - work.path_first;
  SealPath(work, filled);
  work.own = PathTilesOf(work, filled).raw;
}

void Attention::CopyPathRows(const Work& work, std::span<const std::uint32_t> path) const {
  const AttentionChunk& chunk = chunks_[work.chunk];
  const std::uint32_t head = work.item->kv_head;
  const kv::LaneGroup& group = lane_group();
  const kv::LaneGroupSpec& lanes = group.spec();
  if (chunk.position % block_tokens_ != 0) {
    const RawTiles from = RawTilesOf(layer_, work.chunk, work.path_first, head);
    const RawTiles to = PathTilesOf(work, 0).raw;
    const bool is_encoded = group.is_encoded();
    std::memcpy(to.k, from.k, is_encoded ? group.open_key_tile_bytes() : group.key_tile_bytes());
    std::memcpy(to.v, from.v,
                is_encoded ? group.open_value_tile_bytes() : group.value_tile_bytes());
  }
  const std::size_t key_bytes = ElementBytes(OpenKindOf(lanes.key_codec));
  const std::size_t value_bytes = lanes.value_dim * ElementBytes(OpenKindOf(lanes.value_codec));
  for (std::size_t depth = 0; depth < path.size(); ++depth) {
    const std::uint64_t slot = chunk.position + path[depth];
    const std::uint64_t position = chunk.position + depth;
    const RawTiles from = RawTilesOf(layer_, work.chunk, slot / block_tokens_, head);
    const RawTiles to = PathTilesOf(work, position / block_tokens_ - work.path_first).raw;
    const auto copy_k = key_bytes == 4 ? CopyStrided<std::uint32_t> : CopyStrided<std::uint16_t>;
    copy_k(from.k + slot % block_tokens_ * key_bytes, to.k + position % block_tokens_ * key_bytes,
           lanes.key_dim, block_tokens_);
    std::memcpy(to.v + position % block_tokens_ * value_bytes,
                from.v + slot % block_tokens_ * value_bytes, value_bytes);
  }
}

// The blocks that the path has filled, as they would be sealed.
void Attention::SealPath(Work& work, std::size_t blocks) const {
  const kv::LaneGroupSpec& lanes = lane_group().spec();
  for (std::size_t j = 0; j < blocks; ++j) {
    const PathTiles tiles = PathTilesOf(work, j);
    const auto seal = [&](KvCodec codec, KvRole role, std::byte* raw, std::size_t dim,
                          std::byte* sealed) {
      if (IsRaw(codec) || dim == 0) return raw;
      // What is not finite has no code; nobody reads the results.
      if (refused_[work.chunk] != 0) return sealed;
      kernels_.encode({.kind = codec.kind,
                       .role = role,
                       .raw_kind = kOpenKind,
                       .raw = raw,
                       .dim = dim,
                       .block_tokens = block_tokens_,
                       .tile = sealed});
      return sealed;
    };
    work.path[j] = {
        .k = seal(lanes.key_codec, KvRole::kKey, tiles.raw.k, lanes.key_dim, tiles.sealed.k),
        .v = seal(lanes.value_codec, KvRole::kValue, tiles.raw.v, lanes.value_dim, tiles.sealed.v)};
  }
}

}  // namespace ashlar::model
