// Where every key and value of a block lies.
//
// A lane is one (layer, kv head). A lane group is the lanes that share one block table; here it is
// all lanes of the model. A block holds `block_tokens` consecutive tokens of every lane of its
// group, and the lanes' bytes lie together:
//
//   block:  lane (layer 0, head 0) | lane (layer 0, head 1) | ... | lane (layer L-1, head H-1)
//   lane:   K tile [head_dim][block_tokens] | V tile [block_tokens][head_dim]
//
// Sizes only: the layout never touches the bytes and knows a codec as a number of bits per element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/result.h"

namespace ashlar::kv {

struct LaneGroupSpec {
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;  // per layer: key/value heads, not query heads
  std::uint32_t head_dim = 0;
  DType codec = DType::kF16;  // kF32, kF16 or kBF16
  std::uint32_t block_tokens = 16;
};

class KvLayout {
 public:
  // Errors: kInvalidArgument naming the field and what is allowed: block_tokens a power of two from
  // 16 to 256; head_dim a multiple of 8 up to 512; a raw codec; no zero counts.
  static Result<KvLayout> Create(const LaneGroupSpec& spec);

  const LaneGroupSpec& spec() const { return spec_; }
  std::size_t block_tokens() const { return spec_.block_tokens; }

  // Bytes of one lane's K (or V) tile; multiples of 64.
  std::size_t tile_bytes() const { return tile_bytes_; }
  std::size_t block_bytes() const { return block_bytes_; }
  // K and V of one token in all lanes: block_bytes / block_tokens exactly.
  std::size_t bytes_per_token() const { return block_bytes_ / spec_.block_tokens; }

  // Offsets inside a block. Precondition: layer < layers, head < kv_heads.
  std::size_t KeyTileOffset(std::size_t layer, std::size_t head) const {
    return (layer * spec_.kv_heads + head) * 2 * tile_bytes_;
  }
  std::size_t ValueTileOffset(std::size_t layer, std::size_t head) const {
    return KeyTileOffset(layer, head) + tile_bytes_;
  }

  // Blocks that `tokens` tokens of one sequence need.
  std::uint64_t BlocksNeeded(std::uint64_t tokens) const {
    return (tokens + spec_.block_tokens - 1) / spec_.block_tokens;
  }

 private:
  explicit KvLayout(const LaneGroupSpec& spec);

  LaneGroupSpec spec_;
  std::size_t tile_bytes_ = 0;
  std::size_t block_bytes_ = 0;
};

}  // namespace ashlar::kv
