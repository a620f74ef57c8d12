#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/packed_layout.h"
#include "kernels/reference/kernels.h"

namespace ashlar::kernels::reference {
namespace {

float PlainWeight(DType dtype, const std::byte* element) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return dtype == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
}

// The chain over `columns` weights: continues y += w . x.
void Continue(const float* weights, std::size_t columns, const float* x, float* y) {
  for (std::size_t c = 0; c < columns; ++c) *y = std::fma(weights[c], x[c], *y);
}

// Calls visit(first column, weights, count) for pieces of row j, in order of column.
template <typename Visit>
void ForWeightsOfRow(const PackedMatrix& w, std::size_t j, Visit visit) {
  const std::byte* panel = w.data + j / kPanelRows * PackedPanelBytes(w.dtype, w.k);
  const std::size_t lane = j % kPanelRows;
  float weights[kMaxBlockColumns];
  if (!IsQuantised(w.dtype)) {
    const std::size_t bytes = InfoOf(w.dtype).block_bytes;
    for (std::size_t c = 0; c < w.k; ++c) {
      weights[0] = PlainWeight(w.dtype, panel + (c * kPanelRows + lane) * bytes);
      visit(c, weights, 1);
    }
    return;
  }
  const BlockShape shape = ShapeOf(w.dtype);
  BlockFields fields;
  for (std::size_t begin = 0; begin < w.k; begin += shape.columns) {
    ReadPackedBlock(shape, {panel, begin / shape.columns, lane}, &fields);
    for (std::size_t c = 0; c < shape.columns; ++c) {
      const SubScale scale = SubScaleOf(shape, fields, c / shape.sub_columns);
      weights[c] = std::fma(static_cast<float>(shape.QOf(fields.code[c])), scale.d, scale.m);
    }
    visit(begin, weights, shape.columns);
  }
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  const std::size_t end = std::min(args.panel_end * kPanelRows, args.w->n);
  for (std::size_t j = args.panel_begin * kPanelRows; j < end; ++j) {
    for (std::size_t r = 0; r < args.rows; ++r) {
      args.y[r * args.y_stride + j] = args.bias != nullptr ? args.bias[j] : 0.0f;
    }
    ForWeightsOfRow(*args.w, j, [&](std::size_t c, const float* weights, std::size_t columns) {
      for (std::size_t r = 0; r < args.rows; ++r) {
        Continue(weights, columns, args.x + r * args.x_stride + c, args.y + r * args.y_stride + j);
      }
    });
  }
}

}  // namespace ashlar::kernels::reference
