// What the KV cache takes for a workload, to the byte: the engine's own layout and predictors
// (model/kv_layout.h, kv/layout.h), asked without an engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "model/kv_codec_spec.h"
#include "plan/geometry.h"

namespace ashlar::plan {

// Whatever is planned takes at most 2^60 bytes of KV: beyond that a number is mistyped.
inline constexpr std::uint64_t kMaxKvBytes = std::uint64_t{1} << 60;
inline constexpr std::uint64_t kMaxSequences = std::uint64_t{1} << 32;

struct Workload {
  // Tokens of a sequence whose K and V are stored. A request of N tokens, prompt and completion,
  // stores N - 1: the last one's are never read.
  std::uint64_t context = 0;
  std::uint64_t sequences = 1;
  std::uint64_t chunk = 256;  // --prefill-chunk: decides what windows hold at the most
};

struct GroupNeed {
  std::string name;
  std::uint32_t layers = 0;
  std::uint64_t lanes = 0;
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
  std::string key_codec;    // "hq8"
  std::string value_codec;  // "" without V of its own
  std::uint64_t window = 0;
  std::uint64_t key_tile_bytes = 0;  // of one lane
  std::uint64_t value_tile_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t bytes_per_token = 0;
  std::uint64_t peak_blocks = 0;       // of one sequence: what is promised to it
  std::uint64_t held_blocks = 0;       // of one sequence, at its end
  std::uint64_t open_block_bytes = 0;  // 0 in a raw group
  std::uint64_t open_blocks = 0;

  std::uint64_t peak_bytes() const {
    return peak_blocks * block_bytes + open_blocks * open_block_bytes;
  }
  std::uint64_t held_bytes() const {
    return held_blocks * block_bytes + open_blocks * open_block_bytes;
  }
};

struct KvNeed {
  std::vector<GroupNeed> groups;
  std::uint64_t block_tokens = 0;
  std::uint64_t bytes_per_token = 0;     // all lanes, no window saving
  std::uint64_t bytes_per_sequence = 0;  // promised at admission: the most it ever holds
  std::uint64_t held_bytes = 0;          // of one sequence, once all is computed
  std::uint64_t total_bytes = 0;         // of all sequences, sharing nothing
  std::uint64_t elements_per_token = 0;  // K and V of all lanes
};

// The lane groups that the engine would make. Errors: kInvalidArgument; kUnsupported for a codec
// that attention does not read in this geometry.
Result<kv::KvLayout> LayoutOf(const Geometry& geometry, const model::KvCodecSpec& codec,
                              std::uint32_t block_tokens);

// Errors: kInvalidArgument naming the number that is out of range.
Status Validate(const Workload& workload);
// Errors: as Validate; kInvalidArgument when it takes more than kMaxKvBytes.
Result<KvNeed> KvNeedOf(const kv::KvLayout& layout, const Workload& workload);

}  // namespace ashlar::plan
