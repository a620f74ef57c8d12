// What an item of attention needs while it runs: its rows, and the worker's memory. Internal to
// Attention.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/attention.h"

namespace ashlar::model {

// Query rows of an item that several chunks share.
inline constexpr std::size_t kMaxItemRows = 128;
inline constexpr std::size_t kMinBlockTokens = 16;
inline constexpr std::size_t kMaxBlocksPerSegment = kernels::kSegmentTokens / kMinBlockTokens;
// That a tree token's path touches: the text's open block, and what the path fills and begins.
inline constexpr std::size_t kMaxPathBlocks = kMaxTreeTokens / kMinBlockTokens + 1;

// An item's rows and what the kernels need beside them.
struct Attention::Work {
  std::span<const Item> batch;  // items that run together, `item` among them
  const Item* item = nullptr;
  std::uint32_t chunk = 0;  // the first member
  std::size_t rows = 0;
  const float* q = nullptr;
  const std::byte* prepared = nullptr;
  bool has_own = false;         // the rows' own block may lie in what is run
  std::uint64_t own_start = 0;  // first position of it
  RawTiles own = {};
  std::uint64_t first_position = 0;  // of the first row
  // Blocks from this number on are seen as `path` has them, not as the table has.
  std::uint64_t path_first = ~std::uint64_t{0};

  // The worker's memory.
  float* gathered_q = nullptr;
  std::byte* gathered_prepared = nullptr;
  State total = {};
  State span = {};
  State part = {};
  float* logits = nullptr;
  float* kernel_scratch = nullptr;
  std::byte* path_memory = nullptr;
  std::array<RawTiles, kMaxPathBlocks> path;
  std::array<std::uint32_t, kMaxItemRows> visible;
  std::array<std::uint32_t, kMaxItemRows> first;
  std::array<const std::byte*, kMaxBlocksPerSegment> k_tiles;
  std::array<const std::byte*, kMaxBlocksPerSegment> v_tiles;
  std::array<const std::byte*, kMaxBlocksPerSegment> next_tiles;
};

}  // namespace ashlar::model
