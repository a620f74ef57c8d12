#include "gguf/file_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/rng.h"
#include "gguf/format.h"
#include "gguf/testing/gguf_writer.h"
#include "gguf/testing/sample_files.h"
#include "gguf/testing/walk.h"

namespace ashlar::gguf {
namespace {

using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

void ExpectError(std::span<const std::byte> bytes, ErrorCode code, const std::string& part) {
  const auto contents = ParseFile(bytes, "test.gguf");
  ASSERT_FALSE(contents.ok()) << "want: " << part;
  EXPECT_EQ(ErrorCodeName(contents.error().code), ErrorCodeName(code));
  EXPECT_THAT(contents.error().message, HasSubstr(part));
  EXPECT_THAT(contents.error().message, HasSubstr("'test.gguf', byte "));
}

void ExpectCorrupt(std::span<const std::byte> bytes, const std::string& part) {
  ExpectError(bytes, ErrorCode::kCorrupt, part);
}

void ExpectUnsupported(std::span<const std::byte> bytes, const std::string& part) {
  ExpectError(bytes, ErrorCode::kUnsupported, part);
}

// `bytes` with `value` written over what stands at `offset`.
template <typename T>
Bytes Patched(Bytes bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

// Little-endian bytes of the values, one after another: a value for SetRaw.
template <typename... T>
Bytes Packed(T... values) {
  Bytes bytes;
  const auto append = [&](auto value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  (append(values), ...);
  return bytes;
}

constexpr std::uint32_t kArrayCode = static_cast<std::uint32_t>(ValueType::kArray);
constexpr std::uint32_t kStringCode = static_cast<std::uint32_t>(ValueType::kString);
constexpr std::uint32_t kBoolCode = static_cast<std::uint32_t>(ValueType::kBool);

Bytes WithKey(const std::string& key, std::uint32_t type, const Bytes& payload) {
  GgufWriter writer;
  writer.SetRaw(key, type, payload);
  return writer.Build();
}

// --- Header ---

TEST(FileParser, RefusesWhatIsNotGguf) {
  const std::string_view text = "version https://git-lfs.github.com/spec/v1";
  ExpectCorrupt(std::as_bytes(std::span(text)), "fetch the file behind it");
  const std::string_view zip = "PK\x03\x04";
  ExpectCorrupt(std::as_bytes(std::span(zip)),
                "byte 0: not a GGUF file: it starts with 'PK\\x03\\x04' instead of 'GGUF'");
  ExpectCorrupt({}, "byte 0: the file ends inside the magic number 'GGUF': 4 bytes needed, 0 left");
}

TEST(FileParser, RefusesOtherVersionsAndByteOrders) {
  const Bytes bytes = GgufWriter().Build();
  ExpectUnsupported(Patched(bytes, 4, std::uint32_t{1}), "byte 4: GGUF version 1; versions 2 to 3");
  ExpectUnsupported(Patched(bytes, 4, std::uint32_t{4}), "byte 4: GGUF version 4; versions 2 to 3");
  ExpectUnsupported(Patched(bytes, 4, std::uint32_t{0x03000000}), "byte 4: a big-endian file");
  const std::string_view swapped("FUGG\0\0\0\x03", 8);
  ExpectUnsupported(std::as_bytes(std::span(swapped)), "a big-endian file");
}

TEST(FileParser, RefusesCountsThatTheFileCannotHold) {
  const Bytes bytes = GgufWriter().Build();  // 32 bytes, 8 of them after the header
  ExpectCorrupt(Patched(bytes, 8, kMaxU64), "byte 8: 18446744073709551615 tensors; at most 262144");
  ExpectCorrupt(Patched(bytes, 8, kMaxTensors + 1), "byte 8: 262145 tensors; at most 262144");
  ExpectCorrupt(Patched(bytes, 8, kMaxTensors),
                "byte 8: 262144 tensors and 0 keys need at least 8650752 bytes, but 8 are left");
  ExpectCorrupt(Patched(bytes, 16, kMaxU64), "byte 16: 18446744073709551615 keys; at most 65536");
  ExpectCorrupt(Patched(bytes, 16, kMaxKeys + 1), "byte 16: 65537 keys; at most 65536");
  ExpectCorrupt(Patched(bytes, 16, kMaxKeys),
                "byte 8: 0 tensors and 65536 keys need at least 917504 bytes, but 8 are left");
}

// --- Keys and values ---

TEST(FileParser, RefusesBadKeys) {
  const Bytes one = Packed(std::uint8_t{1});
  ExpectCorrupt(WithKey("", kBoolCode, one), "byte 24: the key '' is empty");
  ExpectCorrupt(WithKey("a\nb", kBoolCode, one), "the key 'a\\x0ab' contains a control character");
  ExpectCorrupt(WithKey("a\xFF", kBoolCode, one), "the key 'a\\xff' is not UTF-8");
  EXPECT_TRUE(ParseFile(WithKey(std::string(65535, 'k'), kBoolCode, one), "f").ok());
  ExpectCorrupt(WithKey(std::string(65536, 'k'), kBoolCode, one),
                "is 65536 bytes long; at most 65535 are possible");
}

TEST(FileParser, RefusesAKeyThatAppearsTwice) {
  GgufWriter writer;
  writer.SetBool("twice", true).SetBool("twicf", true);
  const Bytes bytes = writer.Build();
  // The second key begins after the header and one key of 8 + 5 + 4 + 1 bytes.
  ExpectCorrupt(Patched(bytes, 24 + 18 + 8 + 4, 'e'), "byte 42: key 'twice' appears a second time");
}

TEST(FileParser, RefusesUnknownValueTypes) {
  ExpectCorrupt(WithKey("k", 13, {}), "byte 33: the type of key 'k' is 13; 0 to 12 are possible");
  ExpectCorrupt(WithKey("k", 0xFFFFFFFF, {}), "the type of key 'k' is 4294967295");
  ExpectCorrupt(WithKey("k", kArrayCode, Packed(std::uint32_t{13}, std::uint64_t{0})),
                "byte 37: the element type of key 'k' is 13; 0 to 12 are possible");
}

TEST(FileParser, RefusesArraysOfArrays) {
  ExpectUnsupported(WithKey("k", kArrayCode, Packed(kArrayCode, std::uint64_t{0})),
                    "byte 37: the value of key 'k' is an array of arrays");
}

TEST(FileParser, RefusesHostileLengths) {
  for (const std::uint64_t length : {std::uint64_t{33}, kMaxU64, kMaxU64 - 45, kMaxU64 - 7,
                                     std::uint64_t{1} << 63, std::uint64_t{1} << 32}) {
    ExpectCorrupt(WithKey("k", kStringCode, Packed(length)),
                  fmt::format("byte 37: the value of key 'k' is {} bytes long, but", length));
    const Bytes bytes = WithKey("k", kBoolCode, Packed(std::uint8_t{1}));
    ExpectCorrupt(Patched(bytes, 24, length),
                  fmt::format("byte 24: the key is {} bytes long, but", length));
    ExpectCorrupt(WithKey("k", kArrayCode, Packed(kStringCode, std::uint64_t{1}, length)),
                  fmt::format("byte 49: the value of key 'k' is {} bytes long, but", length));
  }
}

TEST(FileParser, RefusesArrayCountsBeforeItAllocates) {
  for (std::uint32_t type = 0; type < kValueTypes; ++type) {
    if (type == kArrayCode) continue;
    for (const std::uint64_t count :
         {kMaxU64, kMaxU64 / 8 + 1, std::uint64_t{1} << 61, kMaxArrayElements + 1}) {
      ExpectCorrupt(
          WithKey("k", kArrayCode, Packed(type, count)),
          fmt::format("byte 41: the value of key 'k' has {} elements; at most 16777216", count));
    }
    ExpectCorrupt(WithKey("k", kArrayCode, Packed(type, kMaxArrayElements)),
                  "byte 41: the value of key 'k' has 16777216 elements, which need at least");
  }
}

TEST(FileParser, BoundsTheElementsOfAllArraysTogether) {
  GgufWriter writer;
  writer.SetIntegers("first", std::vector<std::int64_t>(2, 0), ValueType::kU8);
  writer.SetRaw("second", kArrayCode, Packed(std::uint32_t{0}, kMaxArrayElements - 2));
  ExpectCorrupt(writer.Build(), "has 16777214 elements, which need at least");
  writer.SetRaw("second", kArrayCode, Packed(std::uint32_t{0}, kMaxArrayElements - 1));
  ExpectCorrupt(writer.Build(), "has 16777215 elements; at most 16777216");
}

TEST(FileParser, RefusesBooleansThatAreNeitherZeroNorOne) {
  ExpectCorrupt(WithKey("k", kBoolCode, Packed(std::uint8_t{2})),
                "byte 37: the value of key 'k' is 2; a boolean is 0 or 1");
  ExpectCorrupt(WithKey("k", kArrayCode,
                        Packed(kBoolCode, std::uint64_t{2}, std::uint8_t{1}, std::uint8_t{255})),
                "byte 50: element 1 of the value of key 'k' is 255; a boolean is 0 or 1");
}

TEST(FileParser, RefusesArrayElementsAboveTheSignedRange) {
  const auto type = static_cast<std::uint32_t>(ValueType::kU64);
  ExpectUnsupported(
      WithKey("k", kArrayCode, Packed(type, std::uint64_t{1}, std::uint64_t{1} << 63)),
      "byte 49: element 0 of the value of key 'k' is 9223372036854775808; at most 2^63 - 1");
}

TEST(FileParser, RefusesBadAlignments) {
  for (const std::uint32_t alignment : {1u, 4u, 24u, 1u << 21, 0x80000000u}) {
    GgufWriter writer;
    writer.SetUnsigned(kAlignmentKey, alignment);
    ExpectCorrupt(writer.Build(), fmt::format("general.alignment is the unsigned integer {}; an "
                                              "unsigned power of two from 8 to 1048576 is needed",
                                              alignment));
  }
  GgufWriter zero;
  zero.SetUnsigned(kAlignmentKey, 0);
  ExpectCorrupt(zero.Build(), "general.alignment is the unsigned integer 0");
  GgufWriter text;
  text.Set(kAlignmentKey, "32");
  ExpectCorrupt(text.Build(), "general.alignment is the string '32'");
}

// --- Tensors ---

using RawTensor = GgufWriter::RawTensor;

Bytes WithTensors(std::initializer_list<RawTensor> tensors) {
  GgufWriter writer;
  for (const RawTensor& tensor : tensors) writer.AddTensorRaw(tensor);
  return writer.Build();
}

// An F32 tensor of `elements`.
RawTensor Floats(const std::string& name, std::uint64_t elements,
                 std::optional<std::uint64_t> offset = std::nullopt) {
  return {name, {elements}, 0, offset, Bytes(4 * elements)};
}

TEST(FileParser, RefusesBadTensorNames) {
  EXPECT_TRUE(ParseFile(WithTensors({Floats(std::string(64, 't'), 8)}), "f").ok());
  ExpectCorrupt(WithTensors({Floats(std::string(65, 't'), 8)}),
                "is 65 bytes long; at most 64 are possible");
  ExpectCorrupt(WithTensors({Floats("", 8)}), "byte 24: the tensor name '' is empty");
  ExpectCorrupt(WithTensors({Floats("\xC0\x80", 8)}), "the tensor name '\\xc0\\x80' is not UTF-8");
  ExpectCorrupt(WithTensors({Floats("a", 8), Floats("a", 8)}),
                "byte 57: tensor 'a' appears a second time");
}

TEST(FileParser, RefusesBadDims) {
  ExpectCorrupt(WithTensors({{"t", {}, 0, {}, Bytes(32)}}), "tensor 't' has 0 dims; 1 to 4");
  EXPECT_TRUE(ParseFile(WithTensors({{"t", {8, 1, 1, 1}, 0, {}, Bytes(32)}}), "f").ok());
  ExpectCorrupt(WithTensors({{"t", {8, 1, 1, 1, 1}, 0, {}, Bytes(32)}}),
                "byte 33: tensor 't' has 5 dims; 1 to 4 are possible");
  ExpectCorrupt(WithTensors({{"t", {8, 0}, 0, {}, Bytes(32)}}),
                "byte 45: dim 1 of tensor 't' is 0");
  ExpectCorrupt(WithTensors({{"t", {33}, TensorTypeCode(DType::kQ4_0), {}, Bytes(64)}}),
                "byte 24: tensor 't' has rows of 33 elements; Q4_0 packs 32 together");
}

TEST(FileParser, RefusesDimsWhoseProductOverflows) {
  const std::uint64_t half = std::uint64_t{1} << 32;
  const std::vector<std::vector<std::uint64_t>> cases = {{half, half},
                                                         {half, half, half, half},
                                                         {kMaxU64},
                                                         {kMaxU64, kMaxU64},
                                                         {2, 1ull << 63},
                                                         {(1ull << 56) + 1},
                                                         {1ull << 28, (1ull << 28) + 1}};
  for (const auto& dims : cases) {
    ExpectCorrupt(WithTensors({{"t", dims, 0, {}, Bytes(32)}}), ": more than 2^56 elements");
  }
  ExpectCorrupt(WithTensors({{"t", {1ull << 56}, 0, {}, Bytes(32)}}),
                "the data of tensor 't', 288230376151711744 bytes at offset 0, end outside");
}

TEST(FileParser, NamesTensorTypesItDoesNotRead) {
  ExpectUnsupported(WithTensors({{"t", {256}, 23, {}, Bytes(136)}}),
                    "byte 45: tensor 't' has type IQ4_XS; these are read: F32 F16 BF16 Q4_0");
  ExpectUnsupported(WithTensors({{"t", {32}, 4, {}, Bytes(84)}}), "tensor 't' has type Q4_2;");
  ExpectUnsupported(WithTensors({{"t", {32}, 99, {}, Bytes(84)}}),
                    "tensor 't' has type 99, which is unknown;");
}

TEST(FileParser, RefusesMisplacedTensors) {
  ExpectCorrupt(WithTensors({Floats("t", 8, 4)}),
                "byte 24: the data of tensor 't' are at offset 4, no multiple of 32");
  ExpectCorrupt(WithTensors({Floats("t", 8, 32)}),
                "the data of tensor 't', 32 bytes at offset 32, end outside the file, which has 32 "
                "bytes of tensor data from byte 64");
  ExpectCorrupt(WithTensors({Floats("t", 8, kMaxU64 - 31)}), "end outside the file");
  ExpectCorrupt(WithTensors({{"t", {9}, 0, {}, Bytes(32)}}), "36 bytes at offset 0, end outside");
}

TEST(FileParser, RefusesTensorsThatOverlap) {
  ExpectCorrupt(
      WithTensors({Floats("a", 16), Floats("b", 8, 32)}),
      "byte 57: the data of tensor 'b', at offset 32, overlap those of tensor 'a', 64 bytes "
      "at offset 0");
  ExpectCorrupt(WithTensors({Floats("a", 8, 32), Floats("b", 16, 0)}),
                "the data of tensor 'a', at offset 32, overlap those of tensor 'b'");
  ExpectCorrupt(WithTensors({Floats("a", 8, 0), Floats("b", 8, 0)}), "overlap those of tensor 'a'");
}

TEST(FileParser, TensorsMayLieInAnyOrderWithGaps) {
  const Bytes bytes = WithTensors(
      {Floats("a", 8, 64), Floats("b", 8, 0), Floats("c", 8, 128), {"d", {8}, 0, 96, Bytes(64)}});
  const auto contents = ParseFile(bytes, "f");
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  EXPECT_EQ(contents->tensors[0].name, "a");
  EXPECT_EQ(contents->tensors[0].data.data() - contents->tensors[1].data.data(), 64);
}

// --- Every byte ---

// What `bytes` hold, or nullopt when they are refused with a message that names the file.
std::optional<std::uint64_t> DigestOf(std::span<const std::byte> bytes) {
  const auto file = ModelFile::Parse(bytes, "f");
  if (file.ok()) return Walk(*file, bytes);
  EXPECT_TRUE(file.error().message.starts_with("'f'")) << file.error().message;
  return std::nullopt;
}

class EveryByte : public testing::TestWithParam<GgufWriter (*)()> {};

TEST_P(EveryByte, ATruncatedFileIsRefusedOrTheSame) {
  const Bytes bytes = GetParam()().Build();
  const auto whole = DigestOf(bytes);
  ASSERT_TRUE(whole.has_value());
  std::size_t same = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of just that size, so that a sanitizer sees a read behind its end.
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto digest = DigestOf(part);
    if (!digest) continue;
    EXPECT_EQ(*digest, *whole) << "cut at byte " << size;
    ++same;
  }
  EXPECT_LT(same, kDefaultAlignment);  // only the last padding may go
}

TEST_P(EveryByte, AFlippedBitIsRefusedOrReadAsWritten) {
  Bytes bytes = GetParam()().Build();
  const auto whole = DigestOf(bytes);
  std::size_t refused = 0;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = static_cast<std::byte>(1 << (RandomBits(1, 0, i) % 8));
    bytes[i] ^= bit;
    const auto digest = DigestOf(bytes);
    if (!digest) ++refused;
    if (digest && *digest != *whole) ++changed;
    bytes[i] ^= bit;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(changed, 0u);
  EXPECT_EQ(DigestOf(bytes), whole);
}

TEST_P(EveryByte, AHostileWordAnywhereIsRefusedOrReadAsWritten) {
  const Bytes bytes = GetParam()().Build();
  std::size_t refused = 0;
  for (std::size_t i = 0; i + 8 <= bytes.size(); ++i) {
    const std::uint64_t words[] = {kMaxU64, std::uint64_t{1} << 63, kMaxU64 - i};
    if (!DigestOf(Patched(bytes, i, words[i % 3]))) ++refused;
  }
  EXPECT_GT(refused, 0u);
}

// SmallModel's head without its weights: every byte of it matters.
GgufWriter FewTensors() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama")
      .SetUnsigned("general.alignment", 32)
      .SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", ""})
      .AddFloats("norm", {4}, std::vector<float>(4, 1.0f))
      .AddTensor("weight", {32, 2}, DType::kQ8_0, Bytes(68))
      .AddFloats("last", {2, 2, 1, 1}, std::vector<float>(4, 1.0f));
  return writer;
}

INSTANTIATE_TEST_SUITE_P(FileParser, EveryByte, testing::Values(&EveryValueType, &FewTensors),
                         [](const auto& test) {
                           return test.index == 0 ? std::string("EveryValueType")
                                                  : std::string("FewTensors");
                         });

}  // namespace
}  // namespace ashlar::gguf
