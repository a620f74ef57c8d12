#include "model/testing/tiny_family.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ashlar::model {
namespace {

constexpr std::array<TinyFamily, 14> kFamilies = {{
    {.architecture = "llama",
     .writes_head_dim = true,
     .writes_rope_dims = true,
     .writes_vocab_size = true},
    {.architecture = "qwen2", .biases = TinyBiases::kQkv},
    {.architecture = "qwen2moe", .biases = TinyBiases::kQkv},
    {.architecture = "qwen3", .has_qk_norms = true, .writes_head_dim = true},
    {.architecture = "qwen3moe", .has_qk_norms = true, .writes_head_dim = true},
    {.architecture = "gemma", .writes_head_dim = true, .writes_rope_base = false},
    {.architecture = "gemma2",
     .has_sandwich_norms = true,
     .writes_head_dim = true,
     .writes_rope_base = false},
    {.architecture = "gemma3",
     .has_qk_norms = true,
     .has_sandwich_norms = true,
     .writes_head_dim = true},
    {.architecture = "phi3",
     .qkv = TinyQkv::kFused,
     .gate = TinyGate::kFusedWithUp,
     .writes_rope_dims = true,
     .writes_window_always = true},
    {.architecture = "smollm3", .writes_rope_dims = true, .writes_vocab_size = true},
    {.architecture = "falcon",
     .qkv = TinyQkv::kFused,
     .gate = TinyGate::kNone,
     .is_layer_norm = true,
     .feed_forward_norm = "",
     .writes_rope_base = false},
    {.architecture = "gpt2",
     .qkv = TinyQkv::kFused,
     .gate = TinyGate::kNone,
     .biases = TinyBiases::kAll,
     .is_layer_norm = true,
     .has_positions = true,
     .writes_kv_heads = false,
     .writes_rope_base = false},
    {.architecture = "deepseek2", .writes_rope_dims = true, .writes_vocab_size = true},
    {.architecture = "gpt-oss",
     .biases = TinyBiases::kAll,
     .has_sinks = true,
     .feed_forward_norm = "post_attention_norm",
     .expert_gain = 4.0,
     .writes_head_dim = true},
}};

}  // namespace

const TinyFamily& TinyFamilyOf(std::string_view architecture) {
  const auto found = std::ranges::find(kFamilies, architecture, &TinyFamily::architecture);
  ASHLAR_CHECK(found != kFamilies.end(), "no tiny model has the architecture '{}'", architecture);
  return *found;
}

}  // namespace ashlar::model
