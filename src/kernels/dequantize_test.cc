#include "kernels/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ashlar::kernels {
namespace {

struct Golden {
  std::string dtype;
  std::vector<std::byte> row;
  std::vector<float> values;
};

// tests/oracle/kernels/make_dequantize_goldens.py describes the file.
std::vector<Golden> ReadGoldens() {
  std::ifstream file(ASHLAR_DEQUANTIZE_GOLDENS, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Golden> goldens;
  const char* at = bytes.data();
  while (at < bytes.data() + bytes.size()) {
    std::uint32_t sizes[2];
    std::memcpy(sizes, at + 8, sizeof sizes);
    Golden golden{std::string(at, strnlen(at, 8)), std::vector<std::byte>(sizes[1]),
                  std::vector<float>(sizes[0])};
    at += 8 + sizeof sizes;
    std::memcpy(golden.row.data(), at, sizes[1]);
    at += sizes[1];
    std::memcpy(golden.values.data(), at, sizes[0] * sizeof(float));
    at += sizes[0] * sizeof(float);
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

std::uint32_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(DequantizeRow, GivesTheBitsOfTheOracleForEveryFormat) {
  const std::vector<Golden> goldens = ReadGoldens();
  ASSERT_EQ(goldens.size(), AllDTypes().size());
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const Golden& golden = goldens[i];
    const DTypeInfo& info = AllDTypes()[i];
    ASSERT_EQ(golden.dtype, info.name);
    ASSERT_EQ(golden.row.size(), *RowBytes(info.dtype, golden.values.size()));
    // An odd address: rows of a file need no alignment.
    std::vector<std::byte> misaligned(golden.row.size() + 1);
    std::memcpy(misaligned.data() + 1, golden.row.data(), golden.row.size());
    std::vector<float> values(golden.values.size());
    DequantizeRow(info.dtype, misaligned.data() + 1, values.size(), values.data());
    for (std::size_t c = 0; c < values.size(); ++c) {
      // The oracle computes (q - offset) * d, which is -0 for q = offset and d < 0; ours is +0.
      if (golden.values[c] == 0.0f && values[c] == 0.0f) continue;
      ASSERT_EQ(Bits(values[c]), Bits(golden.values[c])) << info.name << " element " << c;
    }
  }
}

TEST(DequantizeRow, WritesNothingForNoElements) {
  for (const DTypeInfo& info : AllDTypes()) DequantizeRow(info.dtype, nullptr, 0, nullptr);
}

TEST(DequantizeRow, NeverGivesANegativeZeroWithoutAMinimum) {
  std::vector<std::byte> row(18);
  const std::uint16_t minus_one = 0xBC00;
  std::memcpy(row.data(), &minus_one, 2);
  std::memset(row.data() + 2, 0x88, 16);  // q = offset everywhere
  std::vector<float> values(32, 7.0f);
  DequantizeRow(DType::kQ4_0, row.data(), 32, values.data());
  for (const float value : values) EXPECT_EQ(Bits(value), 0u);
}

}  // namespace
}  // namespace ashlar::kernels
