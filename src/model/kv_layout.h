// The lane groups of a model's attention.
#pragma once

#include <cstdint>

#include "base/kv_codec.h"
#include "base/result.h"
#include "kv/layout.h"
#include "model/config.h"

namespace ashlar::model {

// One group of all layers and kv heads. Errors: as KvLayout::Create.
Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, KvCodec key, KvCodec value,
                                std::uint32_t block_tokens);

}  // namespace ashlar::model
