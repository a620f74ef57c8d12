#include "model/testing/tiny_metadata.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::model {
namespace {

// Sets "<architecture>.<name>".
class Keys {
 public:
  Keys(gguf::GgufWriter& writer, std::string_view architecture)
      : writer_(writer), prefix_(std::string(architecture) + ".") {}
  void Text(std::string_view name, std::string_view value) { writer_.Set(Full(name), value); }
  void Count(std::string_view name, std::uint64_t value) { writer_.SetUnsigned(Full(name), value); }
  void Number(std::string_view name, double value) { writer_.SetFloat(Full(name), value); }
  void Flag(std::string_view name, bool value) { writer_.SetBool(Full(name), value); }
  void Flags(std::string_view name, const std::vector<std::int64_t>& values) {
    writer_.SetIntegers(Full(name), values, gguf::ValueType::kBool);
  }
  // Where 0 stands for a key that is not there.
  void CountIfAny(std::string_view name, std::uint64_t value) {
    if (value > 0) Count(name, value);
  }
  void NumberIfAny(std::string_view name, double value) {
    if (value > 0) Number(name, value);
  }

 private:
  std::string Full(std::string_view name) const { return prefix_ + std::string(name); }
  gguf::GgufWriter& writer_;
  std::string prefix_;
};

void SetRope(Keys& keys, const TinyFamily& family, const TinyModelOptions& o) {
  const std::uint32_t original = o.original_context > 0 ? o.original_context : o.context / 4;
  if (family.writes_rope_base) keys.Number("rope.freq_base", o.rope_base);
  keys.NumberIfAny("rope.freq_base_swa", o.sliding_rope_base);
  if (family.writes_rope_dims) keys.Count("rope.dimension_count", o.rope_dims);
  if (o.rope_scaling != "none") {
    keys.Text("rope.scaling.type", o.rope_scaling);
    keys.Number("rope.scaling.factor", o.rope_factor);
  }
  if (o.rope_scaling == "yarn" || family.architecture == "phi3") {
    keys.Count("rope.scaling.original_context_length", original);
  }
  keys.NumberIfAny("rope.scaling.yarn_log_multiplier", o.yarn_log_multiplier);
  if (o.has_rope_factors) {
    const double scale = static_cast<double>(o.context) / original;
    keys.Number("rope.scaling.attn_factor",
                scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(original)) : 1.0);
  }
}

void SetExperts(Keys& keys, const TinyExperts& experts, std::string_view architecture) {
  if (experts.count == 0) return;
  const bool is_deepseek = architecture == "deepseek2";
  keys.Count("expert_count", experts.count);
  keys.Count("expert_used_count", experts.used);
  if (architecture != "llama") keys.Count("expert_feed_forward_length", experts.feed_forward);
  if (architecture == "qwen2moe") {
    keys.Count("expert_shared_feed_forward_length", experts.shared_feed_forward);
  }
  keys.NumberIfAny("expert_weights_scale", experts.weights_scale);
  if (experts.has_weights_norm) keys.Flag("expert_weights_norm", true);
  if (is_deepseek) {
    keys.Count("expert_group_count", 1);
    keys.Count("expert_group_used_count", 1);
    keys.Count("expert_shared_count", experts.shared);
    keys.Count("leading_dense_block_count", experts.leading_dense);
    keys.Count("expert_gating_func", experts.is_sigmoid ? 2 : 1);
  }
}

// A head of latents is cached as one row of latent and rotated channels, whatever heads there are.
void SetHeads(Keys& keys, const TinyFamily& family, const TinyModelOptions& o) {
  const TinyLatent& latent = o.latent;
  const bool is_split = latent.kv_rank > 0 && !latent.is_unsplit;
  keys.Count("attention.head_count", o.heads);
  if (family.writes_kv_heads) keys.Count("attention.head_count_kv", is_split ? 1 : o.kv_heads);
  keys.CountIfAny("attention.q_lora_rank", latent.q_rank);
  keys.CountIfAny("attention.kv_lora_rank", latent.kv_rank);
  if (is_split) {
    keys.Count("attention.key_length", latent.kv_rank + o.rope_dims);
    keys.Count("attention.value_length", latent.kv_rank);
    keys.Count("attention.key_length_mla", o.head_dim);
    keys.Count("attention.value_length_mla", latent.value_dim);
  } else if (latent.kv_rank > 0 || family.writes_head_dim) {
    keys.Count("attention.key_length", o.head_dim);
    keys.Count("attention.value_length", latent.kv_rank > 0 ? latent.value_dim : o.head_dim);
  }
}

// The GPT-2 alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards.
std::vector<std::string> ByteLevelTokens() {
  std::vector<std::string> tokens;
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const std::uint32_t code = is_printable ? byte : next++;
    std::string text;
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    tokens.push_back(std::move(text));
  }
  return tokens;
}

}  // namespace

void SetTinyMetadata(gguf::GgufWriter& writer, const TinyFamily& family,
                     const TinyModelOptions& o) {
  writer.Set("general.architecture", o.architecture).Set("general.name", "tiny random model");
  Keys keys(writer, o.architecture);
  if (o.architecture == "falcon") keys.Text("tensor_data_layout", "jploski");
  keys.Count("block_count", o.layers);
  keys.Count("context_length", o.context);
  keys.Count("embedding_length", o.hidden);
  keys.Count("feed_forward_length", o.feed_forward);
  SetHeads(keys, family, o);
  keys.Number(
      family.is_layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      1e-5);
  SetRope(keys, family, o);
  if (family.writes_vocab_size) keys.Count("vocab_size", kTinyVocab);
  if (o.window > 0 || family.writes_window_always) {
    keys.Count("attention.sliding_window", o.window);
  }
  if (!o.window_pattern.empty()) keys.Flags("attention.sliding_window_pattern", o.window_pattern);
  keys.NumberIfAny("attn_logit_softcapping", o.attention_cap);
  keys.NumberIfAny("final_logit_softcapping", o.logit_cap);
  SetExperts(keys, o.experts, o.architecture);
}

void SetTinyVocabulary(gguf::GgufWriter& writer) {
  std::vector<std::string> tokens = ByteLevelTokens();
  for (const char* special : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"})
    tokens.emplace_back(special);
  std::vector<std::int64_t> types(kTinyVocab, 1);  // 1 = normal, 3 = control
  for (TokenId special = kTinyImStart; special <= kTinyEndOfText; ++special) {
    types[static_cast<std::size_t>(special)] = 3;
  }
  writer.Set("tokenizer.ggml.model", "gpt2")
      .Set("tokenizer.ggml.pre", "smollm")
      .SetStrings("tokenizer.ggml.tokens", tokens)
      .SetIntegers("tokenizer.ggml.token_type", types)
      .SetStrings("tokenizer.ggml.merges", {})
      .SetUnsigned("tokenizer.ggml.bos_token_id", kTinyEndOfText)
      .SetUnsigned("tokenizer.ggml.eos_token_id", kTinyImEnd)
      .SetBool("tokenizer.ggml.add_bos_token", false)
      .Set(
          "tokenizer.chat_template",
          "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

}  // namespace ashlar::model
