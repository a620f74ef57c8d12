#include "hf/int4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "kernels/dequantize.h"

namespace ashlar::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fields = nlohmann::ordered_json;

// A matrix of random codes in groups, packed by the formulas of the layouts. (An unpacker of other
// hands is tests/oracle/forward/check_int4.py.)
struct Example {
  Int4Spec spec;
  std::uint64_t in = 128;
  std::uint64_t out = 16;
  std::uint64_t group = 32;
  std::vector<std::uint32_t> q, zero, qweight, qzeros, g_idx;
  std::vector<std::uint16_t> scale;
  StoredTensor stored[4];
  Int4Parts parts;

  explicit Example(Int4Spec with) : spec(with) {
    spec.group = group;
    const std::uint64_t groups = in / group;
    for (std::uint64_t i = 0; i < in * out; ++i) q.push_back(Random() % 16);
    for (std::uint64_t i = 0; i < groups * out; ++i) {
      // What a nibble can say: 0 to 15, or with GPTQ's offset 1 to 16.
      zero.push_back(spec.is_symmetric ? 8 : Random() % 16 + spec.zero_offset);
      scale.push_back(F32ToF16(0.01f * static_cast<float>(1 + Random() % 50)));
    }
    for (std::uint64_t i = 0; i < in; ++i) g_idx.push_back(static_cast<std::uint32_t>(i / group));
    Pack();
  }

  void Pack() {
    constexpr std::array<std::uint64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};
    const bool is_awq = spec.layout == Int4Layout::kAwq;
    const std::uint64_t groups = in / group;
    const auto pack_row = [&](std::span<const std::uint32_t> values, std::uint32_t offset,
                              std::vector<std::uint32_t>& words) {
      for (std::uint64_t o = 0; o < out; o += 8) {
        std::uint32_t word = 0;
        for (std::uint64_t n = 0; n < 8; ++n) {
          const std::uint64_t from = is_awq ? kAwqOrder[n] : n;
          word |= (values[o + from] - offset) << (4 * n);
        }
        words.push_back(word);
      }
    };
    qweight.clear();
    qzeros.clear();
    for (std::uint64_t g = 0; g < groups; ++g) {
      pack_row(std::span(zero).subspan(g * out, out), spec.zero_offset, qzeros);
    }
    if (is_awq) {
      for (std::uint64_t i = 0; i < in; ++i)
        pack_row(std::span(q).subspan(i * out, out), 0, qweight);
    } else {
      for (std::uint64_t i = 0; i < in; i += 8) {
        for (std::uint64_t o = 0; o < out; ++o) {
          std::uint32_t word = 0;
          for (std::uint64_t n = 0; n < 8; ++n) word |= q[(i + n) * out + o] << (4 * n);
          qweight.push_back(word);
        }
      }
    }
    const std::uint64_t in_words = is_awq ? in : in / 8;
    const std::uint64_t out_words = is_awq ? out / 8 : out;
    Store(0, "qweight", "I32", {in_words, out_words}, std::as_bytes(std::span(qweight)));
    Store(1, "qzeros", "I32", {groups, out / 8}, std::as_bytes(std::span(qzeros)));
    Store(2, "scales", "F16", {groups, out}, std::as_bytes(std::span(scale)));
    Store(3, "g_idx", "I32", {in}, std::as_bytes(std::span(g_idx)));
    parts = {&stored[0], &stored[1], &stored[2], is_awq ? nullptr : &stored[3]};
  }
  void Store(std::size_t at, const char* name, const char* dtype, std::vector<std::uint64_t> shape,
             std::span<const std::byte> data) {
    stored[at] = {name, dtype, std::move(shape), data};
  }

  float Value(std::uint64_t input, std::uint64_t output) const {
    const std::uint64_t at = g_idx[input] * out + output;
    return (static_cast<float>(q[input * out + output]) - static_cast<float>(zero[at])) *
           F16ToF32(scale[at]);
  }
  std::uint32_t Random() {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(seed >> 40);
  }
  std::uint64_t seed = 7;
};

Status AddTo(Builder& builder, const Example& example, std::vector<std::uint32_t> rows = {}) {
  return AddInt4(example.spec, example.parts, "m", "blk.0.attn_q.weight", std::move(rows), builder);
}

std::string ErrorOf(const Example& example) {
  Builder builder("llama");
  const Status status = AddTo(builder, example);
  return status.ok() ? "" : status.error().message;
}

// Every value of the tensor is that of the formula, bit for bit.
void ExpectExact(const Example& example, DType dtype, const std::vector<std::uint32_t>& rows = {}) {
  Builder builder("llama");
  const Status status = AddTo(builder, example, rows);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const gguf::Tensor& tensor = builder.contents().tensors[0];
  EXPECT_EQ(tensor.dtype, dtype);
  EXPECT_THAT(tensor.dims, ElementsAre(example.in, example.out));
  std::vector<std::byte> stored(tensor.bytes());
  tensor.ReadRows(0, 5, stored.data());  // in two parts
  tensor.ReadRows(5, example.out - 5, stored.data() + 5 * tensor.row_bytes());
  std::vector<float> values(example.in);
  for (std::uint64_t o = 0; o < example.out; ++o) {
    kernels::DequantizeRow(dtype, stored.data() + o * tensor.row_bytes(), example.in,
                           values.data());
    for (std::uint64_t c = 0; c < example.in; ++c) {
      const std::uint64_t input = tensor.column_order.empty() ? c : tensor.column_order[c];
      const float wanted = example.Value(input, rows.empty() ? o : rows[o]);
      ASSERT_EQ(std::memcmp(&values[c], &wanted, sizeof wanted), 0)
          << input << " of " << o << ": " << values[c] << " and " << wanted;
    }
  }
}

constexpr Int4Spec kAwq = {.layout = Int4Layout::kAwq};
constexpr Int4Spec kGptq = {.layout = Int4Layout::kGptq, .zero_offset = 1};
constexpr Int4Spec kGptqV2 = {.layout = Int4Layout::kGptq, .zero_offset = 0};
constexpr Int4Spec kSymmetric = {
    .layout = Int4Layout::kGptq, .zero_offset = 1, .is_symmetric = true};

TEST(Int4Test, ValuesKeepEveryBit) {
  ExpectExact(Example(kAwq), DType::kQ5_0);
  ExpectExact(Example(kGptq), DType::kQ5_0);
  ExpectExact(Example(kGptqV2), DType::kQ5_0);
}

TEST(Int4Test, ZerosOfEightNeedFourBits) { ExpectExact(Example(kSymmetric), DType::kQ4_0); }

// What a config says is one thing, what the zeros are another.
TEST(Int4Test, ZerosThatAreNotEightAreKept) {
  Example example(kGptq);
  example.spec.is_symmetric = true;
  ExpectExact(example, DType::kQ5_0);
}

TEST(Int4Test, ActOrderSortsColumnsByGroup) {
  Example example(kGptq);
  for (std::uint64_t i = 0; i < example.in; ++i) {
    example.g_idx[i] = static_cast<std::uint32_t>(i * 37 % example.in / example.group);
  }
  ExpectExact(example, DType::kQ5_0);
  Builder builder("llama");
  ASSERT_TRUE(AddTo(builder, example).ok());
  ASSERT_TRUE(AddTo(builder, example).ok());
  const auto& tensors = builder.contents().tensors;
  EXPECT_EQ(tensors[0].column_order.size(), example.in);
  EXPECT_EQ(tensors[0].column_order.data(), tensors[1].column_order.data());
}

TEST(Int4Test, RowsCanBeReordered) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < 16; ++i) rows.push_back(i * 5 % 16);
  ExpectExact(Example(kAwq), DType::kQ5_0, rows);
}

TEST(Int4Test, RefusesWhatDoesNotFit) {
  const auto with = [](void (*change)(Example&)) {
    Example example(kGptq);
    change(example);
    return ErrorOf(example);
  };
  EXPECT_EQ(with([](Example&) {}), "");
  EXPECT_THAT(with([](Example& e) { e.parts.qweight = nullptr; }),
              HasSubstr("'m.qweight' is missing"));
  EXPECT_THAT(with([](Example& e) { e.parts.scales = nullptr; }),
              HasSubstr("'m.scales' is missing"));
  EXPECT_THAT(with([](Example& e) { e.stored[2].dtype = "BF16"; }),
              HasSubstr("'m.scales' is BF16 [4, 16]; with the qweight of its matrix F16 [4, 16]"));
  EXPECT_THAT(with([](Example& e) { e.stored[1].shape = {2, 4}; }), HasSubstr("'m.qzeros'"));
  EXPECT_THAT(with([](Example& e) { e.stored[3].shape = {64}; }), HasSubstr("'m.g_idx'"));
  EXPECT_THAT(with([](Example& e) { e.spec.group = 48; }), HasSubstr("in groups of 48"));
  EXPECT_THAT(with([](Example& e) { e.stored[0].shape = {0, 16}; }), HasSubstr("0 inputs"));
  EXPECT_THAT(with([](Example& e) { e.g_idx[3] = 4; }), HasSubstr("'m.g_idx' has 4 at 3"));
  EXPECT_THAT(with([](Example& e) { e.g_idx[3] = ~0u; }), HasSubstr("4294967295"));
  EXPECT_THAT(with([](Example& e) { e.g_idx[0] = 1; }), HasSubstr("no multiple of 32"));
}

std::string SpecError(const Fields& more) {
  Fields fields = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  if (!more.is_null()) fields.update(more);
  const Json json = *Json::Parse(fields.dump(), "c");
  const auto spec = ParseInt4Spec(json.root(), "c");
  return spec.ok() ? "" : spec.error().message;
}

TEST(Int4Test, RefusesOtherLayoutsByName) {
  EXPECT_EQ(SpecError({}), "");
  EXPECT_EQ(SpecError({{"group_size", -1}, {"desc_act", true}}), "");
  EXPECT_EQ(SpecError({{"quant_method", "awq"}, {"version", "GEMM"}, {"zero_point", true}}), "");
  EXPECT_THAT(SpecError({{"quant_method", "awq"}, {"version", "gemv"}}), HasSubstr("'gemv'"));
  EXPECT_THAT(SpecError({{"quant_method", "awq"}, {"zero_point", false}}),
              HasSubstr("zero_point of the quantisation is false"));
  EXPECT_THAT(SpecError({{"quant_method", "bitsandbytes"}}), HasSubstr("'bitsandbytes'"));
  EXPECT_THAT(SpecError({{"bits", 8}}), HasSubstr("bits of the quantisation is 8; 4 is read"));
  EXPECT_THAT(SpecError({{"group_size", 16}}), HasSubstr("group_size of the quantisation is 16"));
  EXPECT_THAT(SpecError({{"checkpoint_format", "marlin"}}), HasSubstr("'marlin'"));
  EXPECT_THAT(SpecError({{"is_marlin_format", true}}), HasSubstr("is_marlin_format"));
  EXPECT_THAT(SpecError({{"dynamic", {{"-:lm_head", 1}}}}), HasSubstr("dynamic"));
}

}  // namespace
}  // namespace ashlar::hf
