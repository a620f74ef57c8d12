// The number formats a tensor can be stored in, as GGUF names them. A format packs `block_elements`
// consecutive elements of a row into `block_bytes` bytes (1 element for plain floats).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ashlar {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ2_K,
  kQ3_K,
  kIQ4_NL,
  kMXFP4,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;         // "Q4_K"
  std::uint32_t block_elements;  // elements packed together along a row
  std::uint32_t block_bytes;
};

// All formats, in the enum's order.
std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& InfoOf(DType dtype);
inline std::string_view NameOf(DType dtype) { return InfoOf(dtype).name; }

// Bytes of a row of `elements`, or nullopt when that is not a whole number of blocks. `elements` up
// to 2^56 cannot overflow.
std::optional<std::uint64_t> RowBytes(DType dtype, std::uint64_t elements);

}  // namespace ashlar
