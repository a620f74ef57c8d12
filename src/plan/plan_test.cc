#include "plan/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "plan/registry.h"
#include "plan/report.h"

namespace ashlar::plan {
namespace {

Result<Plan> Make(const std::string& model, PlanOptions options) {
  return MakePlan({.geometry = *Registry::BuiltIn().Find(model), .source = "registry"},
                  std::move(options));
}

PlanOptions Options(const std::string& codec, Workload workload) {
  return {.codec = *model::ParseKvCodecSpec(codec), .workload = workload};
}

TEST(Plan, JsonHasTheFieldsThatScriptsRead) {
  PlanOptions options = Options("f16", {.context = 131'072, .sequences = 2});
  options.memory_bytes = 256 * kGiB;
  options.margin_bytes = 6 * kGiB;
  const Plan plan = *Make("llama-3-70b", options);
  const std::string text = JsonReport(plan);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["kv_bytes_per_token"], 327'680);
  EXPECT_EQ(json["kv_bytes_per_sequence"], 42'949'672'960);
  EXPECT_EQ(json["kv_bytes_held"], 42'949'672'960);
  EXPECT_EQ(json["kv_bytes_total"], 85'899'345'920);
  EXPECT_EQ(json["weights_bytes"], 141'107'412'992);  // 2 x 70,553,706,496
  // 250 GiB less the weights' 131.4 are 118.6: two sequences of 40 GiB.
  EXPECT_EQ(json["fits"]["sequences"], 2);
  EXPECT_EQ(json["fits"]["context"], 131'072);
  ASSERT_EQ(json["groups"].size(), 1u);
  EXPECT_EQ(json["groups"][0]["blocks"], 8'192);
  EXPECT_EQ(json["groups"][0]["block_bytes"], 5'242'880);
  EXPECT_EQ(json["codecs"].size(), 6u);  // f32 and the presets, of which f16 is one
  EXPECT_EQ(json["memory"]["bytes"], 256 * kGiB);
  EXPECT_GE(json["kv_memory_bytes"], 85'899'345'920);
  // Whatever is asked for, it adds up.
  const auto& memory = json["memory"];
  std::uint64_t sum = 0;
  for (const char* const part : {"margin_bytes", "weights_bytes", "workspace_bytes",
                                 "bookkeeping_bytes", "kv_memory_bytes"}) {
    sum += memory[part].get<std::uint64_t>();
  }
  EXPECT_LE(sum, 256 * kGiB);
  EXPECT_GT(sum, 256 * kGiB - 2 * kMiB);
}

TEST(Plan, WithoutMemoryNothingIsSaidToFit) {
  const Plan plan = *Make("llama-3-8b", Options("q8", {}));
  EXPECT_EQ(plan.options.workload.context, 8'192u);  // the model's
  const auto json = nlohmann::json::parse(JsonReport(plan));
  EXPECT_TRUE(json["fits"].is_null());
  EXPECT_TRUE(json["memory"].is_null());
  EXPECT_EQ(json["kv_codec"], "q8");
}

TEST(Plan, EveryCodecTellsItsTrueBytes) {
  const Plan plan = *Make("smollm2-135m", Options("hq5", {.context = 4'096}));
  // As README.md has them for the default model.
  const std::vector<std::pair<std::string, std::uint64_t>> expected = {
      {"f32", 46'080},        {"exact", 23'040}, {"q8", 12'240}, {"balanced", 9'744},
      {"small-model", 9'360}, {"q4", 7'248},     {"hq5", 7'920}};
  ASSERT_EQ(plan.codecs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(plan.codecs[i].name, expected[i].first);
    EXPECT_EQ(plan.codecs[i].need.bytes_per_token, expected[i].second) << expected[i].first;
  }
  EXPECT_DOUBLE_EQ(plan.codecs[2].bits_per_element, 8.5);
  EXPECT_DOUBLE_EQ(plan.codecs[1].bits_per_element, 16);
}

TEST(Plan, CurvesGrowAndFrontiersFall) {
  PlanOptions options = Options("f16", {.context = 100'000});
  options.arena_bytes = 10 * kGiB;
  const Plan plan = *Make("gemma-3-12b", options);
  EXPECT_EQ(plan.contexts.front(), 1'024u);
  EXPECT_EQ(plan.contexts.back(), 131'072u);  // the model's, more than asked for
  for (const CodecRow& row : plan.codecs) {
    ASSERT_EQ(row.curve.size(), plan.contexts.size());
    ASSERT_EQ(row.frontier.size(), plan.contexts.size());
    EXPECT_TRUE(std::is_sorted(row.curve.begin(), row.curve.end()));
    EXPECT_TRUE(std::is_sorted(row.frontier.rbegin(), row.frontier.rend()));
    EXPECT_GT(row.frontier.front(), row.frontier.back());
  }
}

TEST(Plan, OptionsThatContradictAreRefused) {
  PlanOptions options = Options("f16", {});
  options.memory_bytes = kGiB;
  options.margin_bytes = kGiB;
  EXPECT_FALSE(Make("llama-3-8b", options).ok());
  options.margin_bytes = 0;
  options.memory_bytes = ~0ull;
  EXPECT_NE(Make("llama-3-8b", options).error().message.find("18446744073709551615"),
            std::string::npos);
  options.memory_bytes = kGiB;
  options.weight_format = "Q9";
  EXPECT_NE(Make("llama-3-8b", options).error().message.find("Q9"), std::string::npos);
  options.weight_format = "";
  options.block_tokens = 7;
  EXPECT_NE(Make("llama-3-8b", options).error().message.find("7"), std::string::npos);
  const auto sliding = Make("llama-3-8b", Options("k=f16,v=f16,sliding=f32", {}));
  EXPECT_NE(sliding.error().message.find("sliding"), std::string::npos);
}

TEST(Plan, WeightsThatDoNotFitLeaveNothing) {
  PlanOptions options = Options("f16", {});
  options.memory_bytes = 8 * kGiB;
  const Plan plan = *Make("llama-3-70b", options);
  EXPECT_EQ(plan.budget->arena_bytes, 0u);
  EXPECT_GT(plan.budget->missing_bytes, 100 * kGiB);
  EXPECT_EQ(*plan.chosen.sequences, 0u);
  EXPECT_NE(TextReport(plan).find("does not fit"), std::string::npos);
}

double FactorOf(const Plan& plan, const std::string& rule) {
  for (const RuleOfThumb& one : plan.rules) {
    if (one.name.find(rule) != std::string::npos) return one.factor;
  }
  return 0;
}

TEST(RulesOfThumb, SayByHowMuchTheyAreWrong) {
  // 64 query heads share 8 kv heads: eight times. The hidden size says the same.
  const Plan llama = *Make("llama-3-70b", Options("f16", {.context = 131'072}));
  EXPECT_DOUBLE_EQ(FactorOf(llama, "query heads instead"), 8.0);
  EXPECT_EQ(llama.rules.size(), 1u);
  // MHA: no rule is wrong.
  EXPECT_TRUE(Make("llama-2-7b", Options("f16", {.context = 4'096}))->rules.empty());
  // 128 heads of 192 + 128 instead of a latent of 576: 40,960 / 576.
  const Plan deepseek = *Make("deepseek-v3", Options("f16", {.context = 4'096}));
  EXPECT_NEAR(FactorOf(deepseek, "MLA"), 71.1, 0.1);
  // 62 layers that keep all against 10 that do and 52 that keep 81 blocks.
  const Plan gemma = *Make("gemma-3-27b", Options("f16", {.context = 131'072}));
  EXPECT_NEAR(FactorOf(gemma, "windows ignored"), 507'904.0 * 131'072 / 11'289'493'504, 1e-9);
  // Qwen3-0.6B: heads of 128, not of 1,024 / 16.
  const Plan qwen = *Make("qwen3-0.6b", Options("f16", {.context = 4'096}));
  EXPECT_DOUBLE_EQ(FactorOf(qwen, "hidden / query heads"), 0.5);
  // 8.5 bits and an open block, not 16 bits and not 8.
  const Plan q8 = *Make("llama-3-8b", Options("q8", {.context = 8'192}));
  EXPECT_NEAR(FactorOf(q8, "2 bytes"), 16 / 8.5, 0.01);
  EXPECT_NEAR(FactorOf(q8, "bits without scales"), 8 / 8.5, 0.01);
}

}  // namespace
}  // namespace ashlar::plan
