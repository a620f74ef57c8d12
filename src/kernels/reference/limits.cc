#include "kernels/reference/limits.h"

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/kernel_set.h"

namespace ashlar::kernels::reference {
namespace {

// The number of type T at p, which need not be aligned.
template <typename T>
T At(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint32_t Product(std::uint8_t weight, std::int8_t x) {
  return static_cast<std::uint32_t>(std::int32_t{weight} * x);
}

std::uint32_t Read(const std::byte* data, std::size_t bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof sum) sum += At<std::uint32_t>(data + i);
  return sum;
}

float ReadF16Fma(const std::byte* data, std::size_t bytes, float weight) {
  float sum = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint16_t)) {
    sum = std::fma(F16ToF32(At<std::uint16_t>(data + i)), weight, sum);
  }
  return sum;
}

std::uint32_t ReadInt8Dot(const std::byte* data, std::size_t bytes, std::uint8_t weight) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) sum += Product(weight, At<std::int8_t>(data + i));
  return sum;
}

float Fma(std::size_t rounds, float factor, float addend) {
  float sum = 0;
  for (std::size_t i = 0; i < rounds; ++i) sum = std::fma(sum, factor, addend);
  return sum;
}

std::uint32_t Int8Dot(std::size_t rounds, std::uint8_t weight, std::int8_t x) {
  return static_cast<std::uint32_t>(rounds) * Product(weight, x);
}

float SumOfExp(const float* x, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += Exp(x[i]);
  return sum;
}

}  // namespace

const LimitLoops& Limits() {
  static constexpr LimitLoops kLoops = {
      .isa = Isa::kReference,
      .read = Read,
      .read_f16_fma = ReadF16Fma,
      .read_int8_dot = ReadInt8Dot,
      .fma = Fma,
      .int8_dot = Int8Dot,
      .exp = SumOfExp,
      .fma_per_round = 1,
      .dot_per_round = 1,
  };
  return kLoops;
}

}  // namespace ashlar::kernels::reference
