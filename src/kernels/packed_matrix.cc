#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/packed_layout.h"

namespace ashlar::kernels {
namespace {

using Words = std::uint32_t[kMaxBlockColumns / 4];  // a sub-block never needs more

// q[0 .. sub_columns) of one row into its words.
void PackFields(const BlockShape& shape, const std::uint8_t* q, Words words) {
  const std::size_t fields = FieldsPerWord(shape);
  for (std::size_t w = 0; w < WordsPerSub(shape); ++w) {
    words[w] = 0;
    for (std::size_t i = 0; i < fields; ++i) {
      words[w] |= static_cast<std::uint32_t>(q[w * fields + i]) << (i * shape.bits);
    }
  }
  const std::size_t whole = WholeColumns(shape);
  if (whole == shape.sub_columns) return;
  std::uint32_t spare = 0;
  for (std::size_t c = whole; c < shape.sub_columns; ++c) {
    spare |= static_cast<std::uint32_t>(q[c]) << ((c - whole) * shape.bits);
  }
  for (std::size_t w = 0; w < WordsPerSub(shape); ++w) words[w] |= (spare >> (2 * w) & 3) << 30;
}

void UnpackFields(const BlockShape& shape, const Words words, std::uint8_t* q) {
  const std::size_t fields = FieldsPerWord(shape);
  const std::uint32_t mask = (1u << shape.bits) - 1;
  for (std::size_t w = 0; w < WordsPerSub(shape); ++w) {
    for (std::size_t i = 0; i < fields; ++i) {
      q[w * fields + i] = static_cast<std::uint8_t>(words[w] >> (i * shape.bits) & mask);
    }
  }
  const std::size_t whole = WholeColumns(shape);
  if (whole == shape.sub_columns) return;
  std::uint32_t spare = 0;
  for (std::size_t w = 0; w < WordsPerSub(shape); ++w) spare |= (words[w] >> 30) << (2 * w);
  for (std::size_t c = whole; c < shape.sub_columns; ++c) {
    q[c] = static_cast<std::uint8_t>(spare >> ((c - whole) * shape.bits) & mask);
  }
}

// One row's GGUF block into its places in the packed block.
void PackBlock(const BlockShape& shape, const BlockFields& fields, std::size_t row,
               std::byte* packed) {
  std::memcpy(packed + 2 * row, &fields.d, 2);
  if (shape.has_minimum) std::memcpy(packed + 2 * (kPanelRows + row), &fields.m, 2);
  std::byte* sub_begin = packed + PackedHeaderBytes(shape);
  for (std::size_t sub = 0; sub < shape.subs(); ++sub, sub_begin += PackedSubBytes(shape)) {
    if (shape.has_sub_scales) std::memcpy(sub_begin + row, &fields.scales[sub], 1);
    if (shape.has_sub_scales && shape.has_minimum) {
      std::memcpy(sub_begin + kPanelRows + row, &fields.minimums[sub], 1);
    }
    Words words;
    PackFields(shape, fields.q + sub * shape.sub_columns, words);
    std::byte* out = sub_begin + PackedSubHeaderBytes(shape) + row * sizeof(std::uint32_t);
    for (std::size_t w = 0; w < WordsPerSub(shape); ++w) {
      std::memcpy(out + w * kWordRowBytes, &words[w], sizeof(std::uint32_t));
    }
  }
}

void PackQuantisedRow(const PackArgs& args, const std::byte* row, std::size_t lane,
                      std::byte* panel) {
  const BlockShape shape = ShapeOf(args.dtype);
  BlockFields fields;
  for (std::size_t c = 0; c < args.k; c += shape.columns) {
    ReadBlock(args.dtype, row, &fields);
    PackBlock(shape, fields, lane, panel);
    row += InfoOf(args.dtype).block_bytes;
    panel += PackedBlockBytes(shape);
  }
}

void PackPlainRow(const PackArgs& args, const std::byte* row, std::size_t lane, std::byte* panel) {
  const std::size_t bytes = InfoOf(args.dtype).block_bytes;
  for (std::size_t c = 0; c < args.k; ++c) {
    std::memcpy(panel + (c * kPanelRows + lane) * bytes, row + c * bytes, bytes);
  }
}

}  // namespace

void ReadPackedBlock(const BlockShape& shape, const std::byte* block, std::size_t row,
                     BlockFields* fields) {
  std::memcpy(&fields->d, block + 2 * row, 2);
  fields->m = 0;
  if (shape.has_minimum) std::memcpy(&fields->m, block + 2 * (kPanelRows + row), 2);
  const std::byte* sub_begin = block + PackedHeaderBytes(shape);
  for (std::size_t sub = 0; sub < shape.subs(); ++sub, sub_begin += PackedSubBytes(shape)) {
    if (shape.has_sub_scales) std::memcpy(&fields->scales[sub], sub_begin + row, 1);
    if (shape.has_sub_scales && shape.has_minimum) {
      std::memcpy(&fields->minimums[sub], sub_begin + kPanelRows + row, 1);
    }
    Words words;
    const std::byte* in = sub_begin + PackedSubHeaderBytes(shape) + row * sizeof(std::uint32_t);
    for (std::size_t w = 0; w < WordsPerSub(shape); ++w) {
      std::memcpy(&words[w], in + w * kWordRowBytes, sizeof(std::uint32_t));
    }
    UnpackFields(shape, words, fields->q + sub * shape.sub_columns);
  }
}

std::size_t PackedPanelBytes(DType dtype, std::size_t k) {
  const DTypeInfo& info = InfoOf(dtype);
  ASHLAR_CHECK(k % info.block_elements == 0, "k = {} is not a whole number of {} blocks", k,
               info.name);
  const std::size_t bytes = IsQuantised(dtype)
                                ? k / info.block_elements * PackedBlockBytes(ShapeOf(dtype))
                                : k * kPanelRows * info.block_bytes;
  return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

std::size_t PackedBytes(DType dtype, std::size_t n, std::size_t k) {
  return (n + kPanelRows - 1) / kPanelRows * PackedPanelBytes(dtype, k);
}

void PackPanels(const PackArgs& args) {
  const std::size_t panel_bytes = PackedPanelBytes(args.dtype, args.k);
  if (panel_bytes == 0) return;
  const std::size_t row_bytes = *RowBytes(args.dtype, args.k);
  for (std::size_t p = args.panel_begin; p < args.panel_end; ++p) {
    std::byte* panel = args.packed + p * panel_bytes;
    std::memset(panel, 0, panel_bytes);  // rows beyond n, and the padding
    const std::size_t lanes = std::min(kPanelRows, args.n - p * kPanelRows);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::byte* row = args.rows + (p * kPanelRows + lane) * row_bytes;
      if (IsQuantised(args.dtype)) {
        PackQuantisedRow(args, row, lane, panel);
      } else {
        PackPlainRow(args, row, lane, panel);
      }
    }
  }
}

}  // namespace ashlar::kernels
