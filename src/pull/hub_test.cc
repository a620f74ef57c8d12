#include "pull/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ashlar::pull {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<HubFile> Files(const std::vector<std::string>& paths) {
  std::vector<HubFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back({.path = path, .bytes = 1, .sha256 = {}});
  return files;
}

std::vector<std::string> Chosen(const std::vector<std::string>& paths, const std::string& file) {
  const auto files = ChooseFiles(Files(paths), {.repository = "o/r", .file = file});
  std::vector<std::string> chosen;
  for (const HubFile& one : *files) chosen.push_back(one.path);
  return chosen;
}

TEST(Hub, TheOnlyModelNeedsNoName) {
  EXPECT_THAT(Chosen({"README.md", "m.gguf", "config.json"}, ""), ElementsAre("m.gguf"));
  EXPECT_THAT(Chosen({"b-00002-of-00002.gguf", "b-00001-of-00002.gguf"}, ""),
              ElementsAre("b-00001-of-00002.gguf", "b-00002-of-00002.gguf"));
}

TEST(Hub, OneOfSeveralIsNamedAndOfASplitModelAnyPartWillDo) {
  const std::vector<std::string> paths = {"a.gguf", "b-00001-of-00002.gguf",
                                          "b-00002-of-00002.gguf", "b-00001-of-00003.gguf",
                                          "x/a.gguf"};
  EXPECT_THAT(Chosen(paths, "a.gguf"), ElementsAre("a.gguf"));
  EXPECT_THAT(Chosen(paths, "x/a.gguf"), ElementsAre("x/a.gguf"));
  EXPECT_THAT(Chosen(paths, "b-00002-of-00002.gguf"),
              ElementsAre("b-00001-of-00002.gguf", "b-00002-of-00002.gguf"));
}

TEST(Hub, WithoutGgufAFolderOfSafetensorsIsTheModel) {
  const std::vector<std::string> paths = {"README.md",
                                          "consolidated.safetensors",
                                          "model-00002-of-00002.safetensors",
                                          "config.json",
                                          "model-00001-of-00002.safetensors",
                                          "model.safetensors.index.json",
                                          "onnx/model.safetensors",
                                          "tokenizer.json"};
  const auto folder =
      ElementsAre("config.json", "model.safetensors.index.json", "tokenizer.json",
                  "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
  EXPECT_THAT(Chosen(paths, ""), folder);
  EXPECT_THAT(Chosen({"config.json", "gptq.safetensors"}, ""),
              ElementsAre("config.json", "gptq.safetensors"));
  std::vector<std::string> both = paths;
  both.emplace_back("m.gguf");
  EXPECT_THAT(Chosen(both, ""), ElementsAre("m.gguf"));
  EXPECT_THAT(Chosen(both, "config.json"), folder);
}

TEST(Hub, WhatThereIsIsToldWhenNothingFits) {
  const auto several = ChooseFiles(Files({"a.gguf", "b.gguf"}), {.repository = "o/r", .file = ""});
  EXPECT_EQ(several.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(several.error().message, HasSubstr("a.gguf, b.gguf"));
  const auto gone = ChooseFiles(Files({"a.gguf"}), {.repository = "o/r", .file = "c.gguf"});
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(gone.error().message, HasSubstr("its GGUF models: a.gguf"));
  EXPECT_THAT(ChooseFiles(Files({"a.bin"}), {.repository = "o/r", .file = ""}).error().message,
              HasSubstr("no GGUF model"));
}

TEST(Hub, AListingHasSizesAndDigests) {
  const std::string digest(64, 'a');
  const auto files = ParseListing(
      R"([{"type":"directory","path":"x"},{"type":"file","path":"x/m.gguf","size":7,"lfs":{"oid":")" +
      digest + R"(","size":7}},{"type":"file","path":"README.md","size":0}])");
  ASSERT_TRUE(files.ok()) << files.error().message;
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].path, "x/m.gguf");
  EXPECT_EQ((*files)[0].bytes, 7u);
  EXPECT_EQ((*files)[0].sha256, digest);
  EXPECT_EQ((*files)[1].sha256, "");
}

TEST(Hub, HostileListingsAreCorrupt) {
  for (const char* const text :
       {"", "{}", "[1]", "[{}]", R"([{"type":"file"}])",
        R"([{"type":"file","path":"a","size":-1}])", R"([{"type":"file","path":"a","size":1.5}])",
        R"([{"type":"file","path":"../a","size":1}])", R"([{"type":"file","path":"/a","size":1}])",
        R"([{"type":"file","path":"a","size":1,"lfs":{"oid":"xyz"}}])", "[[[[[["}) {
    const auto files = ParseListing(text);
    ASSERT_FALSE(files.ok()) << text;
    EXPECT_EQ(files.error().code, ErrorCode::kCorrupt) << text;
  }
}

TEST(Hub, PathsAreEncodedInUrls) {
  EXPECT_EQ(UrlOf({.endpoint = "https://hub", .token = {}},
                  {.repository = "o/r", .revision = "v1", .file = {}}, "a b/c?#.gguf"),
            "https://hub/o/r/resolve/v1/a%20b/c%3F%23.gguf");
}

}  // namespace
}  // namespace ashlar::pull
