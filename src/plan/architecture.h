// What the families of models differ in beyond sizes, as one row of data each: which vectors stand
// beside the matrices, and which layers have the window where the source only gives its width.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ashlar::plan {

struct Architecture {
  // Of config.json's model_type, of GGUF's general.architecture, and others in use; "" fills up.
  std::array<std::string_view, 4> names = {};
  // A window without a list of layers: every n-th layer is full and the others have it; 0: all have
  // it. Meant for the families that have windows.
  std::uint32_t full_layer_every = 0;
  bool is_gated = true;           // three matrices in the feed-forward part; false: two
  bool is_tied = false;           // unless the source says
  std::uint32_t layer_norms = 2;  // vectors [hidden] a layer
  bool norms_have_bias = false;
  bool has_qk_norm = false;  // vectors [head_dim], one for queries and one for keys
  bool has_qkv_bias = false;
  bool has_output_bias = false;  // of attention
  bool has_feed_forward_bias = false;
  bool has_expert_bias = false;    // of experts and router
  bool has_router_offset = false;  // a number per expert beside the router (DeepSeek-V3)
  bool has_lm_head_bias = false;
  bool has_learned_positions = false;
  bool has_sink_logits = false;     // one per query head and layer (gpt-oss)
  bool is_window_optional = false;  // the window means nothing unless use_sliding_window is true
  bool is_known = true;             // false: nothing is known of the name
};

std::span<const Architecture> Architectures();

// By any of its names; one with is_known false, Llama's parts, for others.
Architecture FindArchitecture(std::string_view name);

}  // namespace ashlar::plan
