#include "trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "trace/lines.h"

namespace ashlar::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<Request>> Read(const std::string& text, const ReaderOptions& options = {}) {
  Reader reader(std::make_unique<std::istringstream>(text), "t.jsonl", options);
  return ReadAll(reader);
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
      "\r\n",
      {.order = LineOrder::kAny});
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
  EXPECT_EQ(with("{\"timestamp\""),
            R"(t.jsonl:2: "{\"timestamp\"" is not a JSON object, or is cut off)");
  EXPECT_EQ(with("[1]"), R"(t.jsonl:2: "[1]" is not a JSON object, or is cut off)");
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
  EXPECT_EQ(MessageOf(std::string(2 * kMaxLineBytes, ' ') + "x"),
            "t.jsonl:1: the line has more than 16777216 bytes");
}

TEST(Trace, AFileThatIsNotThereIsNamed) {
  const auto reader = Reader::Open("/no/such/file", {});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().message, "cannot open the trace '/no/such/file'");
}

std::string LineAt(const char* timestamp) {
  return fmt::format(
      "{{\"timestamp\": {}, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [3]}}\n",
      timestamp);
}

TEST(Trace, TimesNeverGoBack) {
  EXPECT_EQ(Read(LineAt("5") + LineAt("5") + LineAt("5.5"))->size(), 3U);
  EXPECT_EQ(MessageOf(LineAt("5") + "\n" + LineAt("4.999")),
            "t.jsonl:3: its time, 4.999 ms, is before the 5.000 ms of line 1; a trace is sorted by "
            "time");
}

TEST(Trace, BadLinesCanBeSkippedAndAreCounted) {
  const std::string text = LineAt("5") + "{\n" + LineAt("1e400") + LineAt("4") + LineAt("6");
  Reader reader(std::make_unique<std::istringstream>(text), "t.jsonl",
                {.on_bad = OnBadLine::kSkip});
  EXPECT_EQ(ReadAll(reader)->size(), 2U);
  EXPECT_EQ(reader.skipped(), 3U);
  EXPECT_THAT(reader.first_skipped(), HasSubstr("t.jsonl:2: "));
  EXPECT_EQ(reader.requests(), 2U);

  Reader hopeless(std::make_unique<std::istringstream>("1\n2\n"), "t.jsonl",
                  {.on_bad = OnBadLine::kSkip});
  EXPECT_THAT(ReadAll(hopeless).error().message,
              HasSubstr("no requests in this trace; 2 lines are bad, the first: t.jsonl:1"));
}

TEST(Trace, HugeNumbersAreNamed) {
  const auto with = [](const std::string& length) {
    return MessageOf(R"({"timestamp": 0, "output_length": 1, "hash_ids": [3], "input_length": )" +
                     length + "}");
  };
  for (const char* const huge : {"1073741825", "18446744073709551616", "1e99", "-1"}) {
    EXPECT_THAT(with(huge), HasSubstr("t.jsonl:1: 'input_length' is ")) << huge;
  }
  EXPECT_THAT(MessageOf(LineAt("1e13")), HasSubstr("'timestamp' is 1"));
}

TEST(Trace, AzuresLengthsAreRead) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
  const auto read = Read(header +
                         "2023-11-16 18:17:03.9799600,4808,10\r\n"
                         "2023-11-16 18:18:04,3180,8\n");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].input_tokens, 4808U);
  EXPECT_EQ((*read)[0].output_tokens, 10U);
  EXPECT_NEAR((*read)[1].timestamp_ms - (*read)[0].timestamp_ms, 60'020.04, 1e-3);
  EXPECT_EQ((*read)[1].timestamp_ms, 1700158684000.0);

  const auto with = [&](const char* line) { return MessageOf(header + line); };
  EXPECT_EQ(with("1,2"), "t.jsonl:2: '1,2' does not have the three fields " +
                             header.substr(0, header.size() - 2));
  EXPECT_THAT(with("2023-02-30 18:17:03,1,1"), HasSubstr("TIMESTAMP is '2023-02-30 18:17:03'"));
  EXPECT_THAT(with("2023-11-16 24:17:03,1,1"), HasSubstr("TIMESTAMP is"));
  EXPECT_THAT(with("2023-11-16 18:17:03,-1,1"), HasSubstr("ContextTokens is '-1'"));
  EXPECT_THAT(with("2023-11-16 18:17:03,1,99999999999999999999"),
              HasSubstr("GeneratedTokens is '9999"));
  EXPECT_EQ(MessageOf(header), "t.jsonl: no requests in this trace");
}

TEST(Trace, OurOwnLinesAreReadAsTheyWereWritten) {
  const Request request = {.timestamp_ms = 12.25,
                           .input_tokens = 2,
                           .output_tokens = 1,
                           .max_tokens = 7,
                           .hash_ids = {},
                           .prefixes = {0, 0xFFFFFF, 0x123456},
                           .scope = "00ff",
                           .tenant = "aa",
                           .priority = -3};
  const auto read = Read(FormatLine(request));
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Request& back = (*read)[0];
  EXPECT_EQ(back.timestamp_ms, request.timestamp_ms);
  EXPECT_EQ(back.input_tokens, 2U);
  EXPECT_EQ(back.output_tokens, 1U);
  EXPECT_EQ(back.max_tokens, 7U);
  EXPECT_EQ(back.prefixes, request.prefixes);
  EXPECT_EQ(back.scope, "00ff");
  EXPECT_EQ(back.tenant, "aa");
  EXPECT_EQ(back.priority, -3);

  const auto with = [](const char* more) {
    return MessageOf(R"({"timestamp": 0, "input_length": 1, "output_length": 0)" +
                     std::string(more) + "}");
  };
  EXPECT_EQ(with(R"(, "prefixes": "AAAA")"), "ok");
  EXPECT_THAT(with(R"(, "prefixes": "AAA")"), HasSubstr("must be base64"));
  EXPECT_THAT(with(R"(, "prefixes": "AA-A")"), HasSubstr("must be base64"));
  EXPECT_THAT(with(R"(, "prefixes": [])"), HasSubstr("must be base64"));
  EXPECT_THAT(with(R"(, "prefixes": "AAAAAAAA")"), HasSubstr("has 2 tokens for 1 of the prompt"));
  EXPECT_THAT(with(R"(, "prefixes": "AAAA", "priority": 2147483648)"), HasSubstr("'priority' is"));
  EXPECT_THAT(with(R"(, "prefixes": "AAAA", "scope": 3)"), HasSubstr("'scope' is 3"));
}

}  // namespace
}  // namespace ashlar::trace
