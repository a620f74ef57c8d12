#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/codec.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/raw_tile.h"
#include "kernels/tile_layout.h"

namespace ashlar::kernels {
namespace {

// --- Codes in a unit ---

int GetBits(const std::byte* plane, std::size_t byte, std::size_t shift, int mask) {
  return (static_cast<int>(plane[byte]) >> shift) & mask;
}
void PutBits(std::byte* plane, std::size_t byte, std::size_t shift, int bits) {
  plane[byte] |= static_cast<std::byte>(bits << shift);
}

// One field of a code: `bits` of it from bit `from` on, 8 / bits rows sharing a byte.
struct Field {
  std::size_t offset;
  std::size_t bits;
  std::size_t from;
};
struct Fields {
  std::array<Field, 2> list;
  std::size_t count;
};
Fields FieldsOf(KvCodecKind kind) {
  switch (kind) {
    case KvCodecKind::kQ8:
      return {{{{0, 8, 0}}}, 1};
    case KvCodecKind::kQ6:
      return {{{{0, 4, 0}, {256, 2, 4}}}, 2};
    case KvCodecKind::kQ5:
      return {{{{0, 4, 0}, {256, 1, 4}}}, 2};
    case KvCodecKind::kKc2:
      return {{{{0, 2, 0}}}, 1};
    case KvCodecKind::kLm3:
      return {{{{0, 2, 0}, {128, 1, 2}}}, 2};
    default:
      return {{{{0, 4, 0}}}, 1};
  }
}

int GetCode(KvCodecKind kind, const std::byte* unit, std::size_t row, std::size_t index) {
  const Fields fields = FieldsOf(kind);
  int code = 0;
  for (std::size_t f = 0; f < fields.count; ++f) {
    const auto [offset, bits, from] = fields.list[f];
    const std::size_t per_byte = 8 / bits;
    code |= GetBits(unit + offset, row / per_byte * kUnitRowCodes + index, row % per_byte * bits,
                    (1 << bits) - 1)
            << from;
  }
  return code;
}

// The bits must be 0 before.
void PutCode(KvCodecKind kind, std::byte* unit, std::size_t row, std::size_t index, int code) {
  const Fields fields = FieldsOf(kind);
  for (std::size_t f = 0; f < fields.count; ++f) {
    const auto [offset, bits, from] = fields.list[f];
    const std::size_t per_byte = 8 / bits;
    PutBits(unit + offset, row / per_byte * kUnitRowCodes + index, row % per_byte * bits,
            (code >> from) & ((1 << bits) - 1));
  }
}

// --- Choosing scales and codes ---

// A scale or minimum as it is stored: nearest f16, at most the largest finite one.
float RoundToHalf(float value) {
  return F16ToF32(F32ToF16(std::clamp(value, -65504.0f, 65504.0f)));
}

class Encoder {
 public:
  explicit Encoder(const EncodeArgs& args)
      : args_(args),
        code_bytes_(CodeBytes(args.kind, args.dim, args.block_tokens)),
        channels_(ChannelUnits(args.dim) * kUnitChannels) {}

  void Run() {
    std::memset(args_.tile, 0,
                TileBytes({.kind = args_.kind}, args_.role, args_.dim, args_.block_tokens));
    if (args_.kind == KvCodecKind::kFp8) return EncodeFp8();
    if (IsCodebook(args_.kind)) {
      for (std::size_t t = 0; t < args_.block_tokens; ++t) EncodeByCodebook(t);
    } else if (IsAsymmetric(args_.kind) && args_.role == KvRole::kKey) {
      for (std::size_t c = 0; c < channels_; ++c) EncodeChannel(c);
    } else {
      for (std::size_t t = 0; t < args_.block_tokens; ++t) {
        for (std::size_t c = 0; c < channels_; c += kUnitChannels) {
          IsAsymmetric(args_.kind) ? EncodeRange(t, c) : EncodeScaled(t, c);
        }
      }
    }
  }

 private:
  float Raw(std::size_t token, std::size_t channel) const {
    if (channel >= args_.dim) return 0.0f;
    const std::size_t index = args_.role == KvRole::kKey ? channel * args_.block_tokens + token
                                                         : token * args_.dim + channel;
    return reference::LoadRaw(args_.raw_kind, args_.raw, index);
  }
  void Put(std::size_t token, std::size_t channel, int code) {
    const CodePlace place = PlaceOf(args_.role, args_.dim, token, channel);
    PutCode(args_.kind, args_.tile + place.unit * UnitBytes(args_.kind), place.row, place.index,
            code);
  }
  void PutHalf(std::size_t index, float value) {
    const std::uint16_t bits = F32ToF16(value);
    std::memcpy(args_.tile + code_bytes_ + index * sizeof bits, &bits, sizeof bits);
  }
  std::size_t ScaleAt(std::size_t token, std::size_t channel) const {
    return ScaleIndex(args_.kind, args_.role, args_.dim, token, channel);
  }
  int Nearest(float x, float inverse) const {
    // Cut before it is an integer: beyond the largest scale a quotient has no bound.
    const int least = (args_.kind == KvCodecKind::kQ8 ? 1 : 0) - ZeroOf(args_.kind);
    const int greatest = GreatestCode(args_.kind) - ZeroOf(args_.kind);
    const float steps =
        std::clamp(x * inverse, static_cast<float>(least), static_cast<float>(greatest));
    return static_cast<int>(std::nearbyint(steps)) + ZeroOf(args_.kind);
  }

  void EncodeScaled(std::size_t token, std::size_t channel) {
    float least = 0.0f;
    float greatest = 0.0f;
    for (std::size_t c = channel; c < channel + kUnitChannels; ++c) {
      least = std::min(least, Raw(token, c));
      greatest = std::max(greatest, Raw(token, c));
    }
    float scale;
    if (args_.kind == KvCodecKind::kQ8) {
      scale = std::max(-least, greatest) / 127.0f;
    } else {
      const float extreme = -least >= greatest ? least : greatest;
      scale = extreme / -static_cast<float>(ZeroOf(args_.kind));
    }
    scale = RoundToHalf(scale + 0.0f);  // never -0
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    PutHalf(ScaleAt(token, channel), scale);
    for (std::size_t c = channel; c < channel + kUnitChannels; ++c) {
      Put(token, c, Nearest(Raw(token, c), inverse));
    }
  }

  // Writes scale and minimum for values between least and greatest; the scale before rounding.
  float PutRange(std::size_t index, float least, float greatest) {
    const float scale = (greatest - least) / static_cast<float>(GreatestCode(args_.kind));
    PutHalf(index, RoundToHalf(scale));
    PutHalf(index + MinOffset(args_.role, args_.dim), RoundToHalf(least));
    return scale;
  }
  int InRange(float above_least, float scale) const {
    if (scale == 0.0f) return 0;
    const int code = static_cast<int>(std::floor(above_least / scale + 0.5f));
    return std::clamp(code, 0, GreatestCode(args_.kind));
  }

  // What a minimum, an f16 number, can reach.
  float Cut(std::size_t token, std::size_t channel) const {
    return std::clamp(Raw(token, channel), -65504.0f, 65504.0f);
  }

  void EncodeChannel(std::size_t channel) {
    float least = Cut(0, channel);
    float greatest = least;
    for (std::size_t t = 1; t < args_.block_tokens; ++t) {
      least = std::min(least, Cut(t, channel));
      greatest = std::max(greatest, Cut(t, channel));
    }
    const float scale = PutRange(ScaleAt(0, channel), least, greatest);
    for (std::size_t t = 0; t < args_.block_tokens; ++t) {
      Put(t, channel, InRange(Cut(t, channel) - least, scale));
    }
  }

  void EncodeRange(std::size_t token, std::size_t channel) {
    const std::size_t end = std::min(channel + kUnitChannels, args_.dim);
    float least = Cut(token, channel);
    float greatest = least;
    for (std::size_t c = channel + 1; c < end; ++c) {
      least = std::min(least, Cut(token, c));
      greatest = std::max(greatest, Cut(token, c));
    }
    const float scale = PutRange(ScaleAt(token, channel), least, greatest);
    for (std::size_t c = channel; c < end; ++c) {
      Put(token, c, InRange(Cut(token, c) - least, scale));
    }
  }

  void EncodeByCodebook(std::size_t token) {
    double squares = 0.0;
    for (std::size_t c = 0; c < args_.dim; ++c) {
      squares += double{Raw(token, c)} * double{Raw(token, c)};
    }
    const double rms = std::sqrt(squares / static_cast<double>(args_.dim));
    const int codes = GreatestCode(args_.kind) + 1;
    const double outermost =
        args_.kind == KvCodecKind::kLm4 ? kLloydMax16.back() : kLloydMax8.back();
    double dot = 0.0;
    double norm = 0.0;
    for (std::size_t c = 0; c < channels_; ++c) {
      // In units of 1/127 of the outermost level.
      const double x = rms == 0.0 ? 0.0 : Raw(token, c) / rms / outermost * 127.0;
      int best = 0;
      for (int code = 1; code < codes; ++code) {
        const double middle =
            0.5 * (LevelOf(args_.kind, code - 1) + LevelOf(args_.kind, code)) - 128.0;
        if (x > middle) best = code;
      }
      Put(token, c, best);
      const double level = LevelOf(args_.kind, best) - 128.0;
      if (c >= args_.dim) continue;
      dot += level * double{Raw(token, c)};
      norm += level * level;
    }
    PutHalf(ScaleAt(token, 0), RoundToHalf(static_cast<float>(dot / norm)));
  }

  void EncodeFp8() {
    const std::size_t count = args_.dim * args_.block_tokens;
    float greatest = 0.0f;
    for (std::size_t i = 0; i < count; ++i) {
      greatest = std::max(greatest, std::abs(reference::LoadRaw(args_.raw_kind, args_.raw, i)));
    }
    const float scale = greatest <= 0x1p-100f ? 0.0f : greatest / 448.0f;
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    for (std::size_t i = 0; i < count; ++i) {
      const float x = reference::LoadRaw(args_.raw_kind, args_.raw, i) * inverse;
      args_.tile[i] = static_cast<std::byte>(F32ToE4m3(x));
    }
    std::memcpy(args_.tile + code_bytes_, &scale, sizeof scale);
  }

  const EncodeArgs& args_;
  std::size_t code_bytes_;
  std::size_t channels_;
};

}  // namespace

float DecodeValue(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim,
                  std::size_t block_tokens, std::size_t token, std::size_t channel) {
  const std::size_t raw_index =
      role == KvRole::kKey ? channel * block_tokens + token : token * dim + channel;
  if (IsRaw(kind)) return reference::LoadRaw(kind, tile, raw_index);
  const std::byte* const scales = tile + CodeBytes(kind, dim, block_tokens);
  if (kind == KvCodecKind::kFp8) {
    float scale;
    std::memcpy(&scale, scales, sizeof scale);
    return E4m3ToF32(static_cast<std::uint8_t>(tile[raw_index])) * scale;
  }
  const CodePlace place = PlaceOf(role, dim, token, channel);
  const int code = GetCode(kind, tile + place.unit * UnitBytes(kind), place.row, place.index);
  const std::size_t index = ScaleIndex(kind, role, dim, token, channel);
  const auto level = static_cast<float>(LevelOf(kind, code) - ZeroOf(kind));
  const float least =
      IsAsymmetric(kind) ? LoadHalf(scales + 2 * (index + MinOffset(role, dim))) : 0.0f;
  return std::fma(level, LoadHalf(scales + 2 * index), least);
}

void DecodeRow(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim,
               std::size_t block_tokens, std::size_t token, float* out) {
  for (std::size_t c = 0; c < dim; ++c) {
    out[c] = DecodeValue(kind, role, tile, dim, block_tokens, token, c);
  }
}

void KeyBounds(KvCodecKind kind, const std::byte* tile, std::size_t dim, std::size_t block_tokens,
               float* bounds) {
  for (std::size_t c = 0; c < dim; ++c) {
    float& least = bounds[c];
    float& greatest = bounds[dim + c];
    least = greatest = DecodeValue(kind, KvRole::kKey, tile, dim, block_tokens, 0, c);
    for (std::size_t t = 1; t < block_tokens; ++t) {
      const float value = DecodeValue(kind, KvRole::kKey, tile, dim, block_tokens, t, c);
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
  }
}

int CodeAt(KvCodecKind kind, KvRole role, const std::byte* tile, std::size_t dim, std::size_t token,
           std::size_t channel) {
  const CodePlace place = PlaceOf(role, dim, token, channel);
  return GetCode(kind, tile + place.unit * UnitBytes(kind), place.row, place.index);
}

float E4m3ToF32(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  float magnitude;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -9);
  } else {
    magnitude = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  }
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t F32ToE4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::min(std::abs(value), 448.0f);
  // Multiples of the step of its binade (2^-9 below 2^-6), which nearbyint rounds to even.
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  // 16 steps are the next binade's 8: the code's arithmetic carries.
  const int code = (exponent + 6) * 8 + steps;
  return sign | static_cast<std::uint8_t>(std::min(code, 0x7E));
}

std::size_t HadamardSize(std::size_t n) { return n & (~n + 1); }

namespace reference {

void Encode(const EncodeArgs& args) { Encoder(args).Run(); }

void Hadamard(float* x, std::size_t n) {
  const std::size_t size = HadamardSize(n);
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  for (std::size_t block = 0; block < n; block += size) {
    float* const v = x + block;
    for (std::size_t stride = 1; stride < size; stride *= 2) {
      for (std::size_t i = 0; i < size; i += 2 * stride) {
        for (std::size_t j = i; j < i + stride; ++j) {
          const float a = v[j];
          const float b = v[j + stride];
          v[j] = a + b;
          v[j + stride] = a - b;
        }
      }
    }
    for (std::size_t i = 0; i < size; ++i) v[i] *= factor;
  }
}

}  // namespace reference
}  // namespace ashlar::kernels
