#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(ByteSize, ParsesPlainAndBinaryUnits) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("4096B"), 4096u);
  EXPECT_EQ(*ParseByteSize("64KiB"), 65536u);
  EXPECT_EQ(*ParseByteSize("1.5GiB"), 1610612736u);
  EXPECT_EQ(*ParseByteSize("2tib"), 2199023255552u);
  EXPECT_EQ(*ParseByteSize("18446744073709551615"), 18446744073709551615u);
}

TEST(ByteSize, RefusesWithTheOffendingTextAndTheRightForm) {
  for (const char* bad :
       {"", "GiB", "-1", "1GB", "1 GiB", "1.GiB", "1.5", "0.3KiB", "18446744073709551616",
        "17179869184GiB", "1.0000000001GiB", "0x10", "1e9", "nan"}) {
    const auto result = ParseByteSize(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.error().message.find(std::string("'") + bad + "'"), std::string::npos);
    EXPECT_NE(result.error().message.find("1.5GiB"), std::string::npos);
  }
}

TEST(ByteSize, ParsesTokenCounts) {
  EXPECT_EQ(*ParseTokenCount("32k"), 32768u);
  EXPECT_EQ(*ParseTokenCount("1M"), 1048576u);
  EXPECT_EQ(*ParseTokenCount("7"), 7u);
  EXPECT_FALSE(ParseTokenCount("7KiB").ok());
}

TEST(ByteSize, FormatsForPeople) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1536), "1.50 KiB");
  EXPECT_EQ(FormatByteSize(98362432), "93.8 MiB");
  EXPECT_EQ(FormatByteSize(42949672960), "40.0 GiB");
  EXPECT_EQ(FormatWithCommas(0), "0");
  EXPECT_EQ(FormatWithCommas(999), "999");
  EXPECT_EQ(FormatWithCommas(1000), "1,000");
  EXPECT_EQ(FormatWithCommas(42949672960), "42,949,672,960");
}

}  // namespace
}  // namespace ashlar
