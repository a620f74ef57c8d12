#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/packed_layout.h"
#include "kernels/prepared_query.h"
#include "kernels/reference/kernels.h"

namespace ashlar::kernels::reference {
namespace {

void EncodeBlock(const float* x, ActivationBlock& out) {
  float greatest = 0.0f;
  bool is_finite = true;
  for (std::size_t c = 0; c < kActivationColumns; ++c) {
    greatest = std::max(greatest, std::abs(x[c]));
    is_finite = is_finite && std::isfinite(x[c]);
  }
  out = {};
  if (!is_finite) {
    out.step = std::numeric_limits<float>::quiet_NaN();
  } else if (greatest > kLeastMagnitude) {
    out.step = greatest / static_cast<float>(kActivationLevels);
  }
  std::int32_t sums[2] = {};
  if (is_finite && out.step != 0.0f) {
    const float inverse = 1.0f / out.step;
    for (std::size_t c = 0; c < kActivationColumns; ++c) {
      out.code[c] = static_cast<std::int8_t>(std::nearbyint(x[c] * inverse));
      sums[c / 16] += out.code[c];
    }
  }
  out.step_sum = out.step * static_cast<float>(sums[0] + sums[1]);
  out.minus_sum = -(sums[0] + sums[1]);
  for (std::size_t half = 0; half < 2; ++half) {
    out.half_step_sum[half] = out.step * static_cast<float>(sums[half]);
    out.minus_half_sum[half] = -sums[half];
  }
}

// Continues the chain of one output over a block of W, against x[i * stride] of its 32 columns.
float Continue(const BlockShape& shape, const BlockFields& fields, const ActivationBlock* x,
               std::size_t stride, float acc) {
  for (std::size_t sub = 0; sub < shape.subs(); ++sub) {
    const std::size_t begin = sub * shape.sub_columns;
    const ActivationBlock& block = x[begin / kActivationColumns * stride];
    const int offset = shape.has_minimum ? 0 : static_cast<int>(shape.offset);
    int products = 0;
    int codes = 0;
    for (std::size_t c = begin; c < begin + shape.sub_columns; ++c) {
      const int code = block.code[c % kActivationColumns];
      products += (static_cast<int>(shape.QOf(fields.code[c])) - offset) * code;
      codes += code;
    }
    const SubScale scale = SubScaleOf(shape, fields, sub);
    acc = std::fma(static_cast<float>(products), scale.d * block.step, acc);
    if (shape.has_minimum) {
      acc = std::fma(scale.m, block.step * static_cast<float>(codes), acc);
    }
  }
  return acc;
}

}  // namespace

void EncodeActivations(const EncodeActivationsArgs& args) {
  for (std::size_t c = 0; c < args.k; c += kActivationColumns) {
    EncodeBlock(args.x + c, args.out[c / kActivationColumns * args.stride]);
  }
}

void MatmulCodes(const MatmulCodesArgs& args) {
  const PackedMatrix& w = *args.w;
  const BlockShape shape = ShapeOf(w.dtype);
  const std::size_t panel_bytes = PackedPanelBytes(w.dtype, w.k);
  const std::size_t end = std::min(args.panel_end * kPanelRows, w.n);
  BlockFields fields;
  for (std::size_t j = args.panel_begin * kPanelRows; j < end; ++j) {
    for (std::size_t r = 0; r < args.rows; ++r) {
      args.y[r * args.y_stride + j] = args.bias != nullptr ? args.bias[j] : 0.0f;
    }
    const std::byte* const panel = w.data + j / kPanelRows * panel_bytes;
    for (std::size_t block = 0; block < w.k / shape.columns; ++block) {
      ReadPackedBlock(shape, {panel, block, j % kPanelRows}, &fields);
      for (std::size_t r = 0; r < args.rows; ++r) {
        const ActivationPlace place = PlaceOfActivations(args.rows, w.k, r);
        const std::size_t first = block * (shape.columns / kActivationColumns);
        float& y = args.y[r * args.y_stride + j];
        y = Continue(shape, fields, args.x + place.first + first * place.stride, place.stride, y);
      }
    }
  }
}

}  // namespace ashlar::kernels::reference
