#include "hf/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ashlar::hf {
namespace {

#define ASHLAR_SEPARATE_QKV                                                                       \
  {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}, \
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},                   \
      {"self_attn.k_norm", "attn_k_norm"}, {"self_attn.rotary_emb", ""}
#define ASHLAR_GATED_MLP \
  {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}
#define ASHLAR_MLP_EXPERTS                                                 \
  {"mlp.gate", "ffn_gate_inp"}, {"mlp.experts.#.gate_proj", "ffn_gate.#"}, \
      {"mlp.experts.#.up_proj", "ffn_up.#"}, {"mlp.experts.#.down_proj", "ffn_down.#"}

constexpr auto kPlainLayer = std::to_array<ModuleName>({
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    ASHLAR_SEPARATE_QKV,
    ASHLAR_GATED_MLP,
    ASHLAR_MLP_EXPERTS,
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate.#"},
    {"block_sparse_moe.experts.#.w2", "ffn_down.#"},
    {"block_sparse_moe.experts.#.w3", "ffn_up.#"},
});
constexpr auto kSandwichLayer = std::to_array<ModuleName>({
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    ASHLAR_SEPARATE_QKV,
    ASHLAR_GATED_MLP,
});
constexpr auto kPhiLayer = std::to_array<ModuleName>({
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.rotary_emb", ""},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
});
constexpr auto kLatentLayer = std::to_array<ModuleName>({
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.rotary_emb", ""},
    ASHLAR_GATED_MLP,
    ASHLAR_MLP_EXPERTS,
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
});
constexpr auto kFalconLayer = std::to_array<ModuleName>({
    {"input_layernorm", "attn_norm"},
    {"ln_attn", "attn_norm_2"},
    {"ln_mlp", "attn_norm"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"self_attention.rotary_emb", ""},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
});
constexpr auto kGpt2Layer = std::to_array<ModuleName>({
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"attn", ""},  // the mask, stored as attn.bias
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
});

constexpr auto kWhole = std::to_array<ModuleName>({{"embed_tokens", "token_embd"},
                                                   {"norm", "output_norm"},
                                                   {"lm_head", "output"},
                                                   {"rotary_emb", ""}});
constexpr auto kFalconWhole = std::to_array<ModuleName>(
    {{"word_embeddings", "token_embd"}, {"ln_f", "output_norm"}, {"lm_head", "output"}});
constexpr auto kGpt2Whole = std::to_array<ModuleName>({{"wte", "token_embd"},
                                                       {"wpe", "position_embd"},
                                                       {"ln_f", "output_norm"},
                                                       {"lm_head", "output"}});
// Models that also see pictures: their language part.
constexpr auto kSeeingWhole = std::to_array<ModuleName>({{"embed_tokens", "token_embd"},
                                                         {"norm", "output_norm"},
                                                         {"lm_head", "output"},
                                                         {"rotary_emb", ""},
                                                         {"vision_tower.*", ""},
                                                         {"multi_modal_projector.*", ""}});

constexpr std::string_view kSilu = "silu";
constexpr std::string_view kGeluTanh = "gelu_pytorch_tanh";

constexpr auto kFamilies = std::to_array<Family>({
    {"llama", "llama", kSilu, kPlainLayer, kWhole, true},
    {"mistral", "llama", kSilu, kPlainLayer, kWhole, true},
    {"mixtral", "llama", kSilu, kPlainLayer, kWhole, true},
    {"qwen2", "qwen2", kSilu, kPlainLayer, kWhole},
    {"qwen2_moe", "qwen2moe", kSilu, kPlainLayer, kWhole},
    {"qwen3", "qwen3", kSilu, kPlainLayer, kWhole},
    {"qwen3_moe", "qwen3moe", kSilu, kPlainLayer, kWhole},
    {.model_type = "gemma",
     .architecture = "gemma",
     .activation = kGeluTanh,
     .layer = kPlainLayer,
     .whole = kWhole,
     .raises_norms = true,
     .needs_head_dim = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .activation = kGeluTanh,
     .layer = kSandwichLayer,
     .whole = kWhole,
     .raises_norms = true,
     .needs_head_dim = true},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .activation = kGeluTanh,
     .layer = kSandwichLayer,
     .whole = kWhole,
     .raises_norms = true,
     .needs_head_dim = true},
    {.model_type = "gemma3",
     .architecture = "gemma3",
     .activation = kGeluTanh,
     .layer = kSandwichLayer,
     .whole = kSeeingWhole,
     .raises_norms = true,
     .needs_head_dim = true},
    {"phi3", "phi3", kSilu, kPhiLayer, kWhole},
    {"smollm3", "smollm3", kSilu, kPlainLayer, kWhole, true},
    {.model_type = "falcon",
     .architecture = "falcon",
     .activation = "gelu",
     .layer = kFalconLayer,
     .whole = kFalconWhole,
     .interleaves_qkv = true,
     .default_context = 2048},
    {.model_type = "gpt2",
     .architecture = "gpt2",
     .activation = "gelu_new",
     .layer = kGpt2Layer,
     .whole = kGpt2Whole,
     .is_transposed = true},
    {"deepseek_v2", "deepseek2", kSilu, kLatentLayer, kWhole},
    {.model_type = "deepseek_v3",
     .architecture = "deepseek2",
     .activation = kSilu,
     .layer = kLatentLayer,
     .whole = kWhole,
     .chooses_by_sigmoid = true},
});

// The module of that name; '#' in a rule stands for `number`, '*' at its end for anything.
const ModuleName* FindModule(std::span<const ModuleName> modules, std::string_view name) {
  for (const ModuleName& module : modules) {
    if (module.theirs.ends_with(".*")
            ? name.starts_with(module.theirs.substr(0, module.theirs.size() - 1))
            : module.theirs == name) {
      return &module;
    }
  }
  return nullptr;
}

// Digits at the front of `text`, and the dot behind them; empty when there are none.
std::string_view TakeNumber(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool is_number = digits > 0 && digits <= 6 && (digits == 1 || text[0] != '0') &&
                         digits < text.size() && text[digits] == '.';
  if (!is_number) return {};
  const std::string_view number = text.substr(0, digits);
  text.remove_prefix(digits + 1);
  return number;
}

std::optional<std::string> ModuleOfLayer(const Family& family, std::string_view layer,
                                         std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  std::string_view expert;
  std::string general(name);
  if (const std::size_t at = name.find(kExperts); at != name.npos) {
    std::string_view rest = name.substr(at + kExperts.size());
    expert = TakeNumber(rest);
    if (!expert.empty()) {
      general = fmt::format("{}{}#.{}", name.substr(0, at), kExperts, rest);
    }
  }
  const ModuleName* const module = FindModule(family.layer, general);
  if (module == nullptr) return std::nullopt;
  if (module->ours.empty()) return "";
  std::string_view ours = module->ours;
  if (!expert.empty()) ours.remove_suffix(1);
  return fmt::format("blk.{}.{}{}", layer, ours, expert);
}

}  // namespace

std::span<const Family> Families() { return kFamilies; }

const Family* FindFamily(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::optional<std::string> OurModule(const Family& family, std::string_view name) {
  if (name.find('#') != name.npos) return std::nullopt;
  // The same model stands under one of these where it has a head, or is a part of another.
  bool has_prefix = true;
  while (has_prefix) {
    has_prefix = false;
    for (const std::string_view prefix : {"model.", "language_model.", "transformer."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      has_prefix = true;
    }
  }
  for (const std::string_view layers : {"layers.", "h."}) {
    if (!name.starts_with(layers)) continue;
    std::string_view rest = name.substr(layers.size());
    const std::string_view layer = TakeNumber(rest);
    if (!layer.empty()) return ModuleOfLayer(family, layer, rest);
  }
  const ModuleName* const module = FindModule(family.whole, name);
  if (module == nullptr) return std::nullopt;
  return std::string(module->ours);
}

}  // namespace ashlar::hf
