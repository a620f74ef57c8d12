#include "model/kv_layout.h"

namespace ashlar::model {

Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, KvCodec key, KvCodec value,
                                std::uint32_t block_tokens) {
  return kv::KvLayout::Create(
      {.block_tokens = block_tokens,
       .groups = {{.name = "full",
                   .lanes = kv::LanesOfAllLayers(config.layers, config.kv_heads),
                   .key_dim = config.head_dim,
                   .value_dim = config.head_dim,
                   .key_codec = key,
                   .value_codec = value}}});
}

}  // namespace ashlar::model
