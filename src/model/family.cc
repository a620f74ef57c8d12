#include "model/family.h"

#include <algorithm>
#include <array>

namespace ashlar::model {
namespace {

using Gating = ExpertsConfig::Gating;

constexpr auto kFamilies = std::to_array<Family>({
    {.architecture = "llama", .rope_pairs = RopePairs::kInterleaved},
    {.architecture = "qwen2"},
    {.architecture = "qwen2moe", .normalises_experts = false, .has_shared_gate = true},
    {.architecture = "qwen3", .has_qk_norm = true},
    {.architecture = "qwen3moe", .has_qk_norm = true},
    {.architecture = "gemma", .activation = Activation::kGeluTanh, .scales_embedding = true},
    {.architecture = "gemma2",
     .activation = Activation::kGeluTanh,
     .has_post_norms = true,
     .scales_embedding = true,
     .attention_softcap = 50.0,
     .logit_softcap = 30.0,
     .full_every = 2,
     .default_window = 4096,
     .wide_scale_layers = 46},
    {.architecture = "gemma3",
     .activation = Activation::kGeluTanh,
     .has_qk_norm = true,
     .has_post_norms = true,
     .scales_embedding = true,
     .full_every = 6,
     .window_rope_base = 10000.0,
     .wide_scale_layers = 62},
    {.architecture = "phi3"},
    {.architecture = "smollm3", .rope_pairs = RopePairs::kInterleaved, .unrotated_every = 4},
    {.architecture = "falcon",
     .norm = NormKind::kLayer,
     .activation = Activation::kGeluErf,
     .is_gated = false,
     .is_parallel = true},
    {.architecture = "gpt2",
     .norm = NormKind::kLayer,
     .activation = Activation::kGeluTanh,
     .is_gated = false,
     .has_positions = true,
     .unrotated_every = 1},
    {.architecture = "deepseek2",
     .rope_pairs = RopePairs::kInterleaved,
     .has_latent = true,
     .normalises_experts = false},
    {.architecture = "gpt-oss",
     .activation = Activation::kSiluClamped,
     .has_sink_logits = true,
     .rounds_yarn = false,
     .full_every = 2,
     .gating = Gating::kSoftmaxOfUsed,
     .normalises_experts = false},
});

}  // namespace

std::span<const Family> Families() { return kFamilies; }

const Family* FindFamily(std::string_view architecture) {
  const auto it = std::find_if(kFamilies.begin(), kFamilies.end(),
                               [&](const Family& f) { return f.architecture == architecture; });
  return it == kFamilies.end() ? nullptr : &*it;
}

}  // namespace ashlar::model
