#include "kv/layout.h"

#include <gtest/gtest.h>

namespace ashlar::kv {
namespace {

TEST(KvLayout, CountsKvHeadsNotQueryHeads) {
  // SmolLM2-135M: 30 layers, 3 kv heads of 64 (9 query heads): 30 * 3 * 64 * 2 * 2 bytes per token.
  const auto smol = KvLayout::Create({.layers = 30, .kv_heads = 3, .head_dim = 64});
  ASSERT_TRUE(smol.ok());
  EXPECT_EQ(smol->bytes_per_token(), 23'040u);
  EXPECT_EQ(smol->block_bytes(), 16u * 23'040u);
  // Llama-2-70B at 32,768 tokens in f16, 80 layers, 8 kv heads of 128.
  const auto llama = KvLayout::Create({.layers = 80, .kv_heads = 8, .head_dim = 128});
  EXPECT_EQ(llama->bytes_per_token() * 32'768, 10'737'418'240u);
  EXPECT_EQ(llama->BlocksNeeded(32'768) * llama->block_bytes(), 10'737'418'240u);
}

TEST(KvLayout, TilesFillTheBlockWithoutOverlap) {
  const auto layout = KvLayout::Create(
      {.layers = 3, .kv_heads = 2, .head_dim = 24, .codec = DType::kF32, .block_tokens = 32});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->tile_bytes(), 24u * 32u * 4u);
  std::size_t expected = 0;
  for (std::size_t layer = 0; layer < 3; ++layer) {
    for (std::size_t head = 0; head < 2; ++head) {
      EXPECT_EQ(layout->KeyTileOffset(layer, head), expected);
      EXPECT_EQ(layout->ValueTileOffset(layer, head), expected + layout->tile_bytes());
      expected += 2 * layout->tile_bytes();
    }
  }
  EXPECT_EQ(layout->block_bytes(), expected);
}

TEST(KvLayout, BlocksNeededRoundsUp) {
  const auto layout = KvLayout::Create({.layers = 1, .kv_heads = 1, .head_dim = 8});
  EXPECT_EQ(layout->BlocksNeeded(0), 0u);
  EXPECT_EQ(layout->BlocksNeeded(1), 1u);
  EXPECT_EQ(layout->BlocksNeeded(16), 1u);
  EXPECT_EQ(layout->BlocksNeeded(17), 2u);
}

TEST(KvLayout, RefusesNamingTheFieldAndWhatIsAllowed) {
  const LaneGroupSpec good = {.layers = 1, .kv_heads = 1, .head_dim = 64};
  const auto message = [&](auto change) {
    LaneGroupSpec spec = good;
    change(spec);
    const auto result = KvLayout::Create(spec);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(message([](LaneGroupSpec&) {}), "");
  EXPECT_NE(message([](LaneGroupSpec& s) { s.layers = 0; }).find("layers is 0"), std::string::npos);
  EXPECT_NE(message([](LaneGroupSpec& s) { s.head_dim = 60; }).find("multiple of 8"),
            std::string::npos);
  EXPECT_NE(message([](LaneGroupSpec& s) { s.head_dim = 520; }).find("520"), std::string::npos);
  for (const std::uint32_t bad : {0u, 8u, 24u, 512u}) {
    EXPECT_NE(message([&](LaneGroupSpec& s) { s.block_tokens = bad; }).find("16, 32"),
              std::string::npos);
  }
  EXPECT_NE(message([](LaneGroupSpec& s) { s.codec = DType::kQ8_0; }).find("Q8_0"),
            std::string::npos);
}

}  // namespace
}  // namespace ashlar::kv
