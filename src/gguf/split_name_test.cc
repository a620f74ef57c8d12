#include "gguf/split_name.h"

#include <gtest/gtest.h>

namespace ashlar::gguf {
namespace {

TEST(SplitName, ReadsAndWritesTheSameName) {
  const std::string path = "/models/some-of-all-00002-of-00010.gguf";
  const auto name = ParseSplitName(path);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/models/some-of-all");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 10u);
  EXPECT_EQ(FormatSplitName(*name), path);
}

TEST(SplitName, AnEmptyPrefixIsAName) {
  EXPECT_TRUE(ParseSplitName("-00001-of-00001.gguf").has_value());
}

TEST(SplitName, RefusesEverythingElse) {
  for (const char* path :
       {"", "model.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-0001-of-00002.gguf",
        "m-00001-of-00002.bin", "m-00001_of-00002.gguf", "m_00001-of-00002.gguf",
        "m-0000x-of-00002.gguf", "m-00001-of-+0002.gguf", "00001-of-00002.gguf"}) {
    EXPECT_FALSE(ParseSplitName(path).has_value()) << path;
  }
}

}  // namespace
}  // namespace ashlar::gguf
