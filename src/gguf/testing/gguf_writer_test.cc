#include "gguf/testing/gguf_writer.h"

#include <gtest/gtest.h>

#include <fstream>

namespace ashlar::gguf {
namespace {

// Written out by hand from the format's description: the builder is checked against this, and the
// reader against the builder.
TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  const std::string expected(
      "GGUF"
      "\x03\0\0\0"
      "\x01\0\0\0\0\0\0\0"  // tensors
      "\x02\0\0\0\0\0\0\0"  // keys
      "\x01\0\0\0\0\0\0\0"
      "k"
      "\x08\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "hi"
      "\x02\0\0\0\0\0\0\0"
      "ar"
      "\x09\0\0\0"
      "\x03\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "\xFF\xFF\x02\0"
      "\x01\0\0\0\0\0\0\0"
      "t"
      "\x02\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0"
      "\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0\0\0"  // to byte 128
      "\0\0\x80\x3F\0\0\0\xC0"
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      160);
  GgufWriter writer;
  writer.Set("k", "hi").SetIntegers("ar", std::vector<std::int64_t>{-1, 2}, ValueType::kI16);
  writer.AddFloats("t", {2, 1}, std::vector<float>{1.0f, -2.0f});
  const std::vector<std::byte> bytes = writer.Build();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
}

TEST(GgufWriter, SettingAgainReplacesAndRemoveRemoves) {
  GgufWriter once;
  once.SetUnsigned("a", 2).SetBool("b", true);
  GgufWriter twice;
  twice.Set("a", "1").SetBool("b", true).SetBool("c", true).SetUnsigned("a", 2).Remove("c");
  EXPECT_EQ(once.Build(), twice.Build());
}

TEST(GgufWriter, WritesWhatItBuilds) {
  GgufWriter writer;
  writer.SetBool("b", true);
  const std::string path = testing::TempDir() + "/gguf_writer_test.gguf";
  ASSERT_TRUE(writer.WriteTo(path).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  const std::vector<std::byte> bytes = writer.Build();
  EXPECT_EQ(content, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

TEST(GgufWriter, SaysWhereItCannotWrite) {
  const Status status = GgufWriter().WriteTo("/nonexistent/folder/x.gguf");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("/nonexistent/folder/x.gguf"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::gguf
