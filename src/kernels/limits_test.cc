#include "kernels/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"

namespace ashlar::kernels {
namespace {

using testing::Random;

constexpr std::size_t kMaxUnits = 5;

// `bytes` random bytes at an address that is `misalignment` beyond a multiple of 64.
class Bytes {
 public:
  Bytes(std::size_t bytes, std::size_t misalignment) : storage_(bytes + 64 + misalignment) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    first_ = (64 - address % 64) % 64 + misalignment;
    Random random(bytes + misalignment);
    for (std::byte& byte : storage_) byte = static_cast<std::byte>(random.Bits());
  }
  std::byte* data() { return storage_.data() + first_; }

 private:
  std::vector<std::byte> storage_;
  std::size_t first_;
};

// check(loops, bytes, misalignment) for every instruction set that runs here.
template <typename Check>
void ForEverySize(Check check) {
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(NameOf(isa));
    for (std::size_t units = 0; units <= kMaxUnits; ++units) {
      for (const std::size_t misalignment : {0, 2, 34}) {
        SCOPED_TRACE(units);
        check(LimitLoopsFor(isa), units * kLimitBytes, misalignment);
      }
    }
  }
}

TEST(LimitLoops, EachIsaHasItsOwn) {
  for (const Isa isa : RunnableIsas()) EXPECT_EQ(LimitLoopsFor(isa).isa, isa);
}

TEST(LimitLoops, ReadAddsEveryWordOnce) {
  ForEverySize([](const LimitLoops& loops, std::size_t bytes, std::size_t misalignment) {
    Bytes data(bytes, misalignment);
    std::uint32_t want = 0;
    for (std::size_t i = 0; i < bytes; i += 4) {
      std::uint32_t word;
      std::memcpy(&word, data.data() + i, sizeof word);
      want += word;
    }
    EXPECT_EQ(loops.read(data.data(), bytes), want);
  });
}

// Small whole numbers: every order of adding them is exact.
TEST(LimitLoops, ReadF16FmaWeighsEveryHalfOnce) {
  ForEverySize([](const LimitLoops& loops, std::size_t bytes, std::size_t misalignment) {
    Bytes data(bytes, misalignment);
    Random random(bytes);
    float want = 0;
    for (std::size_t i = 0; i < bytes; i += 2) {
      const float x = static_cast<float>(random.Below(101)) - 50.0f;
      const std::uint16_t half = F32ToF16(x);
      std::memcpy(data.data() + i, &half, sizeof half);
      want += 3.0f * x;
    }
    EXPECT_EQ(loops.read_f16_fma(data.data(), bytes, 3.0f), want);
  });
}

TEST(LimitLoops, ReadInt8DotWeighsEveryByteOnceUpToTheLargestWeight) {
  for (const std::uint8_t weight : {std::uint8_t{0}, std::uint8_t{37}, kMaxLimitWeight}) {
    ForEverySize([weight](const LimitLoops& loops, std::size_t bytes, std::size_t misalignment) {
      Bytes data(bytes, misalignment);
      std::fill_n(data.data(), std::min<std::size_t>(bytes, 200), std::byte{0x80});  // -128
      std::uint32_t want = 0;
      for (std::size_t i = 0; i < bytes; ++i) {
        want += static_cast<std::uint32_t>(static_cast<std::int8_t>(data.data()[i]) * weight);
      }
      EXPECT_EQ(loops.read_int8_dot(data.data(), bytes, weight), want);
    });
  }
}

TEST(LimitLoops, FmaRunsEveryChainThroughEveryRound) {
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(NameOf(isa));
    const LimitLoops& loops = LimitLoopsFor(isa);
    const auto chains = static_cast<float>(loops.fma_per_round);
    EXPECT_EQ(loops.fma(0, 1.0f, 1.0f), 0.0f);
    EXPECT_EQ(loops.fma(1000, 1.0f, 2.0f), chains * 2000.0f);
    EXPECT_EQ(loops.fma(10, 2.0f, 1.0f), chains * 1023.0f);  // 1, 3, 7, ...
  }
}

TEST(LimitLoops, Int8DotRunsEveryChainThroughEveryRound) {
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(NameOf(isa));
    const LimitLoops& loops = LimitLoopsFor(isa);
    const auto products = static_cast<std::uint32_t>(loops.dot_per_round);
    EXPECT_EQ(loops.int8_dot(0, 100, 50), 0u);
    EXPECT_EQ(loops.int8_dot(1, kMaxLimitWeight, 127), products * 127 * 127);
    EXPECT_EQ(loops.int8_dot(777, kMaxLimitWeight, -128), 0u - products * 777 * 127 * 128);
  }
}

TEST(LimitLoops, ExpAddsEveryExponentialOnce) {
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(NameOf(isa));
    for (std::size_t count = 0; count <= kMaxUnits * kLimitFloats; count += kLimitFloats) {
      Random random(count);
      const std::vector<float> x = random.Floats(count, 3.0f);
      double want = 0;
      for (const float value : x) want += Exp(value);
      // Of at most 320 positive numbers, each rounding of the sum is within 2^-24: 2e-5.
      EXPECT_NEAR(LimitLoopsFor(isa).exp(x.data(), count), want, 2e-5 * want);
    }
  }
}

}  // namespace
}  // namespace ashlar::kernels
