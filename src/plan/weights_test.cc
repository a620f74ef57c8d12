#include "plan/weights.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/registry.h"

namespace ashlar::plan {
namespace {

Geometry Model(const std::string& name) { return *Registry::BuiltIn().Find(name); }

// As their publishers count them.
struct Published {
  const char* model;
  std::uint64_t parameters;
};
constexpr Published kPublished[] = {
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},
    {"llama-3-8b", 8'030'261'248},
    {"llama-3-70b", 70'553'706'496},
    {"llama-3.1-405b", 405'853'388'800},
    {"llama-3.2-1b", 1'235'814'400},
    {"tinyllama-1.1b", 1'100'048'384},
    {"mistral-7b-v0.1", 7'241'732'096},
    {"mixtral-8x7b", 46'702'792'704},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"gemma-2-2b", 2'614'341'888},
    {"gemma-2-9b", 9'241'705'984},
    {"gemma-3-1b", 999'885'952},
    {"gemma-3-270m", 268'098'176},
    {"phi-3-mini-4k", 3'821'079'552},
    {"phi-4", 14'659'507'200},
    {"smollm2-135m", 134'515'008},
    {"deepseek-v2-lite", 15'706'484'224},
    {"deepseek-v2", 235'741'434'880},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"falcon-7b", 6'921'720'704},
    {"gpt2", 124'439'808},
    {"gpt2-xl", 1'557'611'200},
    {"pythia-70m", 70'426'624},
    {"pythia-2.8b", 2'775'208'960},
    {"gpt-j-6b", 6'050'882'784},
};

TEST(Weights, ParametersAreThePublishedOnes) {
  for (const Published& row : kPublished) {
    EXPECT_EQ(ParametersOf(WeightsOf(Model(row.model))), row.parameters) << row.model;
  }
}

TEST(Weights, PlainFormatsHaveTheBytesOfTheirParameters) {
  const Geometry geometry = Model("llama-3-8b");
  const auto weights = WeightsOf(geometry);
  EXPECT_EQ(BytesOf(weights, geometry, "BF16"), 2u * 8'030'261'248);
  EXPECT_EQ(BytesOf(weights, geometry, "F32"), 4u * 8'030'261'248);
}

// Sizes of well-known files, which have their metadata besides (some megabytes).
TEST(Weights, QuantisedFormatsComeCloseToFiles) {
  struct File {
    const char* model;
    const char* format;
    std::uint64_t bytes;
  };
  constexpr File kFiles[] = {
      {"llama-2-7b", "Q4_0", 3'825'807'040},   {"llama-2-7b", "Q4_K_M", 4'081'004'224},
      {"llama-2-7b", "Q5_K_M", 4'783'156'928}, {"llama-2-7b", "Q6_K", 5'529'194'176},
      {"llama-2-7b", "Q8_0", 7'161'089'728},   {"llama-2-7b", "Q4_K_S", 3'856'740'032},
  };
  for (const File& file : kFiles) {
    const Geometry geometry = Model(file.model);
    const auto bytes = static_cast<double>(BytesOf(WeightsOf(geometry), geometry, file.format));
    EXPECT_NEAR(bytes / static_cast<double>(file.bytes), 1.0, 0.002) << file.format;
  }
}

TEST(Weights, FormatsFallInSize) {
  const Geometry geometry = Model("llama-3-8b");
  const auto weights = WeightsOf(geometry);
  std::uint64_t above = ~0ull;
  for (const std::string_view format : WeightFormats()) {
    // Of experts only, and there are none; with tables in bf16.
    if (format == "MXFP4" || format == "FP8") continue;
    const std::uint64_t bytes = BytesOf(weights, geometry, format);
    EXPECT_LE(bytes, above) << format;
    above = bytes;
  }
}

TEST(Weights, Mxfp4IsForExperts) {
  // 36 layers of 128 experts of 3 x 2,880 x 2,880 are 114,661,785,600 of the 116,829,156,672
  // parameters, at 17 bytes for 32; the others at 2 bytes.
  const Geometry geometry = Model("gpt-oss-120b");
  EXPECT_EQ(BytesOf(WeightsOf(geometry), geometry, "MXFP4"),
            114'661'785'600 / 32 * 17 + 2 * (116'829'156'672 - 114'661'785'600));
}

TEST(Weights, RowsThatAreNoWholeBlocksTakeACoarserFormat) {
  // 576 columns are no multiple of 256: Q6_K becomes Q8_0 there.
  const Geometry geometry = Model("smollm2-135m");
  const auto weights = WeightsOf(geometry);
  const std::uint64_t bytes = BytesOf(weights, geometry, "Q4_1");
  // Embedding 49,152 x 576 in Q8_0: 30,081,024; 106,168,320 in Q4_1 at 5 bits: 66,355,200; 61 norms
  // of 576 in F32: 140,544.
  EXPECT_EQ(bytes, 30'081'024u + 66'355'200 + 140'544);
}

TEST(Weights, NamesAreReadInAnyCase) {
  EXPECT_EQ(*ParseWeightFormat("q4_k_m"), "Q4_K_M");
  const auto wrong = ParseWeightFormat("Q9");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("'Q9'"), std::string::npos);
  EXPECT_NE(wrong.error().message.find("Q4_K_M"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::plan
