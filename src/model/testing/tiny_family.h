// What all models of an architecture have in common in a GGUF file, whatever their options.
#pragma once

#include <string_view>

namespace ashlar::model {

enum class TinyQkv { kSeparate, kFused };
enum class TinyGate { kSeparate, kFusedWithUp, kNone };
enum class TinyBiases { kNone, kQkv, kAll };

struct TinyFamily {
  std::string_view architecture;
  TinyQkv qkv = TinyQkv::kSeparate;
  TinyGate gate = TinyGate::kSeparate;
  TinyBiases biases = TinyBiases::kNone;
  bool is_layer_norm = false;       // weight and bias; else RMSNorm, weight alone
  bool has_qk_norms = false;        // attn_q_norm, attn_k_norm per head
  bool has_sandwich_norms = false;  // post_attention_norm, post_ffw_norm on what a part returns
  bool has_sinks = false;           // attn_sinks
  bool has_positions = false;       // position_embd
  std::string_view feed_forward_norm = "ffn_norm";  // empty: the attention's norm serves both
  // Experts' gates and ups are this much wider than usual, so that clamps at fixed values are met.
  double expert_gain = 1.0;

  // Keys that the converter writes.
  bool writes_kv_heads = true;
  bool writes_head_dim = false;
  bool writes_rope_base = true;
  bool writes_rope_dims = false;
  bool writes_vocab_size = false;
  bool writes_window_always = false;  // 0 where there is none
};

// Precondition: `architecture` is known.
const TinyFamily& TinyFamilyOf(std::string_view architecture);

}  // namespace ashlar::model
