#include "model/kv_layout.h"

#include <vector>

namespace ashlar::model {

Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, const KvCodecSpec& spec,
                                std::uint32_t block_tokens) {
  if (spec.sliding) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV codec '{}': this model has no layers with a sliding window; leave out "
                     "sliding=",
                     spec.name);
  }
  std::vector<std::uint32_t> full;
  std::vector<std::uint32_t> edge;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool is_edge = layer < spec.edge_layers || layer + spec.edge_layers >= config.layers;
    (is_edge && spec.edge != spec.full ? edge : full).push_back(layer);
  }
  kv::KvLayoutSpec layout = {.block_tokens = block_tokens, .groups = {}};
  const auto add = [&](const char* name, const std::vector<std::uint32_t>& layers,
                       const CodecPair& codecs) {
    if (layers.empty()) return;
    layout.groups.push_back({.name = name,
                             .lanes = kv::LanesOf(layers, config.kv_heads),
                             .key_dim = config.head_dim,
                             .value_dim = config.head_dim,
                             .key_codec = codecs.key,
                             .value_codec = codecs.value});
  };
  add("full", full, spec.full);
  add("edge", edge, spec.edge);
  return kv::KvLayout::Create(std::move(layout));
}

}  // namespace ashlar::model
