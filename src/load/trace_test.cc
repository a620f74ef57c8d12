#include "load/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace ashlar::load {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<TraceRequest>> Read(const std::string& text, const TraceOptions& options = {}) {
  std::istringstream in(text);
  return ReadTrace(in, "t.jsonl", options);
}

std::string MessageOf(const std::string& text) {
  const auto read = Read(text);
  return read.ok() ? "ok" : read.error().message;
}

TEST(Trace, ReadsRequestsInOrderOfTime) {
  const auto read = Read(
      R"({"timestamp": 500, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]})"
      "\n\n"
      R"({"timestamp": 0.5, "input_length": 512, "output_length": 1, "hash_ids": [3], "more": {}})"
      "\r\n");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].timestamp_ms, 0.5);
  EXPECT_EQ((*read)[0].input_tokens, 512U);
  EXPECT_EQ((*read)[1].output_tokens, 5U);
  EXPECT_THAT((*read)[1].hash_ids, ElementsAre(0, 7));
}

TEST(Trace, ReadsAsManyAsAskedFor) {
  const std::string line =
      R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [3]})";
  EXPECT_EQ(Read(line + "\n" + line + "\nnonsense", {.max_requests = 2})->size(), 2U);
}

TEST(Trace, EachFaultNamesFileLineAndWhatIsWrong) {
  const std::string good =
      R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [3]})"
      "\n";
  const auto with = [&](const char* object) { return MessageOf(good + object); };
  EXPECT_EQ(with("{\"timestamp\""), R"(t.jsonl:2: "{\"timestamp\"" is not a JSON object)");
  EXPECT_EQ(with("[1]"), R"(t.jsonl:2: "[1]" is not a JSON object)");
  EXPECT_THAT(with("\xFF\x01"), HasSubstr("t.jsonl:2: "));
  EXPECT_EQ(with("{}"), "t.jsonl:2: 'timestamp' is missing; it is a number of milliseconds");
  EXPECT_EQ(with(R"({"timestamp": -1})"),
            "t.jsonl:2: 'timestamp' is -1; it must be a number of milliseconds, 0 to 1e+12");
  EXPECT_EQ(with(R"({"timestamp": 0})"),
            "t.jsonl:2: 'input_length' is missing; it is a number of tokens");
  EXPECT_THAT(with(R"({"timestamp": 0, "input_length": 0})"), HasSubstr("'input_length' is 0;"));
  EXPECT_THAT(with(R"({"timestamp": 0, "input_length": 1.5})"), HasSubstr("is 1.5;"));
  EXPECT_THAT(with(R"({"timestamp": 0, "input_length": 9, "output_length": "x"})"),
              HasSubstr("'output_length' is \"x\";"));
  const std::string lengths = R"({"timestamp": 0, "input_length": 513, "output_length": 1)";
  EXPECT_EQ(with((lengths + "}").c_str()),
            "t.jsonl:2: 'hash_ids' is missing; it is a list of numbers");
  EXPECT_THAT(with((lengths + R"(, "hash_ids": 5})").c_str()), HasSubstr("'hash_ids' is 5;"));
  EXPECT_EQ(with((lengths + R"(, "hash_ids": [5]})").c_str()),
            "t.jsonl:2: 1 'hash_ids' for 513 tokens; in blocks of 512 tokens there are 2");
  EXPECT_EQ(with((lengths + R"(, "hash_ids": [5, -1]})").c_str()),
            "t.jsonl:2: 'hash_ids' has -1; each must be a whole number from 0");
  EXPECT_EQ(MessageOf(" \n"), "t.jsonl: no requests in this trace");
}

TEST(Trace, BlocksHaveTheSizeThatIsSaid) {
  const std::string line =
      R"({"timestamp": 0, "input_length": 33, "output_length": 1, "hash_ids": [1, 2, 3]})";
  EXPECT_TRUE(Read(line, {.block_tokens = 16}).ok());
  EXPECT_TRUE(Read(line, {.block_tokens = 11}).ok());
  EXPECT_FALSE(Read(line, {.block_tokens = 17}).ok());
}

TEST(Trace, ALineWithoutAnEndIsRefusedAtTheLimit) {
  EXPECT_EQ(MessageOf(std::string(2 * kMaxTraceLineBytes, ' ') + "x"),
            "t.jsonl:1: the line has more than 4194304 bytes");
}

TEST(Trace, AFileThatIsNotThereIsNamed) {
  const auto read = ReadTraceFile("/no/such/file", {});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "cannot open the trace '/no/such/file'");
}

}  // namespace
}  // namespace ashlar::load
