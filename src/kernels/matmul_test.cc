#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

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

struct Problem {
  DType dtype = DType::kF32;
  std::size_t n = 1;
  std::size_t k = 1;
  std::size_t rows = 1;
  bool has_bias = false;
  std::size_t misalignment = 0;  // of x, bias and y, in floats
  std::uint64_t seed = 1;
};

// Inputs of one problem, and the product by any table, any cut.
class Instance {
 public:
  explicit Instance(const Problem& problem)
      : problem_(problem),
        random_(problem.seed),
        stored_(random_.Rows(problem.dtype, problem.n, problem.k)),
        w_(problem.dtype, problem.n, problem.k, stored_.data()),
        x_stride_(problem.k + 3),
        x_(problem.rows * x_stride_ + 1, problem.misalignment),
        bias_(problem.n, problem.misalignment) {
    for (float& value : x_.span()) value = random_.Unit();
    for (float& value : bias_.span()) value = random_.Unit();
  }

  std::size_t panels() const { return w_.view()->panels(); }
  std::size_t y_stride() const { return problem_.n + 2; }
  float* x_row(std::size_t r) { return x_.data() + r * x_stride_; }

  // y [rows, y_stride] of rows [row, row + rows); what no panel of the range covers stays
  // kUntouched.
  std::vector<float> Multiply(const KernelSet& kernels, std::size_t panel_begin,
                              std::size_t panel_end, std::size_t row, std::size_t rows) {
    AlignedFloats y(rows * y_stride() + 1, problem_.misalignment);
    for (float& value : y.span()) value = kUntouched;
    AlignedFloats scratch(MatmulScratchFloats(problem_.k));
    kernels.matmul({.w = w_.view(),
                    .x = x_row(row),
                    .rows = rows,
                    .x_stride = x_stride_,
                    .bias = problem_.has_bias ? bias_.data() : nullptr,
                    .y = y.data(),
                    .y_stride = y_stride(),
                    .panel_begin = panel_begin,
                    .panel_end = panel_end,
                    .scratch = scratch.data()});
    return {y.span().begin(), y.span().end()};
  }
  std::vector<float> Multiply(const KernelSet& kernels) {
    return Multiply(kernels, 0, panels(), 0, problem_.rows);
  }

  // W as f32 [n, k].
  std::vector<float> Weights() const {
    std::vector<float> weights(problem_.n * problem_.k);
    const std::size_t row_bytes = *RowBytes(problem_.dtype, problem_.k);
    for (std::size_t j = 0; j < problem_.n; ++j) {
      DequantizeRow(problem_.dtype, stored_.data() + j * row_bytes, problem_.k,
                    weights.data() + j * problem_.k);
    }
    return weights;
  }
  float bias(std::size_t j) { return problem_.has_bias ? bias_.data()[j] : 0.0f; }

 private:
  Problem problem_;
  Random random_;
  std::vector<std::byte> stored_;
  OwnedMatrix w_;
  std::size_t x_stride_;
  AlignedFloats x_;
  AlignedFloats bias_;
};

const KernelSet& Reference() { return KernelsFor(Isa::kReference); }

std::vector<DType> EveryDType() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : AllDTypes()) dtypes.push_back(info.dtype);
  return dtypes;
}
std::string NameOfCase(const ::testing::TestParamInfo<DType>& test) {
  return std::string(NameOf(test.param));
}

class MatmulOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, MatmulOfEveryDType, ::testing::ValuesIn(EveryDType()), NameOfCase);

TEST_P(MatmulOfEveryDType, EqualsTheReferenceForAnyNumberOfRowsAndPanels) {
  const std::size_t k = InfoOf(GetParam()).block_elements == 256 ? 256 : 96;
  for (std::size_t rows = 0; rows <= 17; ++rows) {
    const std::size_t n =
        16 * (rows % 7) + 1 + rows % 16;  // 1 to 7 panels, the last one partly filled
    Instance instance({.dtype = GetParam(),
                       .n = n,
                       .k = k,
                       .rows = rows,
                       .has_bias = rows % 2 == 0,
                       .misalignment = rows % 4,
                       .seed = rows});
    const std::vector<float> want = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      ASSERT_TRUE(SameBits(instance.Multiply(KernelsFor(isa)), want))
          << NameOf(isa) << ", " << rows << " rows, n = " << n;
    }
  }
}

TEST_P(MatmulOfEveryDType, EqualsTheReferenceForAnyNumberOfColumns) {
  const std::size_t block = InfoOf(GetParam()).block_elements;
  for (std::size_t blocks = 0; blocks <= (block == 1 ? 37 : 3); ++blocks) {
    for (const std::size_t rows : {1, 5}) {
      Instance instance({.dtype = GetParam(), .n = 33, .k = blocks * block, .rows = rows});
      const std::vector<float> want = instance.Multiply(Reference());
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameBits(instance.Multiply(KernelsFor(isa)), want))
            << NameOf(isa) << ", k = " << blocks * block << ", " << rows << " rows";
      }
    }
  }
}

TEST_P(MatmulOfEveryDType, ChainsGoOnAcrossRangesOfColumns) {
  // More columns than the scratch holds at once: the sums pause in y.
  for (const std::size_t k : {kMatmulColumns, kMatmulColumns + 256, 2 * kMatmulColumns + 512}) {
    Instance instance({.dtype = GetParam(), .n = 21, .k = k, .rows = 4, .has_bias = true});
    const std::vector<float> want = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      ASSERT_TRUE(SameBits(instance.Multiply(KernelsFor(isa)), want)) << NameOf(isa) << " " << k;
    }
  }
}

TEST_P(MatmulOfEveryDType, IsCloseToF64) {
  const std::size_t k = 512;
  const std::size_t rows = 2;
  Instance instance({.dtype = GetParam(), .n = 20, .k = k, .rows = rows, .has_bias = true});
  const std::vector<float> weights = instance.Weights();
  const std::vector<float> y = instance.Multiply(KernelsFor(BestIsa()));
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < 20; ++j) {
      double want = instance.bias(j);
      double magnitude = std::abs(want);
      for (std::size_t c = 0; c < k; ++c) {
        const double product = static_cast<double>(weights[j * k + c]) * instance.x_row(r)[c];
        want += product;
        magnitude += std::abs(product);
      }
      // A chain of k roundings is off by at most k / 2 ulp of the sum of magnitudes.
      EXPECT_NEAR(y[r * instance.y_stride() + j], want, magnitude * k * 0x1p-24);
    }
  }
}

TEST(Matmul, ARowsResultDoesNotDependOnTheOtherRows) {
  Instance instance({.dtype = DType::kQ4_1, .n = 70, .k = 64, .rows = 29});
  for (const Isa isa : RunnableIsas()) {
    const KernelSet& kernels = KernelsFor(isa);
    const std::vector<float> together = instance.Multiply(kernels);
    Random random(4);
    for (int round = 0; round < 20; ++round) {
      const std::size_t row = random.Below(29);
      const std::size_t rows = 1 + random.Below(29 - row);
      std::vector<float> apart = instance.Multiply(kernels, 0, instance.panels(), row, rows);
      apart.pop_back();
      const auto* first = together.data() + row * instance.y_stride();
      ASSERT_TRUE(SameBits(apart, {first, apart.size()})) << NameOf(isa) << row << "+" << rows;
    }
  }
}

TEST(Matmul, WritesOnlyTheRowsOfItsPanels) {
  for (const std::size_t rows : {1, 3, 4, 14}) {
    Instance instance({.dtype = DType::kQ8_0, .n = 100, .k = 32, .rows = rows});
    const std::vector<float> all = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      for (std::size_t begin = 0; begin <= instance.panels(); ++begin) {
        for (std::size_t end = begin; end <= instance.panels(); ++end) {
          const std::vector<float> y = instance.Multiply(KernelsFor(isa), begin, end, 0, rows);
          for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t j = i % instance.y_stride();
            const bool covered = j >= begin * 16 && j < end * 16;
            ASSERT_TRUE(SameBits(y[i], covered ? all[i] : kUntouched))
                << NameOf(isa) << " panels " << begin << " to " << end << ", element " << i;
          }
        }
      }
    }
  }
}

TEST(Matmul, ANonFiniteInputStaysInItsRow) {
  for (const std::size_t rows : {3, 13}) {
    Instance instance({.dtype = DType::kQ4_0, .n = 16, .k = 64, .rows = rows});
    const std::vector<float> finite = instance.Multiply(Reference());
    instance.x_row(1)[40] = std::numeric_limits<float>::infinity();
    instance.x_row(2)[5] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> want = instance.Multiply(Reference());
    for (const Isa isa : RunnableIsas()) {
      const std::vector<float> y = instance.Multiply(KernelsFor(isa));
      ASSERT_TRUE(SameBits(y, want)) << NameOf(isa);
      ASSERT_TRUE(SameBits({y.data(), 16}, {finite.data(), 16}));
      ASSERT_TRUE(std::isnan(y[2 * instance.y_stride()]));
    }
  }
}

}  // namespace
}  // namespace ashlar::kernels
