#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/block_reader.h"
#include "kernels/dequantize.h"
#include "kernels/packed_layout.h"

namespace ashlar::kernels {
namespace {

// A row's words of one unit.
struct UnitWords {
  std::uint32_t word[8] = {};
};

void UnpackUnit(const BlockShape& shape, const UnitWords& words, std::uint8_t* q) {
  for (std::size_t v = 0; v < kUnitVectors; ++v) {
    std::uint32_t four = 0;
    for (const Plane plane : {Plane::kLow, Plane::kHigh}) {
      const std::size_t bits = PlaneBits(shape, plane);
      if (bits == 0) continue;
      const PlanePlace place = PlaceIn(shape, plane, v);
      const std::uint32_t fields = words.word[place.word] >> place.shift & FieldsMask(bits);
      four |= fields << (plane == Plane::kLow ? 0 : PlaneBits(shape, Plane::kLow));
    }
    std::memcpy(q + v * kVectorColumns, &four, sizeof four);
  }
}

// A header's bytes of one row. Always inline: with a constant shape it is a few moves.
[[gnu::always_inline]] inline void PackHeader(const BlockShape& shape, const BlockFields& fields,
                                              std::size_t row, std::byte* header) {
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

// A plane of a unit, of all 16 rows.
template <DType Type, Plane Which>
[[gnu::always_inline]] inline void PutPlane(
    const std::uint32_t (&vectors)[kUnitVectors][kPanelRows], std::byte* out) {
  constexpr BlockShape kShape = ShapeOf(Type);
  constexpr std::size_t kBits = PlaneBits(kShape, Which);
  constexpr std::size_t kFrom = Which == Plane::kLow ? 0 : PlaneBits(kShape, Plane::kLow);
  constexpr std::size_t kEach = 8 / kBits;  // vectors of a word
  for (std::size_t first = 0; first < kUnitVectors; first += kEach) {
    std::uint32_t packed[kPanelRows] = {};
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::uint32_t* const vector = vectors[first + i];
      for (std::size_t lane = 0; lane < kPanelRows; ++lane) {
        packed[lane] |= (vector[lane] >> kFrom & FieldsMask(kBits)) << (kBits * i);
      }
    }
    const std::size_t word = PlaceIn(kShape, Which, first).word;
    std::memcpy(out + word * kWordRowBytes, packed, kWordRowBytes);
  }
}

// A unit of all 16 rows; `first`: its first column in each block.
template <DType Type>
void PackUnit(const BlockFields (&rows)[kPanelRows], std::size_t first, std::byte* out) {
  std::uint32_t vectors[kUnitVectors][kPanelRows];
  for (std::size_t lane = 0; lane < kPanelRows; ++lane) {
    for (std::size_t v = 0; v < kUnitVectors; ++v) {
      std::memcpy(&vectors[v][lane], rows[lane].code + first + v * kVectorColumns,
                  sizeof(std::uint32_t));
    }
  }
  PutPlane<Type, Plane::kLow>(vectors, out);
  if constexpr (PlaneBits(ShapeOf(Type), Plane::kHigh) > 0)
    PutPlane<Type, Plane::kHigh>(vectors, out);
}

// The rows of one panel, `lanes` of which exist.
struct PanelRows {
  const std::byte* rows;
  std::size_t row_bytes;
  std::size_t k;
  std::size_t lanes;
};

template <DType Type>
void PackQuantisedPanel(const PanelRows& from, std::byte* panel) {
  constexpr BlockShape kShape = ShapeOf(Type);
  constexpr std::size_t kUnits = UnitsPerBlock(kShape);
  const std::size_t block_bytes = InfoOf(Type).block_bytes;
  BlockFields fields[kPanelRows] = {};  // those of rows that do not exist stay 0
  for (std::size_t block = 0; block < from.k / kShape.columns; ++block) {
    const std::byte* const bytes = from.rows + block * block_bytes;
    std::byte* const header = panel + PlaceOfUnit(kShape, block * kUnits).header;
    if (block % BlocksPerChunk(kShape) == 0) std::memset(header, 0, ChunkHeaderBytes(kShape));
    for (std::size_t lane = 0; lane < from.lanes; ++lane) {
      ReadBlockOf<Type>(bytes + lane * from.row_bytes, &fields[lane]);
      PackHeader(kShape, fields[lane], lane, header);
    }
    for (std::size_t i = 0; i < kUnits; ++i) {
      PackUnit<Type>(fields, i * kUnitColumns,
                     panel + PlaceOfUnit(kShape, block * kUnits + i).words);
    }
  }
}

template <typename Element>
void PackPlainPanel(const PanelRows& from, std::byte* panel) {
  for (std::size_t c = 0; c < from.k; ++c) {
    Element column[kPanelRows] = {};
    for (std::size_t lane = 0; lane < from.lanes; ++lane) {
      std::memcpy(&column[lane], from.rows + lane * from.row_bytes + c * sizeof(Element),
                  sizeof(Element));
    }
    std::memcpy(panel + c * sizeof column, column, sizeof column);
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

void UnpackRow(const PackedMatrix& w, std::size_t row, float* out) {
  const std::byte* const panel = w.data + row / kPanelRows * PackedPanelBytes(w.dtype, w.k);
  const std::size_t lane = row % kPanelRows;
  if (!IsQuantised(w.dtype)) {
    const std::size_t bytes = InfoOf(w.dtype).block_bytes;
    for (std::size_t c = 0; c < w.k; ++c) {
      DequantizeRow(w.dtype, panel + (c * kPanelRows + lane) * bytes, 1, out + c);
    }
    return;
  }
  const BlockShape shape = ShapeOf(w.dtype);
  BlockFields fields;
  for (std::size_t block = 0; block < w.k / shape.columns; ++block) {
    ReadPackedBlock(shape, {panel, block, lane}, &fields);
    DequantizeBlock(shape, fields, out + block * shape.columns);
  }
}

void PackPanels(const PackArgs& args) {
  const std::size_t panel_bytes = PackedPanelBytes(args.dtype, args.k);
  if (panel_bytes == 0) return;
  const std::size_t row_bytes = *RowBytes(args.dtype, args.k);
  for (std::size_t p = args.panel_begin; p < args.panel_end; ++p) {
    std::byte* const panel = args.packed + p * panel_bytes;
    const PanelRows rows = {args.rows + p * kPanelRows * row_bytes, row_bytes, args.k,
                            std::min(kPanelRows, args.n - p * kPanelRows)};
    if (IsQuantised(args.dtype)) {
      ForQuantisedType(args.dtype, [&]<DType Type>() { PackQuantisedPanel<Type>(rows, panel); });
      continue;
    }
    const std::size_t column_bytes = kPanelRows * InfoOf(args.dtype).block_bytes;
    std::memset(panel + args.k * column_bytes, 0, panel_bytes - args.k * column_bytes);
    args.dtype == DType::kF32 ? PackPlainPanel<std::uint32_t>(rows, panel)
                              : PackPlainPanel<std::uint16_t>(rows, panel);
  }
}

}  // namespace ashlar::kernels
