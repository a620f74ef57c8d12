#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/packed_layout.h"

namespace ashlar::kernels {
namespace {

// A row's words of one unit.
struct UnitWords {
  std::uint32_t word[8] = {};
};

// Bits [from, from + bits) of q [32] into a plane of a unit, or back: four bytes at a time.
void PutPlane(const std::uint8_t* q, std::size_t bits, std::size_t from, std::uint32_t* words) {
  for (std::size_t v = 0; v < kUnitVectors; ++v) {
    const PlanePlace place = PlaceInPlane(bits, v);
    std::uint32_t four;
    std::memcpy(&four, q + v * kVectorColumns, sizeof four);
    words[place.word] |= (four >> from & FieldsMask(bits)) << place.shift;
  }
}
void AddPlane(const std::uint32_t* words, std::size_t bits, std::size_t from, std::uint8_t* q) {
  for (std::size_t v = 0; v < kUnitVectors; ++v) {
    const PlanePlace place = PlaceInPlane(bits, v);
    std::uint32_t four;
    std::memcpy(&four, q + v * kVectorColumns, sizeof four);
    four |= (words[place.word] >> place.shift & FieldsMask(bits)) << from;
    std::memcpy(q + v * kVectorColumns, &four, sizeof four);
  }
}

UnitWords PackUnit(const BlockShape& shape, const std::uint8_t* q) {
  UnitWords words;
  PutPlane(q, LowBits(shape), 0, words.word);
  if (HighBits(shape) > 0) {
    PutPlane(q, HighBits(shape), LowBits(shape), words.word + LowBits(shape));
  }
  return words;
}

void UnpackUnit(const BlockShape& shape, const UnitWords& words, std::uint8_t* q) {
  std::memset(q, 0, kUnitColumns);
  AddPlane(words.word, LowBits(shape), 0, q);
  if (HighBits(shape) > 0) {
    AddPlane(words.word + LowBits(shape), HighBits(shape), LowBits(shape), q);
  }
}

// A header's bytes of one row.
void PackHeader(const BlockShape& shape, const BlockFields& fields, std::size_t row,
                std::byte* header) {
  std::memcpy(header + 2 * row, &fields.d, 2);
  if (shape.has_minimum) std::memcpy(header + 2 * (kPanelRows + row), &fields.m, 2);
  if (!shape.has_sub_scales) return;
  std::byte* sub_header = header + PackedSubHeadersOffset(shape);
  for (std::size_t sub = 0; sub < shape.subs(); ++sub) {
    std::memcpy(sub_header + row, &fields.scales[sub], 1);
    if (shape.has_minimum) std::memcpy(sub_header + kPanelRows + row, &fields.minimums[sub], 1);
    sub_header += PackedSubHeaderBytes(shape);
  }
}

void PackQuantisedRow(const PackArgs& args, const std::byte* row, std::size_t lane,
                      std::byte* panel) {
  const BlockShape shape = ShapeOf(args.dtype);
  const std::size_t units = UnitsPerBlock(shape);
  BlockFields fields;
  for (std::size_t block = 0; block < args.k / shape.columns; ++block) {
    ReadBlock(args.dtype, row + block * InfoOf(args.dtype).block_bytes, &fields);
    PackHeader(shape, fields, lane, panel + PlaceOfUnit(shape, block * units).header);
    for (std::size_t i = 0; i < units; ++i) {
      const UnitWords words = PackUnit(shape, fields.code + i * kUnitColumns);
      std::byte* const out = panel + PlaceOfUnit(shape, block * units + i).words;
      for (std::size_t w = 0; w < shape.bits; ++w) {
        std::memcpy(out + w * kWordRowBytes + lane * sizeof(std::uint32_t), &words.word[w],
                    sizeof(std::uint32_t));
      }
    }
  }
}

void PackPlainRow(const PackArgs& args, const std::byte* row, std::size_t lane, std::byte* panel) {
  const std::size_t bytes = InfoOf(args.dtype).block_bytes;
  for (std::size_t c = 0; c < args.k; ++c) {
    std::memcpy(panel + (c * kPanelRows + lane) * bytes, row + c * bytes, bytes);
  }
}

}  // namespace

void ReadPackedBlock(const BlockShape& shape, const PanelBlock& from, BlockFields* fields) {
  const std::size_t units = UnitsPerBlock(shape);
  const std::byte* header = from.panel + PlaceOfUnit(shape, from.block * units).header;
  std::memcpy(&fields->d, header + 2 * from.row, 2);
  fields->m = 0;
  if (shape.has_minimum) std::memcpy(&fields->m, header + 2 * (kPanelRows + from.row), 2);
  const std::byte* sub_header = header + PackedSubHeadersOffset(shape) + from.row;
  for (std::size_t sub = 0; shape.has_sub_scales && sub < shape.subs(); ++sub) {
    std::memcpy(&fields->scales[sub], sub_header, 1);
    if (shape.has_minimum) std::memcpy(&fields->minimums[sub], sub_header + kPanelRows, 1);
    sub_header += PackedSubHeaderBytes(shape);
  }
  for (std::size_t i = 0; i < units; ++i) {
    const std::byte* const unit = from.panel + PlaceOfUnit(shape, from.block * units + i).words;
    UnitWords words;
    for (std::size_t w = 0; w < shape.bits; ++w) {
      std::memcpy(&words.word[w], unit + w * kWordRowBytes + from.row * sizeof(std::uint32_t),
                  sizeof(std::uint32_t));
    }
    UnpackUnit(shape, words, fields->code + i * kUnitColumns);
  }
}

std::size_t PackedPanelBytes(DType dtype, std::size_t k) {
  const DTypeInfo& info = InfoOf(dtype);
  ASHLAR_CHECK(k % info.block_elements == 0, "k = {} is not a whole number of {} blocks", k,
               info.name);
  std::size_t bytes = k * kPanelRows * info.block_bytes;
  if (IsQuantised(dtype)) {
    const BlockShape shape = ShapeOf(dtype);
    const std::size_t units = k / kUnitColumns;
    bytes = units == 0 ? 0 : PlaceOfUnit(shape, units - 1).words + PackedUnitBytes(shape);
  }
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
