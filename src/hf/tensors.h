// The safetensors format: one file's header, checked against its bytes.
//
// A file is a little-endian u64 N, N bytes of JSON, and data. The JSON has for each tensor
// {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [begin, end]}, offsets counted from
// the end of the JSON; "__metadata__" holds texts. Data are row-major, little endian, and by the
// format's rules leave no gap and overlap nowhere.
//
// Everything is hostile until checked. Cost: the header's bytes; data are touched by whoever reads
// them. Memory held is a few times the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::hf {

// The format's own limit of a header.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
// Ours. A model of 61 layers with 256 experts in int4 with four tensors each has 190,000.
inline constexpr std::size_t kMaxStoredTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxStoredNameBytes = 256;
inline constexpr std::size_t kMaxStoredDims = 8;

struct StoredTensor {
  std::string name;
  std::string_view dtype;            // "F32", as the format names it
  std::vector<std::uint64_t> shape;  // rows first; empty: a scalar
  std::span<const std::byte> data;   // exactly the bytes of its shape
};

// Bytes of an element; 0 for what the format does not have.
std::size_t BytesOfDtype(std::string_view dtype);

// The tensors of a file in memory, in order of their data. `name` stands for the file in errors;
// `bytes` must outlive the result. Errors: kCorrupt naming the tensor and the value (no header,
// one longer than the file, no JSON, a tensor twice, a shape whose bytes are not those of its
// offsets, offsets beyond the file, gaps and overlaps), kUnsupported (a dtype that the format does
// not have, and what is over the limits).
Result<std::vector<StoredTensor>> ParseTensors(std::span<const std::byte> bytes,
                                               const std::string& name);

}  // namespace ashlar::hf
