#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/block_format.h"
#include "kernels/dequantize.h"
#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::AlignedFloats;
using testing::OwnedMatrix;
using testing::Random;
using testing::SameBits;

constexpr float kUntouched = -12345.0f;

const KernelSet& Reference() { return KernelsFor(Isa::kReference); }

std::vector<ActivationBlock> Encode(const KernelSet& kernels, const float* x, std::size_t rows,
                                    std::size_t stride, std::size_t k) {
  std::vector<ActivationBlock> blocks(ActivationBlocks(rows, k));
  for (std::size_t r = 0; r < rows; ++r) {
    const ActivationPlace place = PlaceOfActivations(rows, k, r);
    ActivationBlock* const out = blocks.empty() ? nullptr : &blocks[place.first];
    kernels.encode_activations({.x = x + r * stride, .k = k, .out = out, .stride = place.stride});
  }
  return blocks;
}

// Inputs of one problem, and the product by any table.
class Instance {
 public:
  Instance(DType dtype, std::size_t n, std::size_t k, std::size_t rows, std::uint64_t seed = 1)
      : dtype_(dtype),
        n_(n),
        k_(k),
        rows_(rows),
        random_(seed),
        stored_(random_.Rows(dtype, n, k)),
        w_(dtype, n, k, stored_.data()),
        x_(random_.Floats(rows * k)),
        bias_(random_.Floats(n)) {}

  std::size_t panels() const { return w_.view()->panels(); }
  std::size_t y_stride() const { return n_ + 2; }
  float* x_row(std::size_t r) { return x_.data() + r * k_; }
  float bias(std::size_t j) const { return bias_[j]; }

  struct Part {
    std::size_t panel_begin;
    std::size_t panel_end;
    std::size_t row;
    std::size_t rows;
  };
  // y [rows, y_stride]; what no panel of the range covers stays kUntouched.
  std::vector<float> Multiply(const KernelSet& kernels, const Part& part) {
    const auto codes = Encode(kernels, x_row(part.row), part.rows, k_, k_);
    std::vector<float> y(part.rows * y_stride(), kUntouched);
    kernels.matmul_codes({.w = w_.view(),
                          .x = codes.data(),
                          .rows = part.rows,
                          .bias = bias_.data(),
                          .y = y.data(),
                          .y_stride = y_stride(),
                          .panel_begin = part.panel_begin,
                          .panel_end = part.panel_end});
    return y;
  }
  std::vector<float> Multiply(const KernelSet& kernels) {
    return Multiply(kernels, {0, panels(), 0, rows_});
  }

  // W as f32 [n, k].
  std::vector<float> Weights() const {
    std::vector<float> weights(n_ * k_);
    for (std::size_t j = 0; j < n_; ++j) {
      DequantizeRow(dtype_, stored_.data() + j * *RowBytes(dtype_, k_), k_, &weights[j * k_]);
    }
    return weights;
  }

 private:
  DType dtype_;
  std::size_t n_;
  std::size_t k_;
  std::size_t rows_;
  Random random_;
  std::vector<std::byte> stored_;
  OwnedMatrix w_;
  std::vector<float> x_;
  std::vector<float> bias_;
};

std::vector<DType> QuantisedDTypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : AllDTypes()) {
    if (IsQuantised(info.dtype)) dtypes.push_back(info.dtype);
  }
  return dtypes;
}
std::string NameOfCase(const ::testing::TestParamInfo<DType>& test) {
  return std::string(NameOf(test.param));
}

class MatmulCodes : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, MatmulCodes, ::testing::ValuesIn(QuantisedDTypes()), NameOfCase);

TEST_P(MatmulCodes, EqualsTheReferenceForAnyNumberOfRowsAndPanels) {
  const std::size_t k = InfoOf(GetParam()).block_elements == 256 ? 256 : 96;
  for (const std::size_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65}) {
    Instance instance(GetParam(), 16 * (rows % 3) + 1 + rows % 16, k, rows, rows);
    const std::vector<float> want = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      ASSERT_TRUE(SameBits(instance.Multiply(KernelsFor(isa)), want))
          << NameOf(isa) << ", " << rows << " rows";
    }
  }
}

TEST_P(MatmulCodes, EqualsTheReferenceForAnyNumberOfColumns) {
  const std::size_t block = InfoOf(GetParam()).block_elements;
  for (std::size_t blocks = 0; blocks <= 4; ++blocks) {
    for (const std::size_t rows : {1, 5}) {
      Instance instance(GetParam(), 17, blocks * block, rows);
      const std::vector<float> want = instance.Multiply(Reference());
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameBits(instance.Multiply(KernelsFor(isa)), want))
            << NameOf(isa) << ", k = " << blocks * block << ", " << rows << " rows";
      }
    }
  }
}

std::size_t ScaleAt(DType dtype) {  // in a block
  switch (dtype) {
    case DType::kQ6_K:
      return 208;
    case DType::kQ2_K:
      return 80;
    case DType::kQ3_K:
      return 108;
    default:
      return 0;
  }
}

// All codes at their greatest, all q at theirs: no sum of products may saturate or wrap.
TEST_P(MatmulCodes, TheGreatestProductsAreExact) {
  const DTypeInfo& info = InfoOf(GetParam());
  const std::size_t k = info.block_elements;
  std::vector<std::byte> stored(16 * info.block_bytes, std::byte{0xFF});
  const std::uint16_t one = 0x3C00;  // f16
  for (std::size_t j = 0; j < 16; ++j) {
    std::byte* const row = stored.data() + j * info.block_bytes;
    const std::size_t at = ScaleAt(GetParam());
    std::memcpy(row + at, &one, sizeof one);
    if (ShapeOf(GetParam()).has_minimum) std::memcpy(row + at + 2, &one, sizeof one);
    if (GetParam() == DType::kMXFP4) row[0] = std::byte{128}, row[1] = std::byte{0x7F};
    if (GetParam() == DType::kQ8_0) {
      std::fill_n(row + 2, 32, j % 2 == 0 ? std::byte{0x80} : std::byte{0x7F});
    }
  }
  const OwnedMatrix w(GetParam(), 16, k, stored.data());
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> x(k, 127.0f * sign);
    std::vector<float> want(16);
    for (const Isa isa : RunnableIsas()) {
      std::vector<float> y(16);
      const auto codes = Encode(KernelsFor(isa), x.data(), 1, k, k);
      ASSERT_EQ(codes[0].code[5], 127 * static_cast<int>(sign));
      KernelsFor(isa).matmul_codes({.w = w.view(),
                                    .x = codes.data(),
                                    .rows = 1,
                                    .bias = nullptr,
                                    .y = y.data(),
                                    .y_stride = 16,
                                    .panel_begin = 0,
                                    .panel_end = 1});
      if (isa == Isa::kReference) want = y;
      ASSERT_TRUE(SameBits(y, want)) << NameOf(isa);
    }
    std::vector<float> weights(k);
    DequantizeRow(GetParam(), stored.data(), k, weights.data());
    double exact = 0.0;
    for (const float weight : weights) exact += double{weight} * 127.0 * double{sign};
    EXPECT_EQ(want[0], exact);  // all terms are integers: no rounding
  }
}

// The error is that of the codes: at most half a step of each column's block.
TEST_P(MatmulCodes, IsAsCloseAsItsCodes) {
  const std::size_t k = 512;
  Instance instance(GetParam(), 20, k, 2);
  const std::vector<float> weights = instance.Weights();
  const std::vector<float> y = instance.Multiply(KernelsFor(BestIsa()));
  for (std::size_t r = 0; r < 2; ++r) {
    const auto codes = Encode(Reference(), instance.x_row(r), 1, k, k);
    for (std::size_t j = 0; j < 20; ++j) {
      double want = instance.bias(j);
      double error = 0.0;
      double magnitude = 0.0;
      for (std::size_t c = 0; c < k; ++c) {
        const double weight = weights[j * k + c];
        want += weight * instance.x_row(r)[c];
        error += std::abs(weight) * codes[c / 32].step * 0.5;
        magnitude += std::abs(weight * instance.x_row(r)[c]);
      }
      // Beside it the roundings of the chain, whose terms with minima are larger than their sums.
      EXPECT_NEAR(y[r * instance.y_stride() + j], want, error + 64 * magnitude * k * 0x1p-24);
    }
  }
}

TEST(MatmulOfCodes, ARowsResultDoesNotDependOnTheOtherRows) {
  Instance instance(DType::kQ4_1, 40, 64, 41);
  for (const Isa isa : RunnableIsas()) {
    const KernelSet& kernels = KernelsFor(isa);
    const std::vector<float> together = instance.Multiply(kernels);
    Random random(4);
    for (int round = 0; round < 20; ++round) {
      const std::size_t row = random.Below(41);
      const std::size_t rows = 1 + random.Below(41 - row);
      const std::vector<float> apart =
          instance.Multiply(kernels, {0, instance.panels(), row, rows});
      const float* const first = together.data() + row * instance.y_stride();
      ASSERT_TRUE(SameBits(apart, {first, apart.size()})) << NameOf(isa) << row << "+" << rows;
    }
  }
}

// More rows than stay in level 2 at a time.
TEST(MatmulOfCodes, RowsBeyondTheCacheAreTheSame) {
  const std::size_t k = 8192;
  Instance instance(DType::kQ8_0, 17, k, 37);
  const std::vector<float> together = instance.Multiply(KernelsFor(BestIsa()));
  for (const std::size_t row : {0, 31, 32, 36}) {
    const std::vector<float> apart = instance.Multiply(Reference(), {0, 2, row, 1});
    const float* const first = together.data() + row * instance.y_stride();
    ASSERT_TRUE(SameBits(apart, {first, apart.size()})) << row;
  }
}

TEST(MatmulOfCodes, WritesOnlyTheRowsOfItsPanels) {
  for (const std::size_t rows : {1, 3}) {
    Instance instance(DType::kQ8_0, 60, 32, rows);
    const std::vector<float> all = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      for (std::size_t begin = 0; begin <= instance.panels(); ++begin) {
        for (std::size_t end = begin; end <= instance.panels(); ++end) {
          const std::vector<float> y = instance.Multiply(KernelsFor(isa), {begin, end, 0, rows});
          for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t j = i % instance.y_stride();
            const bool is_covered = j >= begin * 16 && j < end * 16;
            ASSERT_TRUE(SameBits(y[i], is_covered ? all[i] : kUntouched))
                << NameOf(isa) << " panels " << begin << " to " << end << ", element " << i;
          }
        }
      }
    }
  }
}

TEST(MatmulOfCodes, ANonFiniteInputMakesItsRowNaNAndNoOther) {
  Instance instance(DType::kQ4_0, 16, 64, 34);  // two groups of rows
  const std::vector<float> finite = instance.Multiply(Reference());
  instance.x_row(1)[40] = std::numeric_limits<float>::infinity();
  instance.x_row(33)[5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> want = instance.Multiply(Reference());
  for (const Isa isa : RunnableIsas()) {
    const std::vector<float> y = instance.Multiply(KernelsFor(isa));
    ASSERT_TRUE(SameBits(y, want)) << NameOf(isa);
  }
  for (std::size_t r = 0; r < 34; ++r) {
    for (std::size_t j = 0; j < 16; ++j) {
      const float value = want[r * instance.y_stride() + j];
      if (r == 1 || r == 33) {
        ASSERT_TRUE(std::isnan(value));
      } else {
        ASSERT_TRUE(SameBits(value, finite[r * instance.y_stride() + j]));
      }
    }
  }
}

TEST(Activations, EveryTableGivesTheSameBlocks) {
  Random random(9);
  std::vector<float> x = random.Floats(32 * 12);
  const auto set_block = [&](std::size_t block, float value) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(32 * block), 32, value);
  };
  set_block(0, 0.0f);
  set_block(1, 0x1p-101f);  // too small to have codes
  set_block(2, -0.0f);
  set_block(3, std::numeric_limits<float>::max());
  set_block(4, -1.0f);
  x[32 * 5 + 31] = std::numeric_limits<float>::quiet_NaN();
  x[32 * 6] = -std::numeric_limits<float>::infinity();
  for (std::size_t c = 0; c < 32; ++c) x[32 * 7 + c] = (static_cast<float>(c) - 15.5f);  // ties
  x[32 * 7] = 127.0f;
  set_block(8, 0x1.1p-100f);
  for (std::size_t c = 0; c < 32; ++c) x[32 * 9 + c] *= std::exp2(static_cast<float>(c) - 16.0f);
  const auto want = Encode(Reference(), x.data(), 1, x.size(), x.size());
  EXPECT_EQ(want[0].step, 0.0f);
  EXPECT_EQ(want[1].step, 0.0f);
  EXPECT_EQ(want[4].code[7], -127);
  EXPECT_EQ(want[4].minus_sum, 32 * 127);
  EXPECT_TRUE(std::isnan(want[5].step) && std::isnan(want[6].step));
  EXPECT_EQ(want[7].step, 1.0f);
  EXPECT_EQ(want[7].code[16], 0);  // 0.5
  EXPECT_EQ(want[7].code[17], 2);  // 1.5
  EXPECT_GT(want[8].step, 0.0f);
  for (const Isa isa : RunnableIsas()) {
    const auto got = Encode(KernelsFor(isa), x.data(), 1, x.size(), x.size());
    for (std::size_t b = 0; b < want.size(); ++b) {
      EXPECT_EQ(std::memcmp(got[b].code, want[b].code, 32), 0) << NameOf(isa) << " " << b;
      EXPECT_TRUE(SameBits(got[b].step, want[b].step)) << NameOf(isa) << " " << b;
      EXPECT_TRUE(SameBits(got[b].step_sum, want[b].step_sum)) << NameOf(isa) << " " << b;
      EXPECT_TRUE(SameBits(got[b].half_step_sum, want[b].half_step_sum)) << NameOf(isa) << b;
      EXPECT_EQ(got[b].minus_sum, want[b].minus_sum);
      EXPECT_EQ(got[b].minus_half_sum[0], want[b].minus_half_sum[0]);
      EXPECT_EQ(got[b].minus_half_sum[1], want[b].minus_half_sum[1]);
    }
  }
}

TEST(Activations, CodesAreWithinHalfAStep) {
  Random random(10);
  const std::vector<float> x = random.Floats(32 * 64, 3.0f);
  const auto blocks = Encode(KernelsFor(BestIsa()), x.data(), 1, x.size(), x.size());
  for (std::size_t c = 0; c < x.size(); ++c) {
    const ActivationBlock& block = blocks[c / 32];
    EXPECT_LE(std::abs(x[c] - static_cast<float>(block.code[c % 32]) * block.step),
              block.step * 0.5001f);
  }
}

}  // namespace
}  // namespace ashlar::kernels
