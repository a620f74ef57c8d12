#include "hf/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/testing/gguf_writer.h"
#include "hf/testing/safetensors_writer.h"
#include "hf/testing/temporary_folder.h"

namespace ashlar::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string IndexError(const std::string& text) {
  const auto files = FilesOfIndex(text, "index");
  return files.ok() ? "" : files.error().message;
}

void WriteShard(const TemporaryFolder& folder, const std::string& file, const std::string& tensor) {
  const float value = 1;
  const auto bytes = SafetensorsWriter().AddFloats(tensor, {1}, {&value, 1}).Build();
  ASSERT_TRUE(gguf::WriteBytes(folder.File(file), bytes).ok());
}

std::string ErrorOf(const TemporaryFolder& folder) {
  const auto shards = OpenShards(folder.path());
  return shards.ok() ? "" : shards.error().message;
}

TEST(ShardsTest, AnIndexNamesItsFiles) {
  const auto files = FilesOfIndex(
      R"({"weight_map": {"a": "two.safetensors", "b": "one.safetensors", "c": "two.safetensors"}})",
      "index");
  ASSERT_TRUE(files.ok()) << files.error().message;
  EXPECT_THAT(*files, ElementsAre("one.safetensors", "two.safetensors"));
}

TEST(ShardsTest, AnIndexLeadsNowhereElse) {
  for (const char* const file :
       {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", ".safetensors",
        "..safetensors", "passwd", "x.bin", "", "a\\u0000.safetensors"}) {
    EXPECT_THAT(IndexError(std::string(R"({"weight_map": {"a": ")") + file + "\"}}"),
                HasSubstr("a .safetensors file of the same folder"))
        << file;
  }
}

TEST(ShardsTest, RefusesWhatIsNoIndex) {
  EXPECT_THAT(IndexError("{}"), HasSubstr("weight_map is missing"));
  EXPECT_THAT(IndexError(R"({"weight_map": []})"), HasSubstr("weight_map is an array"));
  EXPECT_THAT(IndexError(R"({"weight_map": {}})"), HasSubstr("names 0 files"));
  EXPECT_THAT(IndexError(R"({"weight_map": {"a": 3}})"), HasSubstr("tensor 'a' is in 3"));
  EXPECT_THAT(IndexError(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})"),
              HasSubstr("has tensor 'a' twice"));
}

TEST(ShardsTest, OpensTheOnlyFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder), HasSubstr("neither model.safetensors.index.json nor"));
  WriteShard(folder, "gptq.safetensors", "a");
  const auto shards = OpenShards(folder.path());
  ASSERT_TRUE(shards.ok()) << shards.error().message;
  EXPECT_EQ(shards->tensors.size(), 1u);
  WriteShard(folder, "other.safetensors", "b");
  EXPECT_THAT(ErrorOf(folder), HasSubstr("2 other .safetensors files"));
}

TEST(ShardsTest, IndexAndFilesMustAgree) {
  const TemporaryFolder folder;
  const std::string index = folder.File("model.safetensors.index.json");
  WriteShard(folder, "1.safetensors", "a");
  WriteShard(folder, "2.safetensors", "b");
  const auto with = [&](const std::string& map) {
    EXPECT_TRUE(WriteText(index, R"({"weight_map": )" + map + "}").ok());
    return ErrorOf(folder);
  };
  EXPECT_EQ(with(R"({"a": "1.safetensors", "b": "2.safetensors"})"), "");
  EXPECT_THAT(with(R"({"a": "2.safetensors", "b": "1.safetensors"})"),
              HasSubstr("tensor 'a' is in '1.safetensors'"));
  EXPECT_THAT(with(R"({"a": "1.safetensors", "c": "1.safetensors"})"),
              HasSubstr("has tensor 'c' in '1.safetensors', where it is not"));
  EXPECT_THAT(with(R"({"a": "1.safetensors", "b": "3.safetensors"})"), HasSubstr("3.safetensors"));
  EXPECT_THAT(with(R"({"b": "2.safetensors", "c": "1.safetensors"})"), HasSubstr("has it nowhere"));
}

}  // namespace
}  // namespace ashlar::hf
