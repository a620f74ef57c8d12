#include "pull/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ashlar::pull {
namespace {

using ::testing::HasSubstr;

TEST(Source, AHubsRepositoryHasARevisionAndAFile) {
  const auto plain = std::get<HubSource>(*ParseSource("hf:Org/Some_model-1.5B-GGUF"));
  EXPECT_EQ(plain.repository, "Org/Some_model-1.5B-GGUF");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.file, "");
  const auto whole = std::get<HubSource>(*ParseSource("hf:o/r@v1/a:q4/model Q4.gguf"));
  EXPECT_EQ(whole.repository, "o/r");
  EXPECT_EQ(whole.revision, "v1/a");
  EXPECT_EQ(whole.file, "q4/model Q4.gguf");
}

TEST(Source, APackageHasAVersion) {
  const auto plain = std::get<PackageSource>(*ParseSource("pypi:some-model==1.0.2"));
  EXPECT_EQ(plain.project, "some-model");
  EXPECT_EQ(plain.version, "1.0.2");
  EXPECT_EQ(plain.member, "");
  EXPECT_EQ(std::get<PackageSource>(*ParseSource("pypi:m==1:m/data/x.gguf")).member,
            "m/data/x.gguf");
}

TEST(Source, AUrlIsSplitIntoHostAndPath) {
  const auto url = std::get<UrlSource>(*ParseSource("http://u:p@host:8000/a/b.gguf?x=/y#z"));
  EXPECT_EQ(url.url, "http://u:p@host:8000/a/b.gguf?x=/y#z");
  EXPECT_EQ(url.host, "host_8000");
  EXPECT_EQ(url.path, "a/b.gguf");
}

TEST(Source, WhatIsNoneIsRefusedByName) {
  for (const std::string text : {"",
                                 "model.gguf",
                                 "ftp://host/file",
                                 "hf:",
                                 "hf:one",
                                 "hf:a/b/c",
                                 "hf:../b",
                                 "hf:a/..",
                                 "hf:a/b:",
                                 "hf:a/b:/etc/passwd",
                                 "hf:a/b:x/../../y",
                                 "hf:a/b@:f",
                                 "hf:a/b@../x:f",
                                 "hf:a b/c",
                                 "hf:a/b:x\\y",
                                 "hf:a/b:x\ny",
                                 "pypi:model",
                                 "pypi:==1",
                                 "pypi:m==",
                                 "pypi:m==1:../x",
                                 "pypi:m==1/2",
                                 "https://host",
                                 "https://host/",
                                 "https:///file",
                                 "http://host/../x",
                                 "http://host/a//b"}) {
    const auto source = ParseSource(text);
    ASSERT_FALSE(source.ok()) << text;
    EXPECT_EQ(source.error().code, ErrorCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseSource("model.gguf").error().message, HasSubstr("'model.gguf' is no source"));
  EXPECT_FALSE(ParseSource("hf:a/" + std::string(5000, 'x')).ok());
}

}  // namespace
}  // namespace ashlar::pull
