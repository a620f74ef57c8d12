// What a model keeps per token, for the cache to know how large its blocks are and how long they
// are needed.
//
// A lane is one (layer, key/value head) of one model. A lane group is the lanes with one lifetime
// rule and one number format; what differs between kinds of attention is in its fields:
//
//   MHA, GQA, MQA           one group; kv_heads lanes a layer
//   MLA                     one lane a layer; key_dim = latent + rope part, value_dim = 0
//   sliding window          window > 0; attention sinks: sinks > 0 as well
//   hybrid models           several groups, full and sliding
//   layers that share KV    SharedLayer: reads another layer's lanes, has none of its own
//   draft model             lanes with model = 1, in groups of their own or in the same
//
// Every sequence has one block table per group. All groups cut a sequence at the same positions,
// every block_tokens tokens, and a block holds these tokens' K and V of every lane of its group:
//
//   block:  lane 0 | lane 1 | ... | lane N-1         in the order of the group's list
//   lane:   K tile [key_dim][block_tokens] | V tile [block_tokens][value_dim]
//
// The cache copies blocks as bytes and never looks inside: an engine of its own may arrange the
// block_bytes of a block as it likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::cache {

// Of a layout; Cache::Create refuses more.
inline constexpr std::size_t kMaxGroups = 256;
inline constexpr std::size_t kMaxLanes = 65'536;        // of all groups together
inline constexpr std::size_t kMaxSharedLanes = 65'536;  // shared layers times their source's heads
// Of anything counted in tokens: prompts, windows, chunks.
inline constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 31;

enum class ElementType : std::uint8_t { kF32, kF16, kBF16 };

struct Lane {
  std::uint32_t model = 0;  // 0: the model itself; others, such as a draft model, by number
  std::uint32_t layer = 0;
  std::uint32_t head = 0;  // key/value head, not query head

  friend bool operator==(const Lane&, const Lane&) = default;
};

// The lanes of all heads of the given layers, layer by layer. Stops after kMaxLanes + 1 lanes,
// which Cache::Create refuses. O(lanes).
std::vector<Lane> LanesOf(std::span<const std::uint32_t> layers, std::uint32_t kv_heads,
                          std::uint32_t model = 0);
// The same for the layers first, first + step, ...: `count` of them. `step` 0 counts as 1.
struct LayerRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t step = 1;
};
std::vector<Lane> LanesOf(LayerRange layers, std::uint32_t kv_heads, std::uint32_t model = 0);

// What can be reused of a block of which only the first tokens match.
enum class Granularity : std::uint8_t {
  kToken,  // those tokens: the block is copied, and the rest written over
  kBlock,  // nothing: for engines that encode a block as a whole once it is full
};

struct LaneGroup {
  std::string name;  // for people: unique, 1 to 64 bytes
  std::vector<Lane> lanes;
  std::uint32_t key_dim = 0;    // elements of a K row: a multiple of 8 from 8 to 1024
  std::uint32_t value_dim = 0;  // of a V row: the same, or 0 when V is read from K (MLA)
  ElementType key_type = ElementType::kF16;
  ElementType value_type = ElementType::kF16;
  // A query at position p reads the keys at (p - window, p] and [0, sinks). 0: all. Tokens.
  std::uint64_t window = 0;
  std::uint64_t sinks = 0;  // only with a window
  Granularity granularity = Granularity::kToken;
};

// A layer whose attention reads the lanes of `source_layer`.
struct SharedLayer {
  std::uint32_t model = 0;
  std::uint32_t layer = 0;
  std::uint32_t source_layer = 0;
};

struct Layout {
  std::uint32_t block_tokens = 16;  // 16, 32, 64, 128 or 256
  std::vector<LaneGroup> groups;
  std::vector<SharedLayer> shared_layers = {};
};

// What a group's blocks take. Bytes.
struct GroupSizes {
  std::size_t block_bytes = 0;
  std::size_t key_tile_bytes = 0;  // of one lane
  std::size_t value_tile_bytes = 0;
  std::size_t bytes_per_token = 0;  // all lanes: block_bytes / block_tokens
};

// Where a lane's tiles lie in every block of its group. Offsets in bytes.
struct LanePlace {
  std::uint32_t group = 0;
  std::size_t key_offset = 0;
  std::size_t value_offset = 0;
};

}  // namespace ashlar::cache
