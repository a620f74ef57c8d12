#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/dequantize.h"
#include "kernels/kernel_set.h"
#include "kernels/packed_layout.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::OwnedMatrix;
using testing::Random;
using testing::SameBits;

// The packed matrix as f32 [k, n], by multiplying with the unit vectors: each picks one column,
// exactly.
std::vector<float> Unpack(const PackedMatrix& w) {
  std::vector<float> units(w.k * w.k, 0.0f);
  for (std::size_t c = 0; c < w.k; ++c) units[c * w.k + c] = 1.0f;
  std::vector<float> columns(w.k * w.n);
  KernelsFor(Isa::kReference)
      .matmul({.w = &w,
               .x = units.data(),
               .rows = w.k,
               .x_stride = w.k,
               .bias = nullptr,
               .y = columns.data(),
               .y_stride = w.n,
               .panel_begin = 0,
               .panel_end = w.panels(),
               .scratch = nullptr});
  return columns;
}

TEST(PackedMatrix, HoldsTheBitsThatDequantizeRowGives) {
  for (const DTypeInfo& info : AllDTypes()) {
    const std::size_t k = info.block_elements == 1 ? 7 : info.block_elements;
    const std::size_t n = 19;
    Random random(1);
    const std::vector<std::byte> rows = random.Rows(info.dtype, n, k);
    const OwnedMatrix w(info.dtype, n, k, rows.data());
    const std::vector<float> columns = Unpack(*w.view());
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<float> want(k);
      DequantizeRow(info.dtype, rows.data() + j * *RowBytes(info.dtype, k), k, want.data());
      for (std::size_t c = 0; c < k; ++c) {
        // A sum that starts at 0 has no negative zero.
        ASSERT_TRUE(SameBits(columns[c * n + j], want[c] + 0.0f)) << info.name << " row " << j;
      }
    }
  }
}

TEST(PackedMatrix, RoundTripsEveryFieldOfABlock) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (!IsQuantised(info.dtype)) continue;
    Random random(2);
    const std::vector<std::byte> rows = random.Rows(info.dtype, 16, info.block_elements);
    const OwnedMatrix w(info.dtype, 16, info.block_elements, rows.data());
    const BlockShape shape = ShapeOf(info.dtype);
    for (std::size_t j = 0; j < 16; ++j) {
      BlockFields want{};
      BlockFields got{};
      ReadBlock(info.dtype, rows.data() + j * info.block_bytes, &want);
      ReadPackedBlock(shape, {w.view()->data, 0, j}, &got);
      EXPECT_EQ(std::memcmp(&got, &want, sizeof got), 0) << info.name << " row " << j;
    }
  }
}

TEST(PackedMatrix, ARowUnpackedIsTheRowDequantized) {
  for (const DTypeInfo& info : AllDTypes()) {
    const std::size_t k = 3 * (info.block_elements == 1 ? 7 : info.block_elements);
    const std::size_t n = 19;
    Random random(6);
    const std::vector<std::byte> rows = random.Rows(info.dtype, n, k);
    const OwnedMatrix w(info.dtype, n, k, rows.data());
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<float> want(k);
      std::vector<float> got(k);
      DequantizeRow(info.dtype, rows.data() + j * *RowBytes(info.dtype, k), k, want.data());
      UnpackRow(*w.view(), j, got.data());
      for (std::size_t c = 0; c < k; ++c) {
        ASSERT_TRUE(SameBits(got[c], want[c])) << info.name << " row " << j;
      }
    }
  }
}

// Whatever the memory held before: rows beyond n and padding are zeros.
TEST(PackedMatrix, PackingWritesEveryByteOfAPanel) {
  for (const DTypeInfo& info : AllDTypes()) {
    for (const std::size_t blocks : {1u, 2u, 3u, 7u}) {
      for (const std::size_t n : {1u, 16u, 19u}) {
        const std::size_t k = blocks * info.block_elements;
        Random random(4);
        const std::vector<std::byte> rows = random.Rows(info.dtype, n, k);
        std::vector<std::byte> zeros(PackedBytes(info.dtype, n, k), std::byte{0});
        std::vector<std::byte> ones(zeros.size(), std::byte{0xFF});
        for (std::vector<std::byte>* const packed : {&zeros, &ones}) {
          PackPanels({info.dtype, n, k, rows.data(), packed->data(), 0, (n + 15) / 16});
        }
        EXPECT_EQ(zeros, ones) << info.name << " " << n << " rows of " << blocks << " blocks";
      }
    }
  }
}

TEST(PackedMatrix, KeepsTheStoredNumberOfBits) {
  struct Case {
    DType dtype;
    std::size_t bytes;  // of 16 rows x 256 columns
  };
  for (const Case& c :
       {Case{DType::kF32, 16384}, Case{DType::kF16, 8192}, Case{DType::kBF16, 8192},
        Case{DType::kQ4_0, 2304}, Case{DType::kQ4_1, 2560}, Case{DType::kQ5_0, 2816},
        Case{DType::kQ5_1, 3072}, Case{DType::kQ8_0, 4352}, Case{DType::kQ4_K, 2368},
        Case{DType::kQ5_K, 2880}, Case{DType::kQ6_K, 3392}, Case{DType::kQ2_K, 1600},
        Case{DType::kQ3_K, 1856}, Case{DType::kIQ4_NL, 2304}, Case{DType::kMXFP4, 2304}}) {
    EXPECT_EQ(PackedPanelBytes(c.dtype, 256), c.bytes) << NameOf(c.dtype);
    EXPECT_EQ(PackedBytes(c.dtype, 17, 256), 2 * c.bytes) << NameOf(c.dtype);
    EXPECT_EQ(PackedBytes(c.dtype, 0, 256), 0u);
  }
}

TEST(PackedMatrix, PanelsStartAtMultiplesOf64) {
  for (const DTypeInfo& info : AllDTypes()) {
    for (std::size_t blocks = 0; blocks < 5; ++blocks) {
      EXPECT_EQ(PackedPanelBytes(info.dtype, blocks * info.block_elements) % kPackAlignment, 0u);
    }
  }
}

TEST(PackedMatrix, ASubRangeOfPanelsLeavesTheOthersAlone) {
  const std::size_t k = 32;
  Random random(3);
  const std::vector<std::byte> rows = random.Rows(DType::kQ4_1, 64, k);
  const OwnedMatrix whole(DType::kQ4_1, 64, k, rows.data());
  const std::size_t panel_bytes = PackedPanelBytes(DType::kQ4_1, k);
  std::vector<std::byte> parts(4 * panel_bytes, std::byte{0xEE});
  PackPanels({DType::kQ4_1, 64, k, rows.data(), parts.data(), 1, 3});
  EXPECT_EQ(parts[panel_bytes - 1], std::byte{0xEE});
  EXPECT_EQ(parts[3 * panel_bytes], std::byte{0xEE});
  EXPECT_EQ(
      std::memcmp(parts.data() + panel_bytes, whole.view()->data + panel_bytes, 2 * panel_bytes),
      0);
}

TEST(PackedMatrixDeathTest, APartOfABlockIsABug) {
  EXPECT_DEATH((void)PackedPanelBytes(DType::kQ4_K, 255), "k = 255 is not a whole number of Q4_K");
}

}  // namespace
}  // namespace ashlar::kernels
