#include "base/kv_codec.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

double BitsPerElement(std::string_view name, KvRole role, std::size_t dim, std::size_t tokens) {
  const std::size_t bytes = TileBytes(ParseKvCodec(name).value(), role, dim, tokens);
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(dim * tokens);
}

TEST(KvCodec, NamesRoundTrip) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const bool is_rotated : {false, true}) {
      if (is_rotated && IsRaw(kind)) continue;
      const KvCodec codec{.kind = kind, .is_rotated = is_rotated};
      EXPECT_EQ(ParseKvCodec(NameOf(codec)).value(), codec) << NameOf(codec);
    }
  }
}

TEST(KvCodec, UnknownNamesAreRefusedWithTheChoices) {
  for (const std::string_view name : {"", "h", "q7", "hf16", "hhq8", "Q8", "q8 "}) {
    const Result<KvCodec> codec = ParseKvCodec(name);
    ASSERT_FALSE(codec.ok()) << name;
    EXPECT_NE(codec.error().message.find("q8, q6"), std::string::npos);
  }
}

TEST(KvCodec, BytesAreTheCodesAndTheirScales) {
  for (const std::size_t tokens : {16u, 32u, 64u, 256u}) {
    for (const std::size_t dim : {64u, 128u, 256u}) {
      for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
        EXPECT_EQ(BitsPerElement("f32", role, dim, tokens), 32.0);
        EXPECT_EQ(BitsPerElement("f16", role, dim, tokens), 16.0);
        EXPECT_EQ(BitsPerElement("q8", role, dim, tokens), 8.5);
        EXPECT_EQ(BitsPerElement("hq6", role, dim, tokens), 6.5);
        EXPECT_EQ(BitsPerElement("q5", role, dim, tokens), 5.5);
        EXPECT_EQ(BitsPerElement("hq4", role, dim, tokens), 4.5);
      }
      EXPECT_EQ(BitsPerElement("kc4", KvRole::kValue, dim, tokens), 5.0);
      EXPECT_EQ(BitsPerElement("kc4", KvRole::kKey, dim, tokens),
                4.0 + 32.0 / static_cast<double>(tokens));
      EXPECT_LE(BitsPerElement("hlm4", KvRole::kKey, dim, tokens), 4.5);
    }
  }
  EXPECT_EQ(BitsPerElement("kc2", KvRole::kKey, 128, 32), 3.0);
  EXPECT_EQ(BitsPerElement("hlm4", KvRole::kKey, 128, 64), 4.125);
}

TEST(KvCodec, TilesAreWholeCacheLines) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const std::size_t dim : {8u, 64u, 80u, 96u}) {
      for (const KvRole role : {KvRole::kKey, KvRole::kValue}) {
        EXPECT_EQ(TileBytes({.kind = kind}, role, dim, 16) % 64, 0u) << NameOf(kind) << " " << dim;
      }
    }
  }
  // 80 channels are stored as 96.
  EXPECT_EQ(TileBytes({.kind = KvCodecKind::kQ8}, KvRole::kKey, 80, 64), 64u * 96u * 17u / 16u);
}

TEST(KvCodec, NoElementsNoBytes) {
  EXPECT_EQ(TileBytes({.kind = KvCodecKind::kFp8}, KvRole::kValue, 0, 16), 0u);
}

}  // namespace
}  // namespace ashlar
