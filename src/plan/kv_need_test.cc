#include "plan/kv_need.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/registry.h"

namespace ashlar::plan {
namespace {

KvNeed NeedOf(const Geometry& geometry, const std::string& codec, const Workload& workload) {
  const kv::KvLayout layout = *LayoutOf(geometry, *model::ParseKvCodecSpec(codec), 16);
  Result<KvNeed> need = KvNeedOf(layout, workload);
  EXPECT_TRUE(need.ok());
  return *need;
}
KvNeed NeedOf(const std::string& model, const std::string& codec, std::uint64_t context) {
  return NeedOf(*Registry::BuiltIn().Find(model), codec, {.context = context});
}

// Computed by hand: 2 bytes, blocks of 16 tokens, chunks of 256. A window of w tokens and a chunk
// of c touch at most the w - 1 + c tokens that end with it, which lie in (w + c - 3) / 16 + 2
// blocks when the first is the last of its block.
struct HandComputed {
  const char* model;
  std::uint64_t bytes_per_token;  // (K and V) layers x kv heads x head dim x 2
  std::uint64_t context;
  std::uint64_t bytes_per_sequence;
};
constexpr HandComputed kTable[] = {
    {"llama-2-7b", 524'288 /* 2 x 32 x 32 x 128 x 2 */, 4'096, 2'147'483'648},
    {"llama-2-13b", 819'200 /* 2 x 40 x 40 x 128 x 2 */, 4'096, 3'355'443'200},
    {"llama-2-70b", 327'680 /* 2 x 80 x 8 x 128 x 2 */, 32'768, 10'737'418'240},
    {"llama-3-8b", 131'072 /* 2 x 32 x 8 x 128 x 2 */, 8'192, 1'073'741'824},
    {"llama-3-70b", 327'680 /* 2 x 80 x 8 x 128 x 2 */, 131'072, 42'949'672'960},
    {"llama-3.1-405b", 516'096 /* 2 x 126 x 8 x 128 x 2 */, 131'072, 67'645'734'912},
    {"llama-3.2-1b", 32'768 /* 2 x 16 x 8 x 64 x 2 */, 131'072, 4'294'967'296},
    // All layers slide: (4096 + 253) / 16 + 2 = 273 blocks x 16 x 131,072.
    {"mistral-7b-v0.1", 131'072 /* 2 x 32 x 8 x 128 x 2 */, 32'768, 572'522'496},
    {"mistral-7b-v0.3", 131'072, 32'768, 4'294'967'296},
    {"mixtral-8x7b", 131'072 /* experts keep no keys */, 32'768, 4'294'967'296},
    {"qwen2.5-7b", 57'344 /* 2 x 28 x 4 x 128 x 2 */, 131'072, 7'516'192'768},
    {"qwen3-8b", 147'456 /* 2 x 36 x 8 x 128 x 2 */, 40'960, 6'039'797'760},
    {"qwen3-30b-a3b", 98'304 /* 2 x 48 x 4 x 128 x 2 */, 40'960, 4'026'531'840},
    // 21 full layers: 172,032 x 8,192 = 1,409,286,144; 21 of a window of 4,096: 273 x 16 x 172,032
    // = 751,435,776.
    {"gemma-2-9b", 344'064 /* 2 x 42 x 8 x 256 x 2 */, 8'192, 2'160'721'920},
    // 10 full layers: 81,920 x 131,072 = 10,737,418,240; 52 of a window of 1,024:
    // (1024 + 253) / 16 + 2 = 81 blocks x 16 x 425,984 = 552,075,264.
    {"gemma-3-27b", 507'904 /* 2 x 62 x 16 x 128 x 2 */, 131'072, 11'289'493'504},
    // 4 full layers: 4,096 x 32,768 = 134,217,728; 22 of a window of 512: (512 + 253) / 16 + 2 =
    // 49 blocks x 16 x 22,528 = 17,661,952.
    {"gemma-3-1b", 26'624 /* 2 x 26 x 1 x 256 x 2 */, 32'768, 151'879'680},
    // 3 full layers: 3,072 x 32,768 = 100,663,296; 15: 49 x 16 x 15,360 = 12,042,240.
    {"gemma-3-270m", 18'432 /* 2 x 18 x 1 x 256 x 2 */, 32'768, 112'705'536},
    {"deepseek-v2-lite", 31'104 /* 27 x (512 + 64) x 2 */, 163'840, 5'096'079'360},
    {"deepseek-v2", 69'120 /* 60 x (512 + 64) x 2 */, 163'840, 11'324'620'800},
    {"deepseek-v3", 70'272 /* 61 x (512 + 64) x 2 */, 163'840, 11'513'364'480},
    // 12 full layers: 24,576 x 131,072 = 3,221,225,472; 12 of a window of 128:
    // (128 + 253) / 16 + 2 = 25 blocks x 16 x 24,576 = 9,830,400.
    {"gpt-oss-20b", 49'152 /* 2 x 24 x 8 x 64 x 2 */, 131'072, 3'231'055'872},
    // 18 full: 36,864 x 131,072 = 4,831,838,208; 18: 25 x 16 x 36,864 = 14,745,600.
    {"gpt-oss-120b", 73'728 /* 2 x 36 x 8 x 64 x 2 */, 131'072, 4'846'583'808},
    {"falcon-7b", 8'192 /* 2 x 32 x 1 x 64 x 2: one kv head, not the 71 of its config */, 2'048,
     16'777'216},
    {"falcon-40b", 122'880 /* 2 x 60 x 8 x 64 x 2 */, 2'048, 251'658'240},
    {"gpt2", 36'864 /* 2 x 12 x 12 x 64 x 2 */, 1'024, 37'748'736},
    {"smollm2-135m", 23'040 /* 2 x 30 x 3 x 64 x 2 */, 8'192, 188'743'680},
    // All layers slide: (2047 + 253) / 16 + 2 = 145 blocks x 16 x 393,216.
    {"phi-3-mini-4k", 393'216 /* 2 x 32 x 32 x 96 x 2 */, 4'096, 912'261'120},
    {"pythia-2.8b", 327'680 /* 2 x 32 x 32 x 80 x 2 */, 2'048, 671'088'640},
};

TEST(KvNeed, IsWhatHandsCompute) {
  for (const HandComputed& row : kTable) {
    const KvNeed need = NeedOf(row.model, "f16", row.context);
    EXPECT_EQ(need.bytes_per_token, row.bytes_per_token) << row.model;
    EXPECT_EQ(need.bytes_per_sequence, row.bytes_per_sequence) << row.model;
  }
}

TEST(KvNeed, CountsScalesAndOpenBlocksOfEncodedCodecs) {
  // Llama-3-8B: 32 layers of 8 kv heads of 128. A tile of 16 x 128 in q8 has 2,048 bytes of codes
  // and 16 x 4 scales of 2 bytes: 2,176. 256 lanes x 2 x 2,176 = 1,114,112 bytes a block, 69,632 a
  // token; 512 blocks are 570,425,344 bytes, and one open in f16 16 x 131,072.
  const KvNeed q8 = NeedOf("llama-3-8b", "q8", 8'192);
  EXPECT_EQ(q8.bytes_per_token, 69'632u);
  EXPECT_EQ(q8.bytes_per_sequence, 570'425'344u + 2'097'152u);
  // q4: 1,024 + 128 = 1,152 a tile. 28 layers of 8 x (2,176 + 1,152) = 745,472 bytes a block, 4 of
  // 8 x 2 x 2,176 = 139,264: together 884,736 x 512 blocks, and the open ones.
  const KvNeed balanced = NeedOf("llama-3-8b", "balanced", 8'192);
  ASSERT_EQ(balanced.groups.size(), 2u);
  EXPECT_EQ(balanced.groups[0].block_bytes, 745'472u);
  EXPECT_EQ(balanced.groups[1].block_bytes, 139'264u);
  EXPECT_EQ(balanced.bytes_per_sequence, 452'984'832u + 2'097'152u);
  EXPECT_EQ(balanced.groups[0].open_block_bytes, 28u * 8 * 2 * 128 * 16 * 2);
  // DeepSeek-V3: a latent of 576 in q8 has 9,216 + 16 x 18 x 2 = 9,792 bytes; 61 of them.
  EXPECT_EQ(NeedOf("deepseek-v3", "q8", 16).groups[0].block_bytes, 61u * 9'792);
}

TEST(KvNeed, WholeBlocksAreCounted) {
  // SmolLM2-135M: a block of 16 tokens is 368,640 bytes.
  for (const auto& [tokens, blocks] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1, 1}, {16, 1}, {17, 2}, {8192, 512}}) {
    EXPECT_EQ(NeedOf("smollm2-135m", "f16", tokens).bytes_per_sequence, blocks * 368'640) << tokens;
  }
}

TEST(KvNeed, AWindowHoldsLessAtItsEndThanAtItsPeak) {
  const KvNeed need = NeedOf("gemma-3-270m", "f16", 32'768);
  const GroupNeed& sliding = need.groups[1];
  EXPECT_EQ(sliding.name, "sliding");
  EXPECT_EQ(sliding.window, 512u);
  EXPECT_EQ(sliding.layers, 15u);
  EXPECT_EQ(sliding.peak_blocks, 49u);
  // At position 32,768 the tokens from 32,257 on are read: block 2,016, and 31 after it.
  EXPECT_EQ(sliding.held_blocks, 32u);
  EXPECT_EQ(need.held_bytes, 2048u * 16 * 3072 + 32 * 16 * 15360);
  // A text within the window holds all of itself.
  EXPECT_EQ(NeedOf("gemma-3-270m", "f16", 512).bytes_per_sequence, 32u * 16 * 18'432);
}

TEST(KvNeed, ABatchIsSequencesThatShareNothing) {
  const Geometry geometry = *Registry::BuiltIn().Find("llama-3-8b");
  const KvNeed need = NeedOf(geometry, "f16", {.context = 8'192, .sequences = 7});
  EXPECT_EQ(need.total_bytes, 7ull * 1'073'741'824);
}

TEST(KvNeed, LayersThatKeepNothingOrShareTakeNothing) {
  Geometry geometry = *Registry::BuiltIn().Find("llama-3-8b");
  for (std::uint32_t layer = 0; layer < 8; ++layer) geometry.layers[layer] = {};
  for (std::uint32_t layer = 24; layer < 32; ++layer) geometry.layers[layer] = {.source_layer = 23};
  EXPECT_EQ(NeedOf(geometry, "f16", {.context = 1'024}).bytes_per_token, 131'072u / 2);
}

TEST(KvNeed, NumbersThatNoMachineHasAreRefused) {
  const Geometry geometry = *Registry::BuiltIn().Find("llama-3.1-405b");
  const kv::KvLayout layout = *LayoutOf(geometry, model::KvCodecSpec::Of({}), 16);
  const auto error = [&](const Workload& workload) {
    const Result<KvNeed> need = KvNeedOf(layout, workload);
    return need.ok() ? std::string() : need.error().message;
  };
  EXPECT_EQ(error({.context = kMaxContext}), "");
  EXPECT_NE(error({.context = 0}).find("a context of 0 tokens"), std::string::npos);
  EXPECT_NE(error({.context = kMaxContext + 1}).find("1073741825 tokens"), std::string::npos);
  EXPECT_NE(error({.context = 1, .sequences = 0}).find("0 sequences"), std::string::npos);
  EXPECT_NE(error({.context = 1, .sequences = ~0ull}).find("sequences"), std::string::npos);
  EXPECT_NE(error({.context = 1, .chunk = 0}).find("chunk of 0"), std::string::npos);
  EXPECT_NE(error({.context = kMaxContext, .sequences = kMaxSequences}).find("more than 2^60"),
            std::string::npos);
}

TEST(KvNeed, CodecsThatLatentsCannotHaveAreRefused) {
  const Geometry geometry = *Registry::BuiltIn().Find("deepseek-v3");
  EXPECT_TRUE(LayoutOf(geometry, *model::ParseKvCodecSpec("q4"), 16).ok());
  const auto refused = LayoutOf(geometry, *model::ParseKvCodecSpec("kc4"), 16);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("kc4"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::plan
