#include "load/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ashlar::load {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMs = 1'000'000;

void Fill(Results& results) {
  for (std::int64_t i = 0; i < 10; ++i) {
    results.OnPiece((i + 1) * 100 * kMs, std::nullopt);
    results.OnPiece((i + 1) * 120 * kMs, 20 * kMs);
    results.OnSuccess({.intended_ns = i * 100 * kMs,
                       .sent_ns = i * 100 * kMs,
                       .first_ns = (i + 1) * 100 * kMs,
                       .last_ns = (i + 1) * 120 * kMs,
                       .end_ns = (i + 1) * 120 * kMs,
                       .prompt_tokens = 50,
                       .completion_tokens = 2,
                       .is_ok = true},
                      AnswerUsage{50, 2, 30});
  }
  results.OnFailure({.end_ns = 5 * kMs}, {"http 429", "<b>full</b>"});
  results.OnRunning(3);
}

const RunInfo kInfo = {.params = {{"url", "http://h:1"}, {"concurrency", 3}}, .duration_s = 2};

TEST(Report, EveryRowIsAnObjectWithNameParamsAndUnits) {
  Results results({.ttft_ns = 100 * kMs});
  Fill(results);
  const auto rows = JsonRows(kInfo, results);
  ASSERT_EQ(rows.size(), 7U);
  for (const auto& row : rows) EXPECT_EQ(row["params"], kInfo.params);
  EXPECT_EQ(rows[0]["name"], "serve/summary");
  EXPECT_EQ(rows[0]["requests"], 11);
  EXPECT_EQ(rows[0]["failed"], 1);
  EXPECT_EQ(rows[0]["requests_per_s"], 5);
  EXPECT_EQ(rows[0]["prompt_tokens"], 500);
  EXPECT_EQ(rows[0]["cached_tokens"], 300);
  EXPECT_EQ(rows[0]["completion_tokens_per_s"], 10);
  EXPECT_EQ(rows[0]["tokens_per_piece"], 1);
  EXPECT_EQ(rows[0]["good_requests"], 10);
  EXPECT_EQ(rows[0]["goodput_tokens_per_s"], 10);
  EXPECT_EQ(rows[1]["name"], "serve/ttft");
  EXPECT_EQ(rows[1]["count"], 10);
  EXPECT_EQ(rows[1]["mean_ms"], 100);
  EXPECT_EQ(rows[1]["p99_ms"], 100);
  EXPECT_EQ(rows[6]["name"], "serve/failure");
  EXPECT_EQ(rows[6]["kind"], "http 429");
  EXPECT_EQ(rows[6]["example"], "<b>full</b>");
}

TEST(Report, WhatTheServerDoesNotSayIsNull) {
  Results results({});
  results.OnSuccess({.end_ns = kMs, .completion_tokens = 1, .is_ok = true}, std::nullopt);
  const auto rows = JsonRows(kInfo, results);
  EXPECT_TRUE(rows[0]["cached_tokens"].is_null());
  EXPECT_EQ(rows[0]["has_usage"], false);
  EXPECT_FALSE(rows[0].contains("good_requests"));
  EXPECT_THAT(TextReport(kInfo, results), HasSubstr("the server counts none"));
}

TEST(Report, TheTableNamesFiguresAndFailures) {
  Results results({});
  Fill(results);
  const std::string text = TextReport(kInfo, results);
  EXPECT_THAT(text, HasSubstr("10 completed, 1 failed, at most 3 at a time"));
  EXPECT_THAT(text, HasSubstr("of them 300 cached (60.0%)"));
  EXPECT_THAT(text, HasSubstr("failed: 1 x http 429: <b>full</b>"));
  EXPECT_THAT(text, HasSubstr("ttft                  100.00"));
}

TEST(Report, ThePageIsWholeAndWhatServersSayIsNoMarkup) {
  Results results({});
  Fill(results);
  const std::string html = HtmlReport(kInfo, results);
  EXPECT_THAT(html, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;full&lt;/b&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<b>full")));
  for (const char* title : {">Latencies<", ">Requests<", ">Speed<"}) {
    EXPECT_THAT(html, HasSubstr(title));
  }
  for (const char* outside : {"src=", "href=", "@import", "nan", "inf "}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
}

TEST(Report, ARunWithoutAnswersHasReports) {
  const Results results({});
  EXPECT_EQ(JsonRows({}, results).size(), 1U);
  EXPECT_THAT(TextReport({}, results), HasSubstr("0 completed"));
  EXPECT_THAT(HtmlReport({}, results), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace ashlar::load
