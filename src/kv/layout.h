// Where every key and value of a block lies, and how many blocks a sequence needs.
//
// A lane is one (layer, kv head) of one model. A lane group is the lanes that share one block
// table, one lifetime rule and one codec; what differs between attention kinds is in its
// descriptor, never in code:
//
//   MHA, GQA, MQA    one group, kv_heads lanes a layer
//   MLA              one lane a layer; key_dim: latent + rope part; value_dim: 0, V is read from K
//   sliding window   a group with window > 0, and sinks > 0 if it has any
//   hybrid models    several groups, full and sliding
//   shared KV        SharedLayer: a layer that reads another one's lanes has none of its own
//   selective        groups of any layers and heads (DuoAttention), one a layer (PyramidKV)
//   draft model      lanes with model = 1
//
// A block holds `block_tokens` consecutive slots of every lane of its group, and the lanes' bytes
// lie together, in the order of the group's list:
//
//   block:  lane 0 | lane 1 | ... | lane N-1
//   lane:   K tile [key_dim][block_tokens] | V tile [block_tokens][value_dim]
//
// A group is encoded when its K or its V is (base/kv_codec.h). The tiles of its blocks then have no
// rows before they are sealed: whoever computes writes the tokens of a block that is being filled
// into an *open block* beside it, and encodes it when it is full (sequence.h). It has the same
// lanes in the same order, a role that is encoded being kOpenKind there and a raw one what it
// always is:
//
//   open block:  lane 0 | lane 1 | ... | lane N-1
//   lane:        K tile [key_dim][block_tokens] | V tile [block_tokens][value_dim]
//
// Seal semantics, which make a lossy codec deterministic: a query at position p sees every sealed
// block before its own encoded, and its own block raw. So K and V of a token depend on its prefix
// alone, and not on how it was cut; and a part of a sealed block is of no use to anybody.
//
// All groups cut a sequence at the same positions (one block_tokens), whatever their blocks' bytes
// are: a prefix of whole blocks is whole in every group, so no common multiple is ever needed.
//
// Sizes only: the layout never touches the bytes and knows a codec by the bytes of its tiles.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/kv_codec.h"
#include "base/result.h"

namespace ashlar::kv {

// kMaxGroups bounds what is kept per prefix and per sequence.
inline constexpr std::size_t kMaxGroups = 256;
inline constexpr std::size_t kMaxLanes = 65'536;

struct LaneId {
  std::uint32_t model = 0;  // 0: the model itself; others, e.g. a draft model, by number
  std::uint32_t layer = 0;
  std::uint32_t head = 0;  // key/value head, not query head

  friend auto operator<=>(const LaneId&, const LaneId&) = default;
};

// The lanes (layer, head) for all heads of the given layers of a model, layer by layer.
std::vector<LaneId> LanesOf(std::span<const std::uint32_t> layers, std::uint32_t kv_heads,
                            std::uint32_t model = 0);
// The same for layers 0 .. layers - 1.
std::vector<LaneId> LanesOfAllLayers(std::uint32_t layers, std::uint32_t kv_heads,
                                     std::uint32_t model = 0);

struct LaneGroupSpec {
  std::string name = "full";  // for people: unique, 1 to 64 characters
  std::vector<LaneId> lanes;
  std::uint32_t key_dim = 0;    // elements of one K row
  std::uint32_t value_dim = 0;  // of one V row; 0: no V of its own (MLA)
  KvCodec key_codec;
  KvCodec value_codec;  // means nothing without V
  // Lifetime: a query at position p reads the keys of (p - window, p], and of [0, sinks). 0: all.
  std::uint64_t window = 0;
  std::uint64_t sinks = 0;  // only with a window
  // Whether a part of a sealed block can be used. An encoded group shares whole blocks only,
  // whatever this says; false makes a raw one the same, for engines with encodings of their own.
  bool shares_tokens = true;
};

// A layer whose attention reads the lanes of another layer.
struct SharedLayer {
  std::uint32_t model = 0;
  std::uint32_t layer = 0;
  std::uint32_t source_layer = 0;
};

struct KvLayoutSpec {
  std::uint32_t block_tokens = 16;
  std::vector<LaneGroupSpec> groups;
  std::vector<SharedLayer> shared_layers = {};
};

// Block indices [first, end) of one sequence's table.
struct BlockRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - first; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

class LaneGroup {
 public:
  const LaneGroupSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  bool has_window() const { return spec_.window > 0; }
  bool is_encoded() const { return open_block_bytes_ > 0; }
  bool shares_tokens() const { return spec_.shares_tokens && !is_encoded(); }

  std::size_t block_tokens() const { return block_tokens_; }
  // Bytes of one lane's tiles; multiples of 64.
  std::size_t key_tile_bytes() const { return key_tile_bytes_; }
  std::size_t value_tile_bytes() const { return value_tile_bytes_; }
  std::size_t block_bytes() const { return block_bytes_; }
  // K and V of one token in all lanes of the group: block_bytes / block_tokens, rounded up where
  // tiles of an encoded group are padded.
  std::size_t bytes_per_token() const { return (block_bytes_ + block_tokens_ - 1) / block_tokens_; }
  // The same of the group's open blocks; 0 for a raw group, which has none.
  std::size_t open_key_tile_bytes() const { return open_key_tile_bytes_; }
  std::size_t open_value_tile_bytes() const { return open_value_tile_bytes_; }
  std::size_t open_block_bytes() const { return open_block_bytes_; }

  // Blocks [0, sink_blocks()) hold sinks and are never given back while the sequence lives.
  std::uint64_t sink_blocks() const { return sink_blocks_; }
  // Of the blocks before `position`, the sink blocks and those from this one on are what a query at
  // `position` (or later) still reads.
  std::uint64_t FirstLiveBlock(std::uint64_t position) const;
  // Blocks held while the tokens [position, position + count) are computed: exact.
  std::uint64_t BlocksHeld(std::uint64_t position, std::uint64_t count) const;
  // The most blocks that are ever held by a sequence of `tokens` stored tokens that is computed in
  // pieces of at most `chunk` tokens, however they are cut. For a group without a window this is
  // the number held at the end.
  std::uint64_t PeakBlocks(std::uint64_t tokens, std::uint64_t chunk) const;

 private:
  friend class KvLayout;
  LaneGroup(LaneGroupSpec spec, std::uint32_t block_tokens);

  LaneGroupSpec spec_;
  std::size_t block_tokens_;
  std::size_t key_tile_bytes_;
  std::size_t value_tile_bytes_;
  std::size_t block_bytes_;
  std::size_t open_key_tile_bytes_ = 0;
  std::size_t open_value_tile_bytes_ = 0;
  std::size_t open_block_bytes_ = 0;
  std::uint64_t sink_blocks_;
};

// Where a lane's tiles lie: in every block of the group, and in every open block, at these offsets.
struct LanePlace {
  std::uint32_t group = 0;
  std::size_t key_offset = 0;
  std::size_t value_offset = 0;
  std::size_t open_key_offset = 0;  // 0 in a raw group
  std::size_t open_value_offset = 0;
};

// What the arena holds blocks of: every lane group under its own number, and behind them the open
// blocks of every encoded one.
struct StoreGroup {
  std::uint32_t lane_group = 0;
  bool is_open = false;  // its open blocks
  std::size_t block_bytes = 0;
};

// How far a sequence may come.
struct SequenceReach {
  std::uint64_t tokens = 0;        // stored at the most
  std::uint64_t chunk = 1;         // the most tokens computed at once
  std::uint64_t max_rollback = 0;  // the most that it may go back by
};

class KvLayout {
 public:
  // Errors: kInvalidArgument naming the group, the field, its value and what is allowed:
  // block_tokens a power of two from 16 to 256; dims multiples of 8 up to 1024; codecs that exist;
  // every lane in one group only; shared layers that lead to a lane.
  static Result<KvLayout> Create(KvLayoutSpec spec);

  const KvLayoutSpec& spec() const { return spec_; }
  std::size_t block_tokens() const { return spec_.block_tokens; }
  std::span<const LaneGroup> groups() const { return groups_; }
  const LaneGroup& group(std::size_t index) const { return groups_[index]; }
  bool has_encoded() const { return store_groups_.size() > groups_.size(); }

  std::span<const StoreGroup> store_groups() const { return store_groups_; }
  // Of these many blocks, by store group.
  std::uint64_t BytesOf(std::span<const std::uint64_t> blocks) const;

  // nullopt when the layer has no lane for this head (it keeps no KV). Shared layers lead to their
  // source's lane.
  std::optional<LanePlace> Find(LaneId lane) const;

  // K and V of one token in all groups, windows not counted.
  std::size_t bytes_per_token() const;

  // Blocks that `tokens` consecutive tokens from position 0 fill or begin, in a group that keeps
  // all.
  std::uint64_t BlocksNeeded(std::uint64_t tokens) const {
    return (tokens + spec_.block_tokens - 1) / spec_.block_tokens;
  }

  // The most blocks that a sequence ever holds, by store group, sharing nothing and however it is
  // cut: what is promised to it.
  void PeakBlocks(const SequenceReach& reach, std::vector<std::uint64_t>& blocks) const;
  // The blocks it holds, by store group, once `tokens` are computed and it does not go back.
  void HeldBlocks(std::uint64_t tokens, std::vector<std::uint64_t>& blocks) const;

  // Open blocks that a sequence has in every encoded group: those that the tokens it may go back by
  // can lie in, and one to go on in.
  std::uint64_t OpenBlocks(std::uint64_t max_rollback) const {
    return 1 + BlocksNeeded(max_rollback);
  }

  // Names everything that decides what a block's bytes mean ("16;full:30x3..."): part of a scope.
  std::string Fingerprint() const;

 private:
  KvLayout(KvLayoutSpec spec, std::vector<LaneGroup> groups);
  Status PlaceLanes();
  Status PlaceSharedLayers();

  KvLayoutSpec spec_;
  std::vector<LaneGroup> groups_;
  std::vector<StoreGroup> store_groups_;
  struct LaneHash {
    std::size_t operator()(const LaneId& lane) const {
      return (std::size_t{lane.model} << 48) ^ (std::size_t{lane.layer} << 24) ^ lane.head;
    }
  };
  std::unordered_map<LaneId, LanePlace, LaneHash> places_;
};

}  // namespace ashlar::kv
