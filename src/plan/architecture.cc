#include "plan/architecture.h"

#include <algorithm>

namespace ashlar::plan {
namespace {

constexpr std::array<Architecture, 21> kArchitectures = {{
    {.names = {"llama"}},
    {.names = {"mistral", "ministral"}},
    {.names = {"mixtral"}},
    {.names = {"granite"}, .is_tied = true},
    {.names = {"qwen2"}, .has_qkv_bias = true, .is_window_optional = true},
    {.names = {"qwen2_moe", "qwen2moe"}, .has_qkv_bias = true, .is_window_optional = true},
    {.names = {"qwen3"}, .has_qk_norm = true, .is_window_optional = true},
    {.names = {"qwen3_moe", "qwen3moe"}, .has_qk_norm = true, .is_window_optional = true},
    {.names = {"gemma"}, .is_tied = true},
    {.names = {"gemma2"}, .full_layer_every = 2, .is_tied = true, .layer_norms = 4},
    {.names = {"gemma3", "gemma3_text"},
     .full_layer_every = 6,
     .is_tied = true,
     .layer_norms = 4,
     .has_qk_norm = true},
    {.names = {"phi3"}},
    {.names = {"smollm3"}, .is_tied = true},
    {.names = {"deepseek_v2", "deepseek2", "deepseek_mla"}},
    {.names = {"deepseek_v3", "kimi_k2"}, .has_router_offset = true},
    {.names = {"gpt_oss", "gpt-oss"},
     .full_layer_every = 2,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_expert_bias = true,
     .has_sink_logits = true},
    {.names = {"starcoder2"},
     .is_gated = false,
     .is_tied = true,
     .norms_have_bias = true,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_feed_forward_bias = true},
    {.names = {"falcon"},
     .is_gated = false,
     .is_tied = true,
     .layer_norms = 1,
     .norms_have_bias = true},
    {.names = {"gpt2"},
     .is_gated = false,
     .is_tied = true,
     .norms_have_bias = true,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_feed_forward_bias = true,
     .has_learned_positions = true},
    {.names = {"gpt_neox", "gptneox"},
     .is_gated = false,
     .norms_have_bias = true,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_feed_forward_bias = true},
    {.names = {"gptj"},
     .is_gated = false,
     .layer_norms = 1,
     .norms_have_bias = true,
     .has_feed_forward_bias = true,
     .has_lm_head_bias = true},
}};

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

Architecture FindArchitecture(std::string_view name) {
  if (!name.empty()) {
    for (const Architecture& row : kArchitectures) {
      if (std::ranges::find(row.names, name) != row.names.end()) return row;
    }
  }
  return {.is_known = false};
}

}  // namespace ashlar::plan
