#include "hf/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "hf/testing/safetensors_writer.h"

namespace ashlar::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr std::array<float, 6> kValues = {0, 1, 2, 3, 4, 5};

SafetensorsWriter Two() {
  SafetensorsWriter writer;
  writer.header()["__metadata__"] = {{"format", "pt"}};
  writer.AddFloats("a.weight", {2, 2}, std::span(kValues).first(4));
  writer.AddFloats("b.bias", {2}, std::span(kValues).last(2));
  return writer;
}

// The message of what the header, changed so, is refused with.
std::string ErrorOf(const std::function<void(Json&)>& change,
                    ErrorCode code = ErrorCode::kCorrupt) {
  SafetensorsWriter writer = Two();
  change(writer.header());
  const std::vector<std::byte> bytes = writer.Build();
  const auto tensors = ParseTensors(bytes, "x.safetensors");
  EXPECT_FALSE(tensors.ok());
  if (tensors.ok()) return "";
  EXPECT_EQ(tensors.error().code, code) << tensors.error().message;
  EXPECT_THAT(tensors.error().message, HasSubstr("'x.safetensors'"));
  return tensors.error().message;
}

std::string ErrorOfHeader(const std::string& header) {
  const std::vector<std::byte> bytes = SafetensorsWriter().BuildWith(header);
  const auto tensors = ParseTensors(bytes, "x.safetensors");
  return tensors.ok() ? "" : tensors.error().message;
}

TEST(TensorsTest, ReadsWhatWasWritten) {
  const std::vector<std::byte> bytes = Two().Build();
  const auto tensors = ParseTensors(bytes, "x.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "a.weight");
  EXPECT_EQ((*tensors)[0].dtype, "F32");
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(std::memcmp((*tensors)[0].data.data(), kValues.data(), 16), 0);
  EXPECT_THAT((*tensors)[1].shape, ElementsAre(2));
  EXPECT_EQ(std::memcmp((*tensors)[1].data.data(), kValues.data() + 4, 8), 0);
}

TEST(TensorsTest, ScalarsAndEmptyTensorsAreTensors) {
  SafetensorsWriter writer;
  writer.AddFloats("scalar", {}, std::span(kValues).first(1));
  writer.AddFloats("empty", {0, 4}, {});
  const std::vector<std::byte> bytes = writer.Build();
  const auto tensors = ParseTensors(bytes, "x");
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ(tensors->size(), 2u);
}

TEST(TensorsTest, EveryPrefixOfAFileIsRefused) {
  const std::vector<std::byte> bytes = Two().Build();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> prefix(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(ParseTensors(prefix, "x").ok()) << size;
  }
}

TEST(TensorsTest, RefusesAHeaderLongerThanTheFile) {
  std::vector<std::byte> bytes = Two().Build();
  const std::uint64_t length = ~std::uint64_t{0};
  std::memcpy(bytes.data(), &length, sizeof length);
  const auto tensors = ParseTensors(bytes, "x");
  ASSERT_FALSE(tensors.ok());
  EXPECT_THAT(tensors.error().message, HasSubstr("18446744073709551615 bytes"));
}

TEST(TensorsTest, RefusesWhatIsNoHeader) {
  EXPECT_THAT(ErrorOfHeader(""), HasSubstr("no JSON"));
  EXPECT_THAT(ErrorOfHeader("[]"), HasSubstr("an object is needed"));
  EXPECT_THAT(ErrorOfHeader("{\"a\": 3}"), HasSubstr("'a' is 3"));
  EXPECT_THAT(ErrorOfHeader("{\"a\": {\"dtype\": \"F32\"}}"), HasSubstr("shape"));
  const std::string deep = "{\"a\": " + std::string(100000, '[');
  EXPECT_THAT(ErrorOfHeader(deep), HasSubstr("no JSON"));
  const std::string closed = "{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_THAT(ErrorOfHeader(closed), HasSubstr("no JSON"));
}

TEST(TensorsTest, RefusesANameTwice) {
  EXPECT_THAT(ErrorOfHeader("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
              HasSubstr("two tensors 'a'"));
}

TEST(TensorsTest, RefusesNamesThatAreNone) {
  EXPECT_THAT(ErrorOf([](Json& header) { header["a\nb"] = header["a.weight"]; }),
              HasSubstr("no name of a tensor"));
  EXPECT_THAT(ErrorOf([](Json& header) { header[std::string(257, 'n')] = header["a.weight"]; }),
              HasSubstr("no name of a tensor"));
}

TEST(TensorsTest, RefusesUnknownDtypes) {
  EXPECT_THAT(
      ErrorOf([](Json& header) { header["a.weight"]["dtype"] = "Q4"; }, ErrorCode::kUnsupported),
      HasSubstr("the dtype 'Q4'"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["dtype"] = 7; }),
              HasSubstr("the dtype 7"));
}

TEST(TensorsTest, RefusesBytesThatAreNotThoseOfTheShape) {
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["shape"] = {2, 3}; }),
              HasSubstr("needs 24 bytes, but its data_offsets [0, 16] are 16 apart"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["dtype"] = "F16"; }),
              HasSubstr("needs 8 bytes"));
}

TEST(TensorsTest, RefusesShapesThatOverflow) {
  EXPECT_THAT(ErrorOf([](Json& header) {
                header["a.weight"]["shape"] = {std::uint64_t{1} << 32, std::uint64_t{1} << 32, 4};
              }),
              HasSubstr("more than 2^56 elements"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["shape"] = {2, -2}; }),
              HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["shape"] = {2, 2.5}; }),
              HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["a.weight"]["shape"] = std::vector<int>(9, 1); }),
              HasSubstr("at most 8"));
}

TEST(TensorsTest, RefusesOffsetsBeyondTheFile) {
  EXPECT_THAT(ErrorOf([](Json& header) { header["b.bias"]["data_offsets"] = {16, 32}; }),
              HasSubstr("within the 24 bytes of data"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["b.bias"]["data_offsets"] = {24, 16}; }),
              HasSubstr("[24, 16]"));
  EXPECT_THAT(ErrorOf([](Json& header) { header["b.bias"]["data_offsets"] = {16}; }),
              HasSubstr("[16]"));
}

TEST(TensorsTest, RefusesOverlapsAndGaps) {
  EXPECT_THAT(ErrorOf([](Json& header) { header["b.bias"]["data_offsets"] = {8, 16}; }),
              HasSubstr("'b.bias' begin at 8, inside the 16"));
  EXPECT_THAT(ErrorOf([](Json& header) { header.erase("a.weight"); }),
              HasSubstr("'b.bias' begin at 16, beyond the 0"));
  EXPECT_THAT(ErrorOf([](Json& header) { header.erase("b.bias"); }),
              HasSubstr("24 bytes of data, of which its tensors take 16"));
}

}  // namespace
}  // namespace ashlar::hf
