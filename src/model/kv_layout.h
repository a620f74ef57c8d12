// The lane groups of a model's attention.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kv/layout.h"
#include "model/config.h"
#include "model/kv_codec_spec.h"

namespace ashlar::model {

// One group, "full", of all layers and kv heads; or two, when the spec gives the layers at the
// ends, "edge", another codec. spec.sliding is for layers with a window: no architecture of
// config.h has any, so it is refused. Errors: kInvalidArgument; as KvLayout::Create.
Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, const KvCodecSpec& spec,
                                std::uint32_t block_tokens);

}  // namespace ashlar::model
