// The lane groups of a model's attention.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "model/config.h"
#include "model/kv_codec_spec.h"

namespace ashlar::model {

// What one layer keeps of every token.
struct LayerKv {
  std::uint32_t kv_heads = 0;  // 0: nothing
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;  // 0: V is read from K (MLA)
  std::uint64_t window = 0;     // as LaneGroupSpec has it; 0: all tokens stay
  std::uint64_t sinks = 0;
  // It reads the keys and values of this layer and keeps none of its own; kv_heads is 0.
  std::optional<std::uint32_t> source_layer = {};

  friend bool operator==(const LayerKv&, const LayerKv&) = default;
};

// By layer.
std::vector<LayerKv> LayersKvOf(const ModelConfig& config);

// The layers' lanes in groups of equal geometry, window and codec: "full" and "sliding", and "edge"
// and "sliding edge" where the spec gives the layers at the ends another codec. Layers with a
// window have spec.sliding when it is given, edge or not; it is refused where no layer has a
// window. Where layers of one kind differ in geometry, the later groups are "full 2" and so on.
// Errors: kInvalidArgument; as KvLayout::Create.
Result<kv::KvLayout> KvLayoutOf(std::span<const LayerKv> layers, const KvCodecSpec& spec,
                                std::uint32_t block_tokens);
Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, const KvCodecSpec& spec,
                                std::uint32_t block_tokens);

}  // namespace ashlar::model
