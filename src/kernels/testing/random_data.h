// Seeded inputs for kernel tests and benchmarks.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"
#include "base/rng.h"
#include "kernels/packed_matrix.h"

namespace ashlar::kernels::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t Bits() { return RandomBits(seed_, 0, next_++); }
  std::size_t Below(std::size_t limit) { return Bits() % limit; }
  // Uniform in [-1, 1).
  float Unit() { return static_cast<float>(static_cast<double>(Bits() >> 11) * 0x1p-52 - 1.0); }

  std::vector<float> Floats(std::size_t count, float magnitude = 1.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = Unit() * magnitude;
    return values;
  }

  // `rows` GGUF rows of k elements: random bits everywhere, but f16 scales (and plain floats) are
  // finite and of the size that weights have.
  std::vector<std::byte> Rows(DType dtype, std::size_t rows, std::size_t k) {
    const DTypeInfo& info = InfoOf(dtype);
    std::vector<std::byte> bytes(rows * *RowBytes(dtype, k));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(Bits());
    for (std::size_t at = 0; at < bytes.size(); at += info.block_bytes) {
      switch (dtype) {
        case DType::kF32: {
          const float value = Unit();
          std::memcpy(bytes.data() + at, &value, sizeof value);
          break;
        }
        case DType::kBF16: {
          const std::uint16_t value = F32ToBf16(Unit());
          std::memcpy(bytes.data() + at, &value, sizeof value);
          break;
        }
        case DType::kQ4_1:
        case DType::kQ5_1:
        case DType::kQ4_K:
        case DType::kQ5_K:
          PutHalf(bytes.data() + at);
          PutHalf(bytes.data() + at + 2);
          break;
        case DType::kQ2_K:
          PutHalf(bytes.data() + at + 80);
          PutHalf(bytes.data() + at + 82);
          break;
        case DType::kQ3_K:
          PutHalf(bytes.data() + at + 108);
          break;
        case DType::kQ6_K:
          PutHalf(bytes.data() + at + 208);
          break;
        case DType::kMXFP4:  // 2^-12 to 2^-5
          bytes[at] = static_cast<std::byte>(116 + Below(8));
          break;
        default:
          PutHalf(bytes.data() + at);
      }
    }
    return bytes;
  }

 private:
  void PutHalf(std::byte* at) {
    const std::uint16_t half = F32ToF16(Unit() * 0.05f);
    std::memcpy(at, &half, sizeof half);
  }

  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

// x[i] = ((37 i) mod 101 - 50) / 25: the reference vector of the golden figures.
inline std::vector<float> GoldenVector(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(static_cast<int>(37 * i % 101) - 50) / 25.0f;
  }
  return x;
}

// Floats at an address that is a multiple of 64 plus `misalignment` floats.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::size_t size, std::size_t misalignment = 0)
      : storage_(size + 16 + misalignment), size_(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    first_ = (64 - address % 64) % 64 / sizeof(float) + misalignment;
  }
  float* data() { return storage_.data() + first_; }
  std::span<float> span() { return {data(), size_}; }

 private:
  std::vector<float> storage_;
  std::size_t first_;
  std::size_t size_;
};

// A packed matrix that owns its bytes.
class OwnedMatrix {
 public:
  OwnedMatrix(DType dtype, std::size_t n, std::size_t k, const std::byte* rows)
      : storage_(PackedBytes(dtype, n, k) / sizeof(float)) {
    auto* packed = reinterpret_cast<std::byte*>(storage_.data());
    view_ = {dtype, n, k, packed};
    PackPanels({.dtype = dtype,
                .n = n,
                .k = k,
                .rows = rows,
                .packed = packed,
                .panel_begin = 0,
                .panel_end = view_.panels()});
  }
  const PackedMatrix* view() const { return &view_; }

 private:
  AlignedFloats storage_;
  PackedMatrix view_;
};

}  // namespace ashlar::kernels::testing
