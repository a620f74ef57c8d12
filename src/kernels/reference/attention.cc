#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "kernels/prepared_query.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/raw_tile.h"
#include "kernels/reference/sum16.h"
#include "kernels/tile_layout.h"

namespace ashlar::kernels {

std::size_t PreparedBytes(KvCodecKind key_kind, std::size_t rows, std::size_t head_dim) {
  if (!InUnits(key_kind) || IsAsymmetric(key_kind)) return 0;
  return rows * PreparedLayout(key_kind, head_dim).row_bytes;
}

namespace reference {
namespace {

// Numbers as integers: value[i] is about integer[i] * step.
struct Integers {
  float step;
  std::array<int, std::max(kSegmentTokens, kMaxHeadDim + kUnitChannels)> integer;
};

void MakeIntegers(const float* values, std::size_t count, int levels, Integers& out) {
  float greatest = 0.0f;
  bool is_finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, std::abs(values[i]));
    is_finite = is_finite && std::isfinite(values[i]);
  }
  const bool is_zero = greatest <= kLeastMagnitude || !is_finite;
  out.step = is_zero ? 0.0f : greatest / static_cast<float>(levels);
  const float inverse = is_zero ? 0.0f : 1.0f / out.step;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = is_zero ? 0.0f : values[i] * inverse;
    out.integer[i] = std::clamp(static_cast<int>(std::nearbyint(x)), -levels, levels);
  }
  if (!is_finite) out.step = std::numeric_limits<float>::quiet_NaN();
}

class Segment {
 public:
  explicit Segment(const AttendArgs& args) : args_(args), units_(ChannelUnits(args.head_dim)) {}

  void AttendRow(std::size_t row);

 private:
  std::size_t TokensOf(std::size_t row) const {
    return args_.sealed + (args_.own_k == nullptr ? 0 : args_.own_visible[row]);
  }
  bool Sees(std::size_t row, std::size_t token) const {
    const std::size_t first = args_.first == nullptr ? 0 : args_.first[row];
    return token >= args_.begin && token >= first && token < args_.limit;
  }
  const std::byte* KTile(std::size_t t) const { return args_.k_tiles[t / args_.block_tokens]; }
  // Scale or minimum of V.
  float ValueScale(std::size_t t, std::size_t channel, std::size_t offset) const {
    const std::byte* const tile = ValueTile(t);
    const std::size_t dim = ValueTileDim();
    const std::size_t index =
        ScaleIndex(args_.value_kind, ValueRole(), dim, t % args_.block_tokens, channel) + offset;
    return LoadHalf(tile + CodeBytes(args_.value_kind, dim, args_.block_tokens) + 2 * index);
  }
  bool IsLatent() const { return args_.is_latent; }
  KvRole ValueRole() const { return IsLatent() ? KvRole::kKey : KvRole::kValue; }
  std::size_t ValueTileDim() const { return IsLatent() ? args_.head_dim : args_.value_dim; }
  const std::byte* ValueTile(std::size_t t) const {
    return IsLatent() ? KTile(t) : args_.v_tiles[t / args_.block_tokens];
  }

  float OwnLogit(std::size_t row, std::size_t token) const;
  float SealedLogit(std::size_t row, std::size_t token);
  float IntegerLogit(std::size_t row, std::size_t token) const;
  float ChannelScaledLogit(std::size_t row, std::size_t token);
  float Value(std::size_t token, std::size_t channel) const;
  void AccumulateInOrder(std::size_t row, std::size_t from, float* acc) const;
  void AccumulateLatent(std::size_t row, float* acc) const;
  void AccumulateIntegers(float* acc) const;

  const AttendArgs& args_;
  std::size_t units_;
  std::array<float, kSegmentTokens> p_ = {};  // logits, then probabilities, of the row at hand
  Integers integers_ = {};                    // of the row and the block at hand (kc4, kc2)
  const std::byte* integers_tile_ = nullptr;
  std::size_t integers_row_ = 0;
  float offset_ = 0.0f;
};

float Segment::OwnLogit(std::size_t row, std::size_t token) const {
  float logit = 0.0f;
  for (std::size_t c = 0; c < args_.head_dim; ++c) {
    const float k = LoadRaw(args_.own_key_kind, args_.own_k, c * args_.block_tokens + token);
    logit = std::fma(args_.q[row * args_.q_stride + c], k, logit);
  }
  return logit;
}

float Segment::SealedLogit(std::size_t row, std::size_t token) {
  if (IsAsymmetric(args_.key_kind)) return ChannelScaledLogit(row, token);
  if (InUnits(args_.key_kind)) return IntegerLogit(row, token);
  const bool is_fp8 = args_.key_kind == KvCodecKind::kFp8;
  const std::byte* const tile = KTile(token);
  float logit = 0.0f;
  for (std::size_t c = 0; c < args_.head_dim; ++c) {
    const std::size_t index = c * args_.block_tokens + token % args_.block_tokens;
    const float k = is_fp8 ? E4m3ToF32(static_cast<std::uint8_t>(tile[index]))
                           : LoadRaw(args_.key_kind, tile, index);
    logit = std::fma(args_.q[row * args_.q_stride + c], k, logit);
  }
  if (!is_fp8) return logit;
  float scale;
  std::memcpy(&scale, tile + args_.head_dim * args_.block_tokens, sizeof scale);
  return logit * scale;
}

float Segment::IntegerLogit(std::size_t row, std::size_t token) const {
  const PreparedLayout layout(args_.key_kind, args_.head_dim);
  const std::byte* const prepared = args_.prepared + row * layout.row_bytes;
  const auto digit = [&](std::size_t plane, std::size_t c) {
    return int{static_cast<std::int8_t>(prepared[plane * layout.channels + c])};
  };
  const std::byte* const tile = KTile(token);
  const std::byte* const scales =
      tile + CodeBytes(args_.key_kind, args_.head_dim, args_.block_tokens);
  const std::size_t slot = token % args_.block_tokens;
  float f = 0.0f;
  for (std::size_t b = 0; b < units_; ++b) {
    int sum = 0;
    for (std::size_t c = b * kUnitChannels; c < (b + 1) * kUnitChannels; ++c) {
      const int code = CodeAt(args_.key_kind, KvRole::kKey, tile, args_.head_dim, slot, c);
      const int x = layout.digits == 2 ? 256 * digit(0, c) + digit(1, c) : digit(0, c);
      sum += (LevelOf(args_.key_kind, code) - ZeroOf(args_.key_kind)) * x;
    }
    const std::size_t index =
        ScaleIndex(args_.key_kind, KvRole::kKey, args_.head_dim, slot, b * kUnitChannels);
    f = std::fma(static_cast<float>(sum), LoadHalf(scales + 2 * index), f);
  }
  float step;
  std::memcpy(&step, prepared + layout.step_at(), sizeof step);
  return f * step;
}

float Segment::ChannelScaledLogit(std::size_t row, std::size_t token) {
  const std::byte* const tile = KTile(token);
  const std::byte* const scales =
      tile + CodeBytes(args_.key_kind, args_.head_dim, args_.block_tokens);
  const float* const q = args_.q + row * args_.q_stride;
  if (tile != integers_tile_ || row != integers_row_) {
    integers_tile_ = tile;
    integers_row_ = row;
    std::array<float, kMaxHeadDim> scaled;
    offset_ = 0.0f;
    for (std::size_t c = 0; c < args_.head_dim; ++c) {
      scaled[c] = q[c] * LoadHalf(scales + 2 * c);
      const std::size_t min_index = c + MinOffset(KvRole::kKey, args_.head_dim);
      offset_ = std::fma(q[c], LoadHalf(scales + 2 * min_index), offset_);
    }
    MakeIntegers(scaled.data(), args_.head_dim, QueryLevels(args_.key_kind), integers_);
  }
  int sum = 0;
  for (std::size_t c = 0; c < args_.head_dim; ++c) {
    sum +=
        CodeAt(args_.key_kind, KvRole::kKey, tile, args_.head_dim, token % args_.block_tokens, c) *
        integers_.integer[c];
  }
  return std::fma(static_cast<float>(sum), integers_.step, offset_);
}

// V of a raw or fp8 token without its scale, of any kind when it is read from K.
float Segment::Value(std::size_t token, std::size_t channel) const {
  if (token >= args_.sealed) {
    const std::size_t own = token - args_.sealed;
    return IsLatent() ? LoadRaw(args_.own_key_kind, args_.own_k, channel * args_.block_tokens + own)
                      : LoadRaw(args_.own_value_kind, args_.own_v, own * args_.value_dim + channel);
  }
  const std::size_t slot = token % args_.block_tokens;
  const std::byte* const tile = ValueTile(token);
  if (args_.value_kind == KvCodecKind::kFp8) {
    const std::size_t index =
        IsLatent() ? channel * args_.block_tokens + slot : slot * args_.value_dim + channel;
    return E4m3ToF32(static_cast<std::uint8_t>(tile[index]));
  }
  if (!InUnits(args_.value_kind)) {
    return DecodeValue(args_.value_kind, ValueRole(), tile, ValueTileDim(), args_.block_tokens,
                       slot, channel);
  }
  const int code = CodeAt(args_.value_kind, ValueRole(), tile, ValueTileDim(), slot, channel);
  return static_cast<float>(LevelOf(args_.value_kind, code) - ZeroOf(args_.value_kind));
}

void Segment::AccumulateInOrder(std::size_t row, std::size_t from, float* acc) const {
  for (std::size_t t = from; t < TokensOf(row); ++t) {
    float weight = p_[t];
    if (t < args_.sealed && args_.value_kind == KvCodecKind::kFp8) {
      float scale;
      std::memcpy(&scale, ValueTile(t) + ValueTileDim() * args_.block_tokens, sizeof scale);
      weight *= scale;
    }
    for (std::size_t c = 0; c < args_.value_dim; ++c) {
      acc[c] = std::fma(weight, Value(t, c), acc[c]);
    }
  }
}

void Segment::AccumulateLatent(std::size_t row, float* acc) const {
  for (std::size_t c = 0; c < args_.value_dim; ++c) {
    float lanes[16] = {};
    for (std::size_t t = args_.begin; t < TokensOf(row); ++t) {
      float weight = p_[t];
      if (t < args_.sealed && args_.value_kind == KvCodecKind::kFp8) {
        float scale;
        std::memcpy(&scale, ValueTile(t) + ValueTileDim() * args_.block_tokens, sizeof scale);
        weight *= scale;
      } else if (t < args_.sealed && InUnits(args_.value_kind)) {
        weight *= ValueScale(t, c, 0);
      }
      lanes[t % 16] = std::fma(weight, Value(t, c), lanes[t % 16]);
    }
    acc[c] = Fold16(lanes);
  }
}

void Segment::AccumulateIntegers(float* acc) const {
  Integers y = {};
  for (std::size_t b = 0; b < ChannelUnits(args_.value_dim); ++b) {
    std::array<float, kSegmentTokens> weight = {};
    std::array<float, kSegmentTokens> least = {};
    const std::size_t channel = b * kUnitChannels;
    for (std::size_t t = args_.begin; t < args_.sealed; ++t) {
      weight[t] = p_[t] * ValueScale(t, channel, 0);
      if (IsAsymmetric(args_.value_kind)) {
        least[t] = p_[t] * ValueScale(t, channel, MinOffset(KvRole::kValue, args_.value_dim));
      }
    }
    MakeIntegers(weight.data(), args_.sealed, kWeightLevels, y);
    const float offset = IsAsymmetric(args_.value_kind) ? Sum16(least.data(), args_.sealed) : 0.0f;
    for (std::size_t c = channel; c < std::min(channel + kUnitChannels, args_.value_dim); ++c) {
      int sum = 0;
      for (std::size_t t = args_.begin; t < args_.sealed; ++t) {
        sum += static_cast<int>(Value(t, c)) * y.integer[t];
      }
      acc[c] = std::fma(static_cast<float>(sum), y.step, offset);
    }
  }
}

float Tanh(float x) { return 1.0f - 2.0f / (Exp(2.0f * x) + 1.0f); }

void Segment::AttendRow(std::size_t row) {
  const std::size_t tokens = TokensOf(row);
  float max = std::numeric_limits<float>::lowest();
  for (std::size_t t = args_.begin; t < tokens; ++t) {
    float logit = t < args_.sealed ? SealedLogit(row, t) : OwnLogit(row, t - args_.sealed);
    if (args_.softcap > 0.0f) logit = args_.softcap * Tanh(logit / args_.softcap);
    p_[t] = logit;
    if (args_.logits != nullptr) args_.logits[row * kSegmentTokens + t] = logit;
    if (Sees(row, t) && logit > max) max = logit;
  }
  max += 0.0f;  // -0 becomes 0
  for (std::size_t t = 0; t < tokens; ++t) {
    p_[t] = Sees(row, t) ? Exp(p_[t] - max) : 0.0f;
  }
  args_.max[row] = max;
  args_.sum[row] = Sum16(p_.data(), tokens);

  float* const acc = args_.acc + row * args_.value_dim;
  std::fill_n(acc, args_.value_dim, 0.0f);
  if (IsLatent()) return AccumulateLatent(row, acc);
  const bool has_units = InUnits(args_.value_kind) && args_.sealed > 0;
  if (has_units) AccumulateIntegers(acc);
  AccumulateInOrder(row, has_units ? args_.sealed : args_.begin, acc);
}

}  // namespace

bool StoreKv(const StoreKvArgs& args) {
  bool is_finite = true;
  for (std::size_t c = 0; c < args.head_dim; ++c) {
    const std::size_t index = c * args.block_tokens + args.slot;
    is_finite &= std::isfinite(StoreRaw(args.key_kind, args.k[c], args.k_tile, index));
  }
  for (std::size_t c = 0; c < args.value_dim; ++c) {
    const std::size_t index = args.slot * args.value_dim + c;
    is_finite &= std::isfinite(StoreRaw(args.value_kind, args.v[c], args.v_tile, index));
  }
  return is_finite;
}

void Prepare(const PrepareArgs& args) {
  if (PreparedBytes(args.key_kind, 1, args.head_dim) == 0) return;
  const PreparedLayout layout(args.key_kind, args.head_dim);
  for (std::size_t row = 0; row < args.rows; ++row) {
    std::byte* const out = args.prepared + row * layout.row_bytes;
    std::memset(out, 0, layout.row_bytes);
    Integers x = {};
    MakeIntegers(args.q + row * args.q_stride, args.head_dim, QueryLevels(args.key_kind), x);
    for (std::size_t b = 0; b < layout.units; ++b) {
      std::int32_t sum = 0;
      for (std::size_t c = b * kUnitChannels; c < (b + 1) * kUnitChannels; ++c) {
        const int value = x.integer[c];
        sum += value;
        if (layout.digits == 2) {
          out[c] = static_cast<std::byte>(HighDigit(value));
          out[layout.channels + c] = static_cast<std::byte>(LowDigit(value));
        } else {
          out[c] = static_cast<std::byte>(value);
        }
      }
      sum *= -ZeroOf(args.key_kind);
      std::memcpy(out + layout.starts_at() + 4 * b, &sum, sizeof sum);
    }
    std::memcpy(out + layout.step_at(), &x.step, sizeof x.step);
  }
}

void Attend(const AttendArgs& args) {
  for (std::size_t row = 0; row < args.rows; ++row) Segment(args).AttendRow(row);
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
      .encode_activations = EncodeActivations,
      .matmul_codes = MatmulCodes,
      .rms_norm = RmsNorm,
      .layer_norm = LayerNorm,
      .rope_interleaved = RopeInterleaved,
      .rope_half_split = RopeHalfSplit,
      .silu_mul = SiluMul,
      .gelu_tanh = GeluTanh,
      .gelu_erf = GeluErf,
      .silu_clamped = SiluClamped,
      .softcap = Softcap,
      .add = Add,
      .scale = Scale,
      .max_of = MaxOf,
      .softmax_terms = SoftmaxTerms,
      .hadamard = Hadamard,
      .store_kv = StoreKv,
      .encode = Encode,
      .prepare = Prepare,
      .attend = Attend,
      .merge = Merge,
      .finish = Finish,
  };
  return kKernels;
}

}  // namespace reference
}  // namespace ashlar::kernels
