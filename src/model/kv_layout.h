// The lane groups of a model's attention.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/result.h"
#include "kv/layout.h"
#include "model/config.h"

namespace ashlar::model {

// One group of all layers and kv heads, K and V in one raw codec. Errors: as KvLayout::Create.
Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, DType codec,
                                std::uint32_t block_tokens = 16);

}  // namespace ashlar::model
