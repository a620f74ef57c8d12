#include "model/testing/tiny_tensors.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "base/rng.h"

namespace ashlar::model {
namespace {

void PutF16(std::byte* at, double value) {
  const std::uint16_t half = F32ToF16(static_cast<float>(value));
  std::memcpy(at, &half, sizeof(half));
}

}  // namespace

std::uint64_t TinyTensors::Bits() { return RandomBits(seed_, 0, next_++); }

// About normal: the sum of four uniforms, standard deviation 1.
float TinyTensors::Normal() {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += RandomUnit(seed_, 1, next_++);
  return static_cast<float>((sum - 2.0) * std::sqrt(3.0));
}

// Random codes with scales that give values of about `deviation`, around zero. The offsets are
// those of each format's block layout.
void TinyTensors::FillBlock(DType dtype, double deviation, std::byte* block) {
  const std::uint32_t bytes = InfoOf(dtype).block_bytes;
  for (std::uint32_t i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(Bits() & 0xFF);
  // The standard deviation of a uniform code of n levels is n / sqrt(12).
  const double four_bit = deviation / 4.6;
  const double five_bit = deviation / 9.2;
  switch (dtype) {
    case DType::kQ4_0:
      return PutF16(block, four_bit);
    case DType::kQ4_1:
      PutF16(block, four_bit);
      return PutF16(block + 2, -7.5 * four_bit);
    case DType::kQ5_0:
      return PutF16(block, five_bit);
    case DType::kQ5_1:
      PutF16(block, five_bit);
      return PutF16(block + 2, -15.5 * five_bit);
    case DType::kQ8_0:
      return PutF16(block, deviation / 74.0);
    case DType::kQ4_K:  // 6-bit sub-scales, 32 on average
      PutF16(block, four_bit / 32.0);
      return PutF16(block + 2, 7.5 * four_bit / 32.0);
    case DType::kQ5_K:
      PutF16(block, five_bit / 32.0);
      return PutF16(block + 2, 15.5 * five_bit / 32.0);
    case DType::kQ6_K:  // signed 8-bit sub-scales
      return PutF16(block + 208, deviation / (18.5 * 74.0));
    case DType::kQ2_K:  // 4-bit sub-scales, 7.5 on average
      PutF16(block + 80, deviation / (1.15 * 7.5));
      return PutF16(block + 82, 1.5 * deviation / (1.15 * 7.5));
    case DType::kQ3_K:  // sub-scales from -32 to 31
      return PutF16(block + 108, deviation / (2.3 * 18.5));
    case DType::kIQ4_NL:
      return PutF16(block, deviation / 70.0);
    case DType::kMXFP4:  // 2^(e - 128); levels deviate by 6
      block[0] = static_cast<std::byte>(128 + std::lround(std::log2(deviation / 6.0)));
      return;
    default:
      ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
  }
}

std::vector<std::byte> TinyTensors::DrawMatrix(DType dtype, std::uint64_t elements,
                                               double deviation) {
  std::vector<std::byte> bytes(*RowBytes(dtype, elements));
  const DTypeInfo& info = InfoOf(dtype);
  for (std::uint64_t at = 0; at < bytes.size(); at += info.block_bytes) {
    if (info.block_elements > 1) {
      FillBlock(dtype, deviation, bytes.data() + at);
      continue;
    }
    const float value = Normal() * static_cast<float>(deviation);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + at, &value, sizeof(value));
    } else {
      const std::uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(bytes.data() + at, &half, sizeof(half));
    }
  }
  return bytes;
}

std::vector<float> TinyTensors::DrawFloats(std::uint64_t size, const Spread& spread) {
  std::vector<float> values(size);
  for (float& value : values) value = spread.around + spread.deviation * Normal();
  return values;
}

void TinyTensors::Add(const std::string& name, const Shape& shape, DType dtype) {
  const double deviation = shape.gain / std::sqrt(static_cast<double>(shape.columns));
  const std::uint64_t stacked = shape.count > 0 ? shape.count : 1;
  std::vector<std::uint64_t> dims = {shape.columns, shape.rows};
  if (shape.count > 0) dims.push_back(shape.count);
  writer_.AddTensor(name, dims, dtype,
                    DrawMatrix(dtype, stacked * shape.rows * shape.columns, deviation));
}

void TinyTensors::Vector(const std::string& name, std::uint64_t size, const Spread& spread) {
  writer_.AddFloats(name, {size}, DrawFloats(size, spread));
}

void TinyTensors::Vectors(const std::string& name, std::uint64_t rows, std::uint64_t size,
                          const Spread& spread) {
  writer_.AddFloats(name, {size, rows}, DrawFloats(rows * size, spread));
}

}  // namespace ashlar::model
