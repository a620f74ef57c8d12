#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace ashlar {
namespace {

std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFile, ShowsTheBytesAndMoves) {
  const std::string path = WriteFile("mapped_file_test_bytes", "ashlar");
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  MappedFile moved = *std::move(file);
  ASSERT_EQ(moved.bytes().size(), 6u);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "ashlar", 6), 0);
  moved.WillNeed(0, 100);
  moved.DontNeed(0, 100);
  moved.DontNeed(100, 1);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "ashlar", 6), 0);
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const auto file = MappedFile::Open(WriteFile("mapped_file_test_empty", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, SaysWhatIsWrong) {
  const auto missing = MappedFile::Open("/nonexistent/model.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("/nonexistent/model.gguf"), std::string::npos);
  const auto folder = MappedFile::Open(testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
  EXPECT_NE(folder.error().message.find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace ashlar
