#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/sum16.h"

namespace ashlar::kernels::reference {
namespace {

float Load(KvFormat format, const std::byte* tile, std::size_t index) {
  if (format == KvFormat::kF32) {
    float value;
    std::memcpy(&value, tile + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, tile + index * sizeof bits, sizeof bits);
  return format == KvFormat::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
}

void Store(KvFormat format, float value, std::byte* tile, std::size_t index) {
  if (format == KvFormat::kF32) {
    std::memcpy(tile + index * sizeof value, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = format == KvFormat::kF16 ? F32ToF16(value) : F32ToBf16(value);
  std::memcpy(tile + index * sizeof bits, &bits, sizeof bits);
}

float Logit(const AttendArgs& args, std::size_t row, std::size_t token) {
  const std::byte* k_tile = args.k_tiles[token / args.block_tokens];
  const std::size_t slot = token % args.block_tokens;
  float logit = 0.0f;
  for (std::size_t c = 0; c < args.head_dim; ++c) {
    const float k = Load(args.format, k_tile, c * args.block_tokens + slot);
    logit = std::fma(args.q[row * args.q_stride + c], k, logit);
  }
  return logit;
}

void AttendRow(const AttendArgs& args, std::size_t row) {
  const std::size_t visible = args.visible[row];
  float p[kSegmentTokens];
  float max = -std::numeric_limits<float>::infinity();
  for (std::size_t t = 0; t < visible; ++t) {
    p[t] = Logit(args, row, t);
    if (p[t] > max) max = p[t];
  }
  max += 0.0f;  // -0 becomes 0
  for (std::size_t t = 0; t < visible; ++t) p[t] = Exp(p[t] - max);
  args.max[row] = max;
  args.sum[row] = Sum16(p, visible);

  float* acc = args.acc + row * args.head_dim;
  for (std::size_t c = 0; c < args.head_dim; ++c) acc[c] = 0.0f;
  for (std::size_t t = 0; t < visible; ++t) {
    const std::byte* v_tile = args.v_tiles[t / args.block_tokens];
    const std::size_t slot = t % args.block_tokens;
    for (std::size_t c = 0; c < args.head_dim; ++c) {
      acc[c] = std::fma(p[t], Load(args.format, v_tile, slot * args.head_dim + c), acc[c]);
    }
  }
}

}  // namespace

void StoreKv(const StoreKvArgs& args) {
  for (std::size_t c = 0; c < args.head_dim; ++c) {
    Store(args.format, args.k[c], args.k_tile, c * args.block_tokens + args.slot);
    Store(args.format, args.v[c], args.v_tile, args.slot * args.head_dim + c);
  }
}

void Attend(const AttendArgs& args) {
  for (std::size_t row = 0; row < args.rows; ++row) AttendRow(args, row);
}

void Merge(const MergeArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const float max = args.from_max[r] > args.max[r] ? args.from_max[r] : args.max[r];
    const float a = Exp(args.max[r] - max);
    const float b = Exp(args.from_max[r] - max);
    args.max[r] = max;
    args.sum[r] = args.sum[r] * a + args.from_sum[r] * b;
    float* acc = args.acc + r * args.head_dim;
    const float* from = args.from_acc + r * args.head_dim;
    for (std::size_t c = 0; c < args.head_dim; ++c) acc[c] = acc[c] * a + from[c] * b;
  }
}

void Finish(const float* acc, const float* sum, std::size_t rows, std::size_t head_dim, float* out,
            std::size_t out_stride) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < head_dim; ++c) {
      out[r * out_stride + c] = acc[r * head_dim + c] / sum[r];
    }
  }
}

const KernelSet& Kernels() {
  static constexpr KernelSet kKernels = {
      .isa = Isa::kReference,
      .matmul = Matmul,
      .rms_norm = RmsNorm,
      .rope_interleaved = RopeInterleaved,
      .rope_half_split = RopeHalfSplit,
      .silu_mul = SiluMul,
      .add = Add,
      .scale = Scale,
      .store_kv = StoreKv,
      .attend = Attend,
      .merge = Merge,
      .finish = Finish,
  };
  return kKernels;
}

}  // namespace ashlar::kernels::reference
