#include "hf/family.h"

#include <gtest/gtest.h>

#include "model/family.h"

namespace ashlar::hf {
namespace {

std::string Ours(std::string_view model_type, std::string_view theirs) {
  const Family* const family = FindFamily(model_type);
  EXPECT_NE(family, nullptr) << model_type;
  return OurModule(*family, theirs).value_or("unknown");
}

TEST(FamilyTest, NamesMeanWhatTheyMean) {
  EXPECT_EQ(Ours("llama", "model.embed_tokens"), "token_embd");
  EXPECT_EQ(Ours("llama", "lm_head"), "output");
  EXPECT_EQ(Ours("llama", "model.layers.17.self_attn.q_proj"), "blk.17.attn_q");
  EXPECT_EQ(Ours("llama", "model.layers.0.post_attention_layernorm"), "blk.0.ffn_norm");
  EXPECT_EQ(Ours("gemma2", "model.layers.0.post_attention_layernorm"), "blk.0.post_attention_norm");
  EXPECT_EQ(Ours("mixtral", "model.layers.3.block_sparse_moe.experts.7.w2"), "blk.3.ffn_down.7");
  EXPECT_EQ(Ours("qwen3_moe", "model.layers.3.mlp.experts.100.gate_proj"), "blk.3.ffn_gate.100");
  EXPECT_EQ(Ours("phi3", "model.layers.3.mlp.gate_up_proj"), "blk.3.ffn_up");
  EXPECT_EQ(Ours("gpt2", "h.2.mlp.c_fc"), "blk.2.ffn_up");
  EXPECT_EQ(Ours("gpt2", "transformer.h.2.mlp.c_fc"), "blk.2.ffn_up");
  EXPECT_EQ(Ours("gpt2", "h.2.attn"), "");
  EXPECT_EQ(Ours("gemma3", "language_model.model.layers.1.mlp.up_proj"), "blk.1.ffn_up");
  EXPECT_EQ(Ours("gemma3", "vision_tower.vision_model.embeddings.patch_embedding"), "");
}

TEST(FamilyTest, UnknownNamesAreUnknown) {
  EXPECT_EQ(Ours("llama", "model.layers.x.self_attn.q_proj"), "unknown");
  EXPECT_EQ(Ours("llama", "model.layers.01.self_attn.q_proj"), "unknown");
  EXPECT_EQ(Ours("llama", "model.layers.1"), "unknown");
  EXPECT_EQ(Ours("llama", "model.layers.1.self_attn.z_proj"), "unknown");
  EXPECT_EQ(Ours("llama", "vision_tower.a"), "unknown");
  EXPECT_EQ(Ours("llama", "model.layers.1.mlp.experts.#.up_proj"), "unknown");
  EXPECT_EQ(Ours("llama", ""), "unknown");
}

TEST(FamilyTest, EveryFamilyRuns) {
  for (const Family& family : Families()) {
    EXPECT_NE(model::FindFamily(family.architecture), nullptr) << family.model_type;
  }
}

}  // namespace
}  // namespace ashlar::hf
