#include "gguf/format.h"

#include <gtest/gtest.h>

#include <map>

namespace ashlar::gguf {
namespace {

// The numbers are facts of the format, written here a second time on purpose.
TEST(Format, TensorTypesHaveTheirGgmlNumbers) {
  const std::map<std::string_view, std::uint32_t> expected = {
      {"F32", 0},   {"F16", 1},   {"Q4_0", 2},    {"Q4_1", 3},  {"Q5_0", 6},
      {"Q5_1", 7},  {"Q8_0", 8},  {"Q2_K", 10},   {"Q3_K", 11}, {"Q4_K", 12},
      {"Q5_K", 13}, {"Q6_K", 14}, {"IQ4_NL", 20}, {"BF16", 30}, {"MXFP4", 39}};
  ASSERT_EQ(AllDTypes().size(), expected.size());
  for (const DTypeInfo& info : AllDTypes()) {
    ASSERT_TRUE(expected.contains(info.name)) << info.name;
    EXPECT_EQ(TensorTypeCode(info.dtype), expected.at(info.name));
    EXPECT_EQ(DTypeOfCode(expected.at(info.name)), info.dtype);
  }
}

TEST(Format, TypesWeDoNotReadStillHaveNames) {
  EXPECT_EQ(TensorTypeName(16), "IQ2_XXS");
  EXPECT_EQ(TensorTypeName(23), "IQ4_XS");
  EXPECT_EQ(TensorTypeName(28), "F64");
  EXPECT_EQ(TensorTypeName(35), "TQ2_0");
  EXPECT_EQ(TensorTypeName(40), "NVFP4");
  EXPECT_EQ(DTypeOfCode(23), std::nullopt);
  EXPECT_EQ(TensorTypeName(43), "");
  EXPECT_EQ(DTypeOfCode(43), std::nullopt);
  EXPECT_EQ(DTypeOfCode(0xFFFFFFFF), std::nullopt);
}

}  // namespace
}  // namespace ashlar::gguf
