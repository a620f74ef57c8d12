#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace ashlar {
namespace {

TEST(ProcessMemory, ThePeakStaysWhenMemoryIsGivenBack) {
  constexpr std::size_t kBytes = std::size_t{96} << 20;
  {
    const std::vector<char> touched(kBytes, 1);
    ASSERT_EQ(touched[kBytes / 2], 1);
  }
  const auto peak = PeakResidentBytes();
  ASSERT_TRUE(peak.has_value());
  EXPECT_GE(*peak, kBytes);
  EXPECT_LT(*peak, std::uint64_t{1} << 46);
}

TEST(ProcessMemory, StatusLinesAreReadWholeOrNotAtAll) {
  EXPECT_EQ(StatusBytes("Name:\tx\nVmHWM:\t   12 kB\nVmRSS:\t 7 kB\n", "VmHWM"), 12 * 1024u);
  EXPECT_EQ(StatusBytes("VmHWM:\t12 kB", "VmHWM"), 12 * 1024u);
  EXPECT_EQ(StatusBytes("VmHWM2:\t12 kB\n", "VmHWM"), std::nullopt);
  EXPECT_EQ(StatusBytes("VmHWM:\n", "VmHWM"), std::nullopt);
  EXPECT_EQ(StatusBytes("VmHWM: many kB\n", "VmHWM"), std::nullopt);
  EXPECT_EQ(StatusBytes("VmHWM: 12 MB\n", "VmHWM"), std::nullopt);
  EXPECT_EQ(StatusBytes("", "VmHWM"), std::nullopt);
}

}  // namespace
}  // namespace ashlar
