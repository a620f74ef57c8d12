#include "gguf/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "gguf/testing/gguf_writer.h"
#include "gguf/testing/sample_files.h"
#include "gguf/testing/walk.h"

namespace ashlar::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

// A folder of the running test's own, empty at first.
std::string TestFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path =
      testing::TempDir() + "/gguf_" + test->test_suite_name() + "_" + test->name();
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

ModelFile MustParse(const Bytes& bytes) {
  auto file = ModelFile::Parse(bytes, "test.gguf");
  EXPECT_TRUE(file.ok()) << file.error().message;
  return *std::move(file);
}

template <typename T>
void ExpectError(const Result<T>& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ErrorCodeName(result.error().code), ErrorCodeName(code));
  EXPECT_THAT(result.error().message, HasSubstr(part));
}

TEST(ModelFile, ReadsASmallModelFromDisk) {
  const std::string path = TestFolder() + "/model.gguf";
  ASSERT_TRUE(SmallModel().WriteTo(path).ok());
  const auto file = ModelFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;

  EXPECT_EQ(file->version(), 3u);
  EXPECT_THAT(file->paths(), ElementsAre(path));
  EXPECT_EQ(file->file_bytes(), std::filesystem::file_size(path));
  EXPECT_EQ(*file->String("general.architecture"), "llama");
  EXPECT_EQ(*file->Unsigned("llama.block_count"), 2u);
  EXPECT_FLOAT_EQ(static_cast<float>(*file->Number("llama.attention.layer_norm_rms_epsilon")),
                  1e-5f);
  EXPECT_TRUE(*file->Bool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ((*file->Strings("tokenizer.ggml.tokens"))[4], "ab");
  EXPECT_EQ((*file->Integers("tokenizer.ggml.token_type"))[7], 6);

  ASSERT_EQ(file->tensors().size(), 4 + AllDTypes().size());
  EXPECT_EQ(file->tensors()[0].name, "token_embd.weight");
  const Tensor* tensor = file->FindTensor("blk.0.Q6_K.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, DType::kQ6_K);
  EXPECT_THAT(tensor->dims, ElementsAre(256, 2));
  EXPECT_EQ(tensor->elements(), 512u);
  EXPECT_EQ(tensor->rows(), 2u);
  EXPECT_EQ(tensor->data.size(), 420u);
}

TEST(ModelFile, GivesTensorDataAsWritten) {
  const std::vector<float> row = {1.0f, -2.0f, 3.5f};
  GgufWriter writer;
  writer.AddFloats("first", {1}, std::vector<float>{9.0f}).AddFloats("row", {3}, row);
  const Bytes bytes = writer.Build();
  const ModelFile file = MustParse(bytes);
  const auto data = file.FindTensor("row")->data;
  EXPECT_TRUE(std::ranges::equal(data, std::as_bytes(std::span(row))));
}

TEST(ModelFile, VersionsTwoAndThreeReadAlike) {
  const Bytes third = SmallModel().Build();
  const Bytes second = SmallModel().set_version(2).Build();
  const ModelFile old_file = MustParse(second);
  EXPECT_EQ(old_file.version(), 2u);
  EXPECT_EQ(Walk(old_file, second), Walk(MustParse(third), third));
}

TEST(ModelFile, ReadsEveryAlignmentFromEightUp) {
  for (const std::uint32_t alignment : {8u, 16u, 32u, 64u, 4096u}) {
    const Bytes bytes = SmallModel().set_alignment(alignment).Build();
    const ModelFile file = MustParse(bytes);
    for (const Tensor& tensor : file.tensors()) {
      EXPECT_EQ(static_cast<std::size_t>(tensor.data.data() - bytes.data()) % alignment, 0u);
    }
  }
}

TEST(ModelFile, AFileOfHeaderAloneIsAFile) {
  const Bytes bytes = GgufWriter().Build();
  const ModelFile file = MustParse(Bytes(bytes.begin(), bytes.begin() + 24));
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_TRUE(file.tensors().empty());
}

TEST(ModelFile, TheLastTensorNeedsNoPadding) {
  GgufWriter writer;
  writer.AddFloats("t", {1}, std::vector<float>{1.0f});
  Bytes bytes = writer.Build();
  bytes.resize(bytes.size() - 28);
  EXPECT_EQ(MustParse(bytes).tensors().size(), 1u);
}

TEST(ModelFile, StaysValidWhenMoved) {
  const std::string path = TestFolder() + "/model.gguf";
  ASSERT_TRUE(SmallModel().WriteTo(path).ok());
  auto opened = ModelFile::Open(path);
  ASSERT_TRUE(opened.ok());
  const Tensor* before = opened->FindTensor("output_norm.weight");
  const std::byte* data = before->data.data();
  const ModelFile moved = *std::move(opened);
  EXPECT_EQ(moved.FindTensor("output_norm.weight")->data.data(), data);
  EXPECT_EQ(*moved.String("general.name"), "tiny");
}

TEST(ModelFile, DroppedPagesReadTheSameAgain) {
  const std::string path = TestFolder() + "/model.gguf";
  GgufWriter writer;
  writer.AddFloats("big", {1 << 14}, std::vector<float>(1 << 14, 2.0f));
  ASSERT_TRUE(writer.WriteTo(path).ok());
  const auto file = ModelFile::Open(path);
  ASSERT_TRUE(file.ok());
  const Bytes bytes = writer.Build();
  const Tensor& tensor = file->tensors()[0];
  file->DropPages(tensor.data);
  EXPECT_TRUE(std::ranges::equal(tensor.data, std::span(bytes).last(tensor.data.size())));
  file->DropPages();
  EXPECT_TRUE(std::ranges::equal(tensor.data, std::span(bytes).last(tensor.data.size())));

  const ModelFile in_memory = MustParse(bytes);
  in_memory.DropPages(in_memory.tensors()[0].data);  // nothing to give back
  in_memory.DropPages();
  EXPECT_EQ(in_memory.tensors()[0].data.back(), tensor.data.back());
}

TEST(ModelFile, ReadsEveryValueTypeToItsEnds) {
  const Bytes bytes = EveryValueType().Build();
  const ModelFile file = MustParse(bytes);
  EXPECT_EQ(*file.Unsigned("scalar.u8"), 255u);
  EXPECT_EQ(*file.Number("scalar.i8"), -128.0);
  EXPECT_EQ(*file.Unsigned("scalar.u16"), 65535u);
  EXPECT_EQ(*file.Number("scalar.i16"), -32768.0);
  EXPECT_EQ(*file.Unsigned("scalar.u32"), 4294967295u);
  EXPECT_EQ(*file.Number("scalar.i32"), -2147483648.0);
  EXPECT_EQ(*file.Unsigned("scalar.u64"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(std::get<std::int64_t>(*file.Find("scalar.i64")),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*file.Number("scalar.f32"), 1.5);
  EXPECT_EQ(*file.Number("scalar.f64"), -0.1);
  EXPECT_FALSE(*file.Bool("scalar.false"));
  EXPECT_TRUE(*file.Bool("scalar.true"));
  EXPECT_EQ(*file.String("scalar.string"), "text");
  EXPECT_EQ(*file.String("empty.string"), "");
  EXPECT_THAT(*file.Integers("array.u8"), ElementsAre(0, 7, 255));
  EXPECT_THAT(*file.Integers("array.i8"), ElementsAre(-128, 7, 127));
  EXPECT_THAT(*file.Integers("array.u16"), ElementsAre(0, 7, 65535));
  EXPECT_THAT(*file.Integers("array.i16"), ElementsAre(-32768, 7, 32767));
  EXPECT_THAT(*file.Integers("array.u32"), ElementsAre(0, 7, 4294967295));
  EXPECT_THAT(*file.Integers("array.i32"), ElementsAre(-2147483648, 7, 2147483647));
  EXPECT_THAT(*file.Integers("array.u64"),
              ElementsAre(0, 7, std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(*file.Integers("array.i64"), ElementsAre(std::numeric_limits<std::int64_t>::min(), 7,
                                                       std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(*file.Integers("array.bool"), ElementsAre(1, 0, 1));
  EXPECT_THAT(*file.Numbers("array.f32"), ElementsAre(-2.5, 0.0));
  EXPECT_THAT(*file.Numbers("array.f64"), ElementsAre(0.1, 1e300));
  EXPECT_THAT(*file.Strings("array.strings"), ElementsAre("", "one", "\xFF not UTF-8"));
}

TEST(ModelFile, IntegersConvertWhenTheValueFits) {
  GgufWriter writer;
  writer.SetSigned("plus", 7).SetSigned("minus", -7).SetUnsigned("unsigned", 8);
  writer.SetIntegers("integers", std::vector<std::int64_t>{1, 2});
  const Bytes bytes = writer.Build();
  const ModelFile file = MustParse(bytes);
  EXPECT_EQ(*file.Unsigned("plus"), 7u);
  EXPECT_EQ(*file.Number("minus"), -7.0);
  EXPECT_EQ(*file.Number("unsigned"), 8.0);
  EXPECT_THAT(*file.Numbers("integers"), ElementsAre(1.0, 2.0));
  ExpectError(file.Unsigned("minus"), ErrorCode::kCorrupt,
              "'test.gguf': key 'minus' holds the integer -7; an unsigned integer is needed");
}

TEST(ModelFile, AnEmptyArrayHasNoType) {
  const Bytes bytes = EveryValueType().Build();
  const ModelFile file = MustParse(bytes);
  for (const char* key : {"empty.strings", "empty.integers", "empty.floats"}) {
    EXPECT_TRUE(file.Strings(key).ok() && file.Strings(key)->empty()) << key;
    EXPECT_TRUE(file.Integers(key).ok() && file.Integers(key)->empty()) << key;
    EXPECT_TRUE(file.Numbers(key).ok() && file.Numbers(key)->empty()) << key;
  }
}

TEST(ModelFile, AValueOfTheWrongTypeIsNamed) {
  const Bytes bytes = EveryValueType().Build();
  const ModelFile file = MustParse(bytes);
  const auto expect = [](const auto& result, const char* part) {
    ExpectError(result, ErrorCode::kCorrupt, part);
  };
  expect(file.Unsigned("scalar.f32"), "'scalar.f32' holds the number 1.5; an unsigned integer");
  expect(file.Unsigned("scalar.true"), "holds the boolean true; an unsigned integer");
  expect(file.Number("scalar.string"), "holds the string 'text'; a number is needed");
  expect(file.Number("scalar.true"), "holds the boolean true; a number is needed");
  expect(file.Bool("scalar.u8"), "holds the unsigned integer 255; a boolean is needed");
  expect(file.String("array.strings"), "holds an array of 3 strings; a string is needed");
  expect(file.Strings("scalar.string"), "holds the string 'text'; an array of strings");
  expect(file.Strings("array.u8"), "holds an array of 3 integers; an array of strings");
  expect(file.Integers("array.f32"), "holds an array of 2 numbers; an array of integers");
  expect(file.Numbers("array.strings"), "holds an array of 3 strings; an array of numbers");
}

TEST(ModelFile, AMissingKeyIsAnErrorOrTheFallback) {
  const Bytes bytes = EveryValueType().Build();
  const ModelFile file = MustParse(bytes);
  EXPECT_EQ(file.Find("missing"), nullptr);
  ExpectError(file.Unsigned("missing"), ErrorCode::kCorrupt,
              "'test.gguf' has no key 'missing', which is needed");
  EXPECT_EQ(*file.UnsignedOr("missing", 5), 5u);
  EXPECT_EQ(*file.NumberOr("missing", 0.5), 0.5);
  EXPECT_TRUE(*file.BoolOr("missing", true));
  EXPECT_EQ(*file.StringOr("missing", "other"), "other");

  EXPECT_EQ(*file.UnsignedOr("scalar.u8", 5), 255u);
  EXPECT_EQ(*file.NumberOr("scalar.f32", 0.5), 1.5);
  EXPECT_FALSE(*file.BoolOr("scalar.false", true));
  EXPECT_EQ(*file.StringOr("scalar.string", "other"), "text");
  EXPECT_FALSE(file.UnsignedOr("scalar.string", 5).ok());
  EXPECT_FALSE(file.NumberOr("scalar.string", 5).ok());
  EXPECT_FALSE(file.BoolOr("scalar.string", true).ok());
  EXPECT_FALSE(file.StringOr("scalar.u8", "other").ok());
}

TEST(ModelFile, ARequiredTensorHasTheDimsAskedFor) {
  const Bytes bytes = SmallModel().Build();
  const ModelFile file = MustParse(bytes);
  const std::vector<std::uint64_t> dims = {32, 8};
  const auto found = file.RequireTensor("token_embd.weight", dims);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, file.FindTensor("token_embd.weight"));
  ExpectError(file.RequireTensor("token_embd.weight", {8, 32}), ErrorCode::kCorrupt,
              "'test.gguf': tensor 'token_embd.weight' has dims [32, 8]; [8, 32] are needed");
  ExpectError(file.RequireTensor("output.weight", dims), ErrorCode::kCorrupt,
              "'test.gguf' has no tensor 'output.weight', which is needed with dims [32, 8]");
}

TEST(ModelFile, OpenNamesAFileThatIsNotThere) {
  ExpectError(ModelFile::Open("/nonexistent/m.gguf"), ErrorCode::kNotFound, "/nonexistent/m.gguf");
}

TEST(ModelFile, OpenRefusesAnEmptyFile) {
  const std::string path = TestFolder() + "/empty.gguf";
  ASSERT_TRUE(WriteBytes(path, {}).ok());
  ExpectError(ModelFile::Open(path), ErrorCode::kCorrupt, "the file ends inside the magic number");
}

TEST(SplitModelFile, AnyPartOpensAll) {
  const std::string prefix = TestFolder() + "/model";
  const auto paths = SmallModel().WriteSplitTo(prefix, 3);
  ASSERT_TRUE(paths.ok());
  const Bytes whole_bytes = SmallModel().Build();
  const ModelFile whole = MustParse(whole_bytes);
  for (const std::string& path : *paths) {
    const auto file = ModelFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->paths(), *paths);
    EXPECT_EQ(*file->String("general.name"), "tiny");
    ASSERT_EQ(file->tensors().size(), whole.tensors().size());
    std::uint64_t bytes = 0;
    for (const std::string& part : *paths) bytes += std::filesystem::file_size(part);
    EXPECT_EQ(file->file_bytes(), bytes);
    for (std::size_t i = 0; i < whole.tensors().size(); ++i) {
      EXPECT_EQ(file->tensors()[i].name, whole.tensors()[i].name);
      EXPECT_TRUE(std::ranges::equal(file->tensors()[i].data, whole.tensors()[i].data));
      file->DropPages(file->tensors()[i].data);
    }
  }
}

TEST(SplitModelFile, PartsMayHoldNoTensors) {
  GgufWriter writer;
  writer.AddFloats("t", {1}, std::vector<float>{1.0f});
  const auto files = writer.BuildSplit(3);
  const std::vector<ModelFile::Part> parts = {
      {files[0], "first"}, {files[1], "second"}, {files[2], "third"}};
  const auto model = ModelFile::ParseParts(parts);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->tensors().size(), 1u);
}

TEST(SplitModelFile, ASplitOfOneIsAWholeFile) {
  const std::string path = TestFolder() + "/any name.gguf";
  ASSERT_TRUE(WriteBytes(path, SmallModel().BuildSplit(1)[0]).ok());
  const auto file = ModelFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
}

TEST(SplitModelFile, AMissingPartIsNamed) {
  const auto paths = SmallModel().WriteSplitTo(TestFolder() + "/model", 3);
  ASSERT_TRUE(paths.ok());
  std::filesystem::remove((*paths)[1]);
  const auto file = ModelFile::Open((*paths)[2]);
  ExpectError(file, ErrorCode::kNotFound, "part 2 of 3 of the split model");
  ExpectError(file, ErrorCode::kNotFound, (*paths)[1]);
}

TEST(SplitModelFile, APartNeedsANameThatTellsTheOthers) {
  const std::string folder = TestFolder();
  const std::vector<Bytes> files = SmallModel().BuildSplit(2);
  for (const char* name :
       {"/model.gguf", "/model-00002-of-00002.gguf", "/model-00001-of-00003.gguf"}) {
    ASSERT_TRUE(WriteBytes(folder + name, files[0]).ok());
    ExpectError(ModelFile::Open(folder + name), ErrorCode::kInvalidArgument,
                "is part 1 of 2 of a split model, so its name must end in -00001-of-00002.gguf");
  }
}

TEST(SplitModelFile, PartsMustBeEachOthers) {
  const std::vector<Bytes> files = SmallModel().BuildSplit(3);
  const ModelFile::Part first{files[0], "first"};
  const ModelFile::Part second{files[1], "second"};
  ExpectError(ModelFile::ParseParts(std::vector{first, second}), ErrorCode::kCorrupt,
              "'first' says that it is part 1 of 3, not 1 of 2");
  ExpectError(ModelFile::ParseParts(std::vector{first, first, second}), ErrorCode::kCorrupt,
              "'first' says that it is part 1 of 3, not 2 of 3");
  ExpectError(ModelFile::Parse(files[1], "second"), ErrorCode::kCorrupt,
              "'second' says that it is part 2 of 3, not 1 of 1");
  ExpectError(ModelFile::ParseParts({}), ErrorCode::kInvalidArgument, "no parts");
}

TEST(SplitModelFile, ATensorMayNotBeInTwoParts) {
  GgufWriter writer;
  writer.AddFloats("t", {1}, std::vector<float>{1.0f})
      .AddFloats("t", {1}, std::vector<float>{1.0f});
  const std::vector<Bytes> files = writer.BuildSplit(2);
  const std::vector<ModelFile::Part> parts = {{files[0], "first"}, {files[1], "second"}};
  ExpectError(ModelFile::ParseParts(parts), ErrorCode::kCorrupt,
              "'second': tensor 't' is also in an earlier part");
}

// Two parts that hold one tensor each, the first's split keys changed.
Result<ModelFile> ParseTwoParts(void (*change)(GgufWriter&)) {
  std::vector<Bytes> files;
  for (const char* name : {"a", "b"}) {
    GgufWriter writer;
    writer.SetUnsigned(kSplitNumberKey, files.size())
        .SetUnsigned(kSplitCountKey, 2)
        .SetUnsigned(kSplitTensorsKey, 2)
        .AddFloats(name, {1}, std::vector<float>{1.0f});
    if (files.empty()) change(writer);
    files.push_back(writer.Build());
  }
  const std::vector<ModelFile::Part> parts = {{files[0], "first"}, {files[1], "second"}};
  auto model = ModelFile::ParseParts(parts);
  if (model.ok()) (void)Walk(*model, parts);
  return model;
}

TEST(SplitModelFile, ChecksTheSplitKeys) {
  EXPECT_TRUE(ParseTwoParts([](GgufWriter&) {}).ok());
  EXPECT_TRUE(ParseTwoParts([](GgufWriter& writer) { writer.Remove(kSplitTensorsKey); }).ok());
  ExpectError(ParseTwoParts([](GgufWriter& writer) { writer.SetUnsigned(kSplitTensorsKey, 3); }),
              ErrorCode::kCorrupt, "'first': split.tensors.count is 3, but the parts hold 2");
  ExpectError(ParseTwoParts([](GgufWriter& writer) { writer.SetUnsigned(kSplitNumberKey, 2); }),
              ErrorCode::kCorrupt, "'first': split.no is 2; 0 to 1 is needed");
  ExpectError(ParseTwoParts([](GgufWriter& writer) { writer.Remove(kSplitNumberKey); }),
              ErrorCode::kCorrupt, "'first': split.no is missing");
  ExpectError(ParseTwoParts([](GgufWriter& writer) { writer.SetUnsigned(kSplitCountKey, 1001); }),
              ErrorCode::kCorrupt, "'first': split.count is 1001; at most 1000 parts");
  ExpectError(ParseTwoParts([](GgufWriter& writer) { writer.Set(kSplitCountKey, "2"); }),
              ErrorCode::kCorrupt, "'first': key 'split.count' holds the string '2'");
}

}  // namespace
}  // namespace ashlar::gguf
