#include "kernels/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "base/half.h"
#include "kernels/kernel_set.h"
#include "kernels/reference/raw_tile.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"
#include "kernels/tile_layout.h"

namespace ashlar::kernels {
namespace {

using testing::GoldenVector;
using testing::Random;
using testing::SameBits;

std::vector<KvCodecKind> EncodedKinds() {
  std::vector<KvCodecKind> kinds;
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    if (!IsRaw(kind)) kinds.push_back(kind);
  }
  return kinds;
}

struct Shape {
  KvRole role = KvRole::kKey;
  std::size_t dim = 64;
  std::size_t block_tokens = 16;

  std::size_t IndexOf(std::size_t token, std::size_t channel) const {
    return role == KvRole::kKey ? channel * block_tokens + token : token * dim + channel;
  }
};

// rows: [block_tokens, dim].
std::vector<std::byte> EncodeRows(const KernelSet& kernels, KvCodecKind kind, const Shape& shape,
                                  const std::vector<float>& rows,
                                  KvCodecKind raw_kind = KvCodecKind::kF32) {
  std::vector<std::byte> raw(
      TileBytes({.kind = raw_kind}, shape.role, shape.dim, shape.block_tokens));
  for (std::size_t t = 0; t < shape.block_tokens; ++t) {
    for (std::size_t c = 0; c < shape.dim; ++c) {
      reference::StoreRaw(raw_kind, rows[t * shape.dim + c], raw.data(), shape.IndexOf(t, c));
    }
  }
  if (IsRaw(kind)) return raw;
  std::vector<std::byte> tile(TileBytes({.kind = kind}, shape.role, shape.dim, shape.block_tokens),
                              std::byte{0xA5});
  kernels.encode({.kind = kind,
                  .role = shape.role,
                  .raw_kind = raw_kind,
                  .raw = raw.data(),
                  .dim = shape.dim,
                  .block_tokens = shape.block_tokens,
                  .tile = tile.data()});
  return tile;
}

std::vector<float> DecodeRows(KvCodecKind kind, const Shape& shape,
                              const std::vector<std::byte>& tile) {
  std::vector<float> rows(shape.block_tokens * shape.dim);
  for (std::size_t t = 0; t < shape.block_tokens; ++t) {
    DecodeRow(kind, shape.role, tile.data(), shape.dim, shape.block_tokens, t,
              rows.data() + t * shape.dim);
  }
  return rows;
}

std::vector<float> RoundTrip(KvCodecKind kind, const Shape& shape, const std::vector<float>& rows) {
  const KvCodecKind raw = IsRaw(kind) ? kind : KvCodecKind::kF32;
  return DecodeRows(kind, shape, EncodeRows(KernelsFor(BestIsa()), kind, shape, rows, raw));
}

// --- Instruction sets ---

TEST(Encode, EqualsTheReferenceForEveryKindShapeAndRawFormat) {
  Random random(1);
  for (const KvCodecKind kind : EncodedKinds()) {
    for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
      for (const std::size_t dim : {8u, 24u, 64u, 80u, 96u, 256u}) {
        for (const std::size_t block_tokens : {16u, 64u}) {
          const Shape shape{role, dim, block_tokens};
          std::vector<float> rows = random.Floats(block_tokens * dim, 3.0f);
          for (std::size_t i = 0; i < 4; ++i) rows[random.Below(rows.size())] *= 100.0f;
          std::fill_n(rows.begin(), dim, 0.0f);
          for (const KvCodecKind raw : {KvCodecKind::kF32, KvCodecKind::kF16, KvCodecKind::kBF16}) {
            const auto want = EncodeRows(KernelsFor(Isa::kReference), kind, shape, rows, raw);
            for (const Isa isa : RunnableIsas()) {
              ASSERT_EQ(EncodeRows(KernelsFor(isa), kind, shape, rows, raw), want)
                  << NameOf(isa) << " " << NameOf(kind) << " dim " << dim;
            }
          }
        }
      }
    }
  }
}

// Raw formats with a wider range than the f16 scales hold more than a tile can.
TEST(Encode, WhatIsBeyondTheLargestScaleSaturatesOnItsOwnSide) {
  const Shape shapes[] = {{KvRole::kKey, 64, 16}, {KvRole::kValue, 64, 16}};
  for (const KvCodecKind kind : EncodedKinds()) {
    for (const Shape& shape : shapes) {
      std::vector<float> rows(16 * 64);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = (i / 3) % 2 == 0 ? 3e38f : -3e38f;
      for (const Isa isa : RunnableIsas()) {
        const std::vector<float> decoded =
            DecodeRows(kind, shape, EncodeRows(KernelsFor(isa), kind, shape, rows));
        for (std::size_t i = 0; i < rows.size(); ++i) {
          ASSERT_GT(decoded[i] * (rows[i] > 0 ? 1.0f : -1.0f), 6e4f)
              << NameOf(isa) << " " << NameOf(kind) << " " << rows[i];
        }
      }
    }
  }
}

TEST(Encode, EqualsTheReferenceAtExtremes) {
  const float extremes[] = {0.0f,     -0.0f,     1e-45f, -1e-38f, 6e-8f, 1e-7f, 3.0e4f,
                            65504.0f, -65504.0f, 3e38f,  -3e38f,  0.5f,  1.0f,  -1.0f};
  Random random(2);
  for (const KvCodecKind kind : EncodedKinds()) {
    for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
      const Shape shape{role, 64, 16};
      for (int round = 0; round < 20; ++round) {
        std::vector<float> rows(16 * 64);
        const std::size_t choices = 1 + random.Below(std::size(extremes));
        for (float& value : rows) value = extremes[random.Below(choices)];
        const auto want = EncodeRows(KernelsFor(Isa::kReference), kind, shape, rows);
        for (const float value : DecodeRows(kind, shape, want)) {
          ASSERT_TRUE(std::isfinite(value)) << NameOf(kind);
        }
        for (const Isa isa : RunnableIsas()) {
          ASSERT_EQ(EncodeRows(KernelsFor(isa), kind, shape, rows), want)
              << NameOf(isa) << " " << NameOf(kind);
        }
      }
    }
  }
}

// --- What the codecs are ---

// Codes (less the zero) and scale of 32 channels of one token.
struct Golden {
  std::vector<int> codes;
  std::uint16_t scale;
};
Golden EncodeGolden(KvCodecKind kind, KvRole role) {
  const Shape shape{role, 32, 16};
  std::vector<float> rows(16 * 32);
  std::ranges::copy(GoldenVector(32), rows.begin() + 5 * 32);
  const auto tile = EncodeRows(KernelsFor(BestIsa()), kind, shape, rows);
  Golden golden{{}, 0};
  for (std::size_t c = 0; c < 32; ++c) {
    golden.codes.push_back(CodeAt(kind, role, tile.data(), 32, 5, c));
  }
  std::memcpy(&golden.scale,
              tile.data() + CodeBytes(kind, 32, 16) + 2 * ScaleIndex(kind, role, 32, 5, 0),
              sizeof golden.scale);
  return golden;
}

TEST(Encode, MatchesGoldenVectors) {
  for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
    const Golden q8 = EncodeGolden(KvCodecKind::kQ8, role);
    EXPECT_EQ(q8.scale, 0x2408);
    const std::vector<int> want8 = {-127, -33, 61, -102, -8, 86,  -76, 18, 112, -51, 43,
                                    -119, -25, 69, -94,  0,  94,  -69, 25, 119, -43, 51,
                                    -112, -18, 76, -86,  8,  102, -61, 33, 127, -36};
    for (std::size_t c = 0; c < 32; ++c) EXPECT_EQ(q8.codes[c] - 128, want8[c]) << c;

    const Golden q4 = EncodeGolden(KvCodecKind::kQ4, role);
    EXPECT_EQ(q4.scale, 0x3400);
    const std::vector<int> want4 = {0,  6, 12, 2,  8, 13, 3, 9, 15, 5, 11, 0,  6, 12, 2,  8,
                                    14, 4, 10, 15, 5, 11, 1, 7, 13, 3, 8,  14, 4, 10, 15, 6};
    EXPECT_EQ(q4.codes, want4);
  }
  EXPECT_EQ(EncodeGolden(KvCodecKind::kKc2, KvRole::kValue).codes,
            (std::vector<int>{0, 1, 2, 0, 1, 3, 1, 2, 3, 1, 2, 0, 1, 2, 0, 2,
                              3, 1, 2, 3, 1, 2, 0, 1, 2, 0, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(EncodeGolden(KvCodecKind::kKc4, KvRole::kValue).codes,
            (std::vector<int>{0,  6, 11, 1,  7, 13, 3, 9, 14, 5, 10, 0,  6, 12, 2,  7,
                              13, 3, 9,  15, 5, 10, 1, 6, 12, 2, 8,  13, 4, 9,  15, 5}));
}

TEST(Encode, MatchesTheGoldenCodebookIndices) {
  std::vector<float> x = GoldenVector(64);
  KernelsFor(BestIsa()).hadamard(x.data(), 64);
  std::vector<float> rows(16 * 64);
  std::ranges::copy(x, rows.begin());
  const Shape shape{KvRole::kKey, 64, 16};
  const auto tile = EncodeRows(KernelsFor(BestIsa()), KvCodecKind::kLm3, shape, rows);
  const std::vector<int> want = {3, 5, 3, 3, 5, 4, 3, 7, 3, 1, 3, 3, 4, 4, 3, 3, 1, 4, 3, 3, 1, 7,
                                 3, 3, 4, 4, 3, 3, 1, 1, 3, 3, 3, 3, 4, 4, 3, 7, 1, 1, 3, 3, 4, 4,
                                 3, 3, 1, 1, 3, 3, 7, 1, 3, 3, 4, 0, 3, 3, 1, 1, 3, 3, 4, 4};
  for (std::size_t c = 0; c < 64; ++c) {
    EXPECT_EQ(CodeAt(KvCodecKind::kLm3, KvRole::kKey, tile.data(), 64, 0, c), want[c]) << c;
  }
  // The least-squares scale, in units of the outermost level / 127; rounding the levels to such
  // units changes it by 0.3 %.
  std::uint16_t scale;
  std::memcpy(&scale, tile.data() + CodeBytes(KvCodecKind::kLm3, 64, 16), sizeof scale);
  EXPECT_NEAR(F16ToF32(scale) * 127.0f / kLloydMax8.back(), 1.322663f, 4e-3f);
}

// A unit's bytes at the places that codec.h gives, for a code that names its place.
TEST(Encode, CodesLieWhereTheFormatSays) {
  const Shape shape{KvRole::kKey, 64, 32};
  std::vector<float> rows(32 * 64, 0.0f);
  rows[17 * 64 + 37] = 1.0f;  // token 17, channel 37: unit (1, 1), row 1, lane 1, byte 1
  const std::size_t unit = 1 * 2 + 1;
  const auto q8 = EncodeRows(KernelsFor(BestIsa()), KvCodecKind::kQ8, shape, rows);
  EXPECT_EQ(static_cast<int>(q8[unit * 512 + 1 * 64 + 1 * 4 + 1]), 255);
  const auto q5 = EncodeRows(KernelsFor(BestIsa()), KvCodecKind::kQ5, shape, rows);
  // 1.0 is the extreme: scale -1/16, code 0, where zeros are 16: low halves 0, high bits 1.
  EXPECT_EQ(static_cast<int>(q5[unit * 320 + 0 * 64 + 5]), 0x00);
  EXPECT_EQ(static_cast<int>(q5[unit * 320 + 256 + 5]), 0xFF & ~(1 << 1));
  const auto q6 = EncodeRows(KernelsFor(BestIsa()), KvCodecKind::kQ6, shape, rows);
  // Zeros are 32 = high bits 2 in two-bit fields; the extreme's are 0, in row 1's field.
  EXPECT_EQ(static_cast<int>(q6[unit * 384 + 256 + 5]), 0xAA & ~(3 << 2));

  Shape value = shape;
  value.role = KvRole::kValue;
  const auto v8 = EncodeRows(KernelsFor(BestIsa()), KvCodecKind::kQ8, value, rows);
  // Channel 37 = 5 of unit 1: row 0 * 4 + 17 % 16 / 4 = 0, lane 5, byte 1.
  EXPECT_EQ(static_cast<int>(v8[unit * 512 + 0 * 64 + 5 * 4 + 1]), 255);
}

// --- Errors ---

double RelativeSquare(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0.0;
  double square = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    square += double{want[i]} * double{want[i]};
  }
  return error / square;
}

enum class Rotation { kNone, kHadamard };

// Of 2,048 rows of N(0, 1), as the published anchors.
double GaussianError(KvCodecKind kind, const Shape& shape, Rotation rotation) {
  std::mt19937 bits(42);
  std::normal_distribution<float> normal;
  double sum = 0.0;
  const std::size_t blocks = 2048 / shape.block_tokens;
  for (std::size_t b = 0; b < blocks; ++b) {
    std::vector<float> rows(shape.block_tokens * shape.dim);
    for (float& value : rows) value = normal(bits);
    if (rotation == Rotation::kHadamard) {
      for (std::size_t t = 0; t < shape.block_tokens; ++t) {
        KernelsFor(BestIsa()).hadamard(rows.data() + t * shape.dim, shape.dim);
      }
    }
    sum += RelativeSquare(RoundTrip(kind, shape, rows), rows);
  }
  return sum / static_cast<double>(blocks);
}

struct Anchor {
  KvCodecKind kind;
  KvRole role;
  Rotation rotation;
  std::array<double, 3> error;  // of dim 64, 128, 256
};

// Normalised mean square errors on N(0, 1), computed independently of this code: 2,048 tokens,
// mt19937 seeded with 42, KIVI's groups of 32.
TEST(Codec, ErrorsAreWithinFivePercentOfTheAnchors) {
  using enum KvCodecKind;
  const Anchor anchors[] = {
      {kF16, KvRole::kKey, Rotation::kNone, {4.344e-08, 4.318e-08, 4.331e-08}},
      {kBF16, KvRole::kKey, Rotation::kNone, {2.763e-06, 2.769e-06, 2.765e-06}},
      {kQ8, KvRole::kKey, Rotation::kNone, {2.872e-05, 2.887e-05, 2.876e-05}},
      {kQ8, KvRole::kValue, Rotation::kHadamard, {2.890e-05, 2.853e-05, 2.870e-05}},
      {kQ6, KvRole::kKey, Rotation::kNone, {4.511e-04, 4.555e-04, 4.540e-04}},
      {kQ6, KvRole::kValue, Rotation::kHadamard, {4.554e-04, 4.523e-04, 4.530e-04}},
      {kQ5, KvRole::kKey, Rotation::kNone, {1.818e-03, 1.826e-03, 1.823e-03}},
      {kQ5, KvRole::kValue, Rotation::kHadamard, {1.828e-03, 1.813e-03, 1.823e-03}},
      {kQ4, KvRole::kKey, Rotation::kNone, {7.357e-03, 7.436e-03, 7.387e-03}},
      {kQ4, KvRole::kValue, Rotation::kHadamard, {7.431e-03, 7.364e-03, 7.364e-03}},
      {kKc4, KvRole::kKey, Rotation::kNone, {6.100e-03, 6.126e-03, 6.136e-03}},
      {kKc4, KvRole::kValue, Rotation::kNone, {6.127e-03, 6.150e-03, 6.100e-03}},
      {kKc2, KvRole::kKey, Rotation::kNone, {1.542e-01, 1.548e-01, 1.547e-01}},
      {kKc2, KvRole::kValue, Rotation::kNone, {1.546e-01, 1.551e-01, 1.544e-01}},
      {kLm4, KvRole::kKey, Rotation::kHadamard, {8.904e-03, 9.063e-03, 9.371e-03}},
      {kLm3, KvRole::kValue, Rotation::kHadamard, {3.270e-02, 3.342e-02, 3.403e-02}},
      {kFp8, KvRole::kKey, Rotation::kNone, {7.077e-04, 7.057e-04, 7.065e-04}},
  };
  for (const Anchor& anchor : anchors) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double error =
          GaussianError(anchor.kind, {anchor.role, std::size_t{64} << i, 32}, anchor.rotation);
      EXPECT_NEAR(error / anchor.error[i], 1.0, 0.05) << NameOf(anchor.kind) << (64u << i);
    }
  }
}

// Half a step of the stored scale; beside it the clamped side of q4, q5, q6 (a whole step), and the
// rounding of the scale to f16, which shows at the ends of the range.
TEST(Codec, ErrorsAreBoundedByTheStep) {
  Random random(3);
  for (const KvCodecKind kind :
       {KvCodecKind::kQ8, KvCodecKind::kQ6, KvCodecKind::kQ5, KvCodecKind::kQ4}) {
    const int levels = kind == KvCodecKind::kQ8 ? 127 : ZeroOf(kind);
    const Shape shape{KvRole::kValue, 96, 16};
    const std::vector<float> rows = random.Floats(16 * 96, 10.0f);
    const std::vector<float> back = RoundTrip(kind, shape, rows);
    for (std::size_t at = 0; at < rows.size(); at += 32) {
      float extreme = 0.0f;
      for (std::size_t i = at; i < at + 32; ++i) {
        if (std::abs(rows[i]) > std::abs(extreme)) extreme = rows[i];
      }
      const float step = std::abs(extreme) / static_cast<float>(levels);
      for (std::size_t i = at; i < at + 32; ++i) {
        const bool is_clamped_side = kind != KvCodecKind::kQ8 && rows[i] * extreme < 0.0f;
        ASSERT_LE(std::abs(back[i] - rows[i]),
                  step * (is_clamped_side ? 1.0f : 0.5f) + std::abs(extreme) * 0x1p-10f)
            << NameOf(kind) << " " << i;
      }
    }
  }
}

TEST(Codec, EncodingWhatWasDecodedChangesNothing) {
  Random random(4);
  for (const KvCodecKind kind : {KvCodecKind::kQ8, KvCodecKind::kQ6, KvCodecKind::kQ5,
                                 KvCodecKind::kQ4, KvCodecKind::kFp8}) {
    for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
      const Shape shape{role, 128, 32};
      const auto once = RoundTrip(kind, shape, random.Floats(32 * 128, 5.0f));
      EXPECT_TRUE(SameBits(RoundTrip(kind, shape, once), once)) << NameOf(kind);
    }
  }
}

TEST(Codec, ZerosConstantsAndOneHotVectors) {
  for (const KvCodecKind kind : EncodedKinds()) {
    for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
      const Shape shape{role, 64, 16};
      for (const float value : RoundTrip(kind, shape, std::vector<float>(16 * 64, 0.0f))) {
        ASSERT_EQ(value, 0.0f) << NameOf(kind);
      }
      for (const float value : RoundTrip(kind, shape, std::vector<float>(16 * 64, -0.75f))) {
        // A codebook knows no constant: its nearest level by least squares.
        ASSERT_NEAR(value, -0.75f, 1e-3f) << NameOf(kind);
      }
      if (IsCodebook(kind)) continue;
      std::vector<float> rows(16 * 64, 0.0f);
      rows[3 * 64 + 31] = 2.0f;
      const auto back = RoundTrip(kind, shape, rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_NEAR(back[i], rows[i], 2e-3f) << NameOf(kind) << " " << i;
      }
    }
  }
}

// Keys with a few large channels, as models make them: rotation spreads them over all.
TEST(Codec, RotationIsWorthFourDecibelsOnOutlierKeys) {
  std::mt19937 bits(42);
  std::normal_distribution<float> normal;
  const Shape shape{KvRole::kKey, 64, 16};
  std::vector<float> rows(16 * 64);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = normal(bits);
    if (i % 64 % 16 == 3) rows[i] += i % 64 % 32 == 3 ? 8.0f : -8.0f;
  }
  std::vector<float> rotated = rows;
  for (std::size_t t = 0; t < 16; ++t) KernelsFor(BestIsa()).hadamard(&rotated[t * 64], 64);
  const double plain = RelativeSquare(RoundTrip(KvCodecKind::kQ4, shape, rows), rows);
  const double better = RelativeSquare(RoundTrip(KvCodecKind::kQ4, shape, rotated), rotated);
  EXPECT_GT(10.0 * std::log10(plain / better), 4.0);
}

TEST(KeyBounds, HoldForTheKeysAsStored) {
  Random random(5);
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    const Shape shape{KvRole::kKey, 40, 32};
    const std::vector<float> rows = random.Floats(32 * 40, 4.0f);
    const auto tile = EncodeRows(KernelsFor(BestIsa()), kind, shape, rows,
                                 IsRaw(kind) ? kind : KvCodecKind::kF32);
    std::vector<float> bounds(80);
    KeyBounds(kind, tile.data(), 40, 32, bounds.data());
    const std::vector<float> stored = DecodeRows(kind, shape, tile);
    const std::vector<float> q = random.Floats(40);
    double bound = 0.0;
    for (std::size_t c = 0; c < 40; ++c) {
      bound += std::max(double{q[c]} * bounds[c], double{q[c]} * bounds[40 + c]);
    }
    double greatest = -1e9;
    for (std::size_t t = 0; t < 32; ++t) {
      double dot = 0.0;
      for (std::size_t c = 0; c < 40; ++c) {
        dot += double{q[c]} * stored[t * 40 + c];
        ASSERT_GE(stored[t * 40 + c], bounds[c]);
        ASSERT_LE(stored[t * 40 + c], bounds[40 + c]);
      }
      greatest = std::max(greatest, dot);
    }
    EXPECT_GE(bound, greatest) << NameOf(kind);
  }
}

}  // namespace
}  // namespace ashlar::kernels
