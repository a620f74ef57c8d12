#include "base/dtype.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(DType, RowBytesNeedsWholeBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576), 360u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 577), std::nullopt);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 128), std::nullopt);
  EXPECT_EQ(RowBytes(DType::kQ8_0, 0), 0u);
}

TEST(DType, InfoIsIndexedByTheEnum) {
  for (const DTypeInfo& info : AllDTypes()) EXPECT_EQ(InfoOf(info.dtype).name, info.name);
  EXPECT_EQ(NameOf(DType::kQ5_K), "Q5_K");
}

}  // namespace
}  // namespace ashlar
