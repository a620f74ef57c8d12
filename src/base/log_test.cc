#include "base/log.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ashlar {
namespace {

const std::vector<LogField> kFields = {{"id", std::string_view("req-1")},
                                       {"say", std::string_view("two words")},
                                       {"status", std::int64_t{200}},
                                       {"bytes", std::uint64_t{18446744073709551615u}},
                                       {"ms", 1.5},
                                       {"ok", true},
                                       {"never", std::numeric_limits<double>::infinity()}};

TEST(Log, AJsonLineIsOneObjectWithTimeLevelMessageAndFields) {
  // 2026-01-31 12:34:56.000789 UTC
  EXPECT_EQ(FormatJsonLine({.time_us = 1769862896000789,
                            .level = LogLevel::kWarning,
                            .message = "a \"quoted\"\nline",
                            .fields = kFields}),
            R"({"ts":"2026-01-31T12:34:56.000789Z","level":"warning","msg":"a \"quoted\"\nline",)"
            R"("id":"req-1","say":"two words","status":200,"bytes":18446744073709551615,"ms":1.5,)"
            R"("ok":true,"never":null})");
}

TEST(Log, TextQuotesWhatIsNoWord) {
  EXPECT_EQ(FormatTextMessage("done", kFields),
            R"(done id=req-1 say="two words" status=200 bytes=18446744073709551615 ms=1.5 ok=true )"
            "never=null");
  EXPECT_EQ(FormatTextMessage("x", std::vector<LogField>{{"a", std::string_view("")},
                                                         {"b", std::string_view("x=y")},
                                                         {"c", std::string_view("\x1b[31m")}}),
            R"(x a="" b="x=y" c="\u001b[31m")");
}

TEST(Log, UnknownLevelsAndFormatsAreRefusedByName) {
  const Status level = InitLog({.level = "loud"});
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.error().message, "unknown log level 'loud'; use debug, info, warning or error");
  const Status format = InitLog({.format = "xml"});
  ASSERT_FALSE(format.ok());
  EXPECT_EQ(format.error().message, "unknown log format 'xml'; use text or json");
}

TEST(Log, WritesWholeLinesToStderr) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLog({.level = "info", .format = "json"}).ok());
  ASHLAR_LOG_INFO("plain {}", 1);
  ASHLAR_LOG_DEBUG("not at this level");
  LogFields(LogLevel::kInfo, "with fields", std::vector<LogField>{{"n", std::int64_t{2}}});
  LogFields(LogLevel::kDebug, "not at this level", {});
  std::string text = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(InitLog({}).ok());
  // All but the times.
  for (std::size_t at = 0; (at = text.find("\"ts\":\"", at)) != std::string::npos; at += 6) {
    text.erase(at + 6, text.find('"', at + 6) - at - 6);
  }
  EXPECT_EQ(text,
            "{\"ts\":\"\",\"level\":\"info\",\"msg\":\"plain 1\"}\n"
            "{\"ts\":\"\",\"level\":\"info\",\"msg\":\"with fields\",\"n\":2}\n");
}

}  // namespace
}  // namespace ashlar
