#include "server/request_log.h"

#include <gtest/gtest.h>

#include <string>

#include "base/log.h"

namespace ashlar::server {
namespace {

std::string LoggedAt(const std::string& level, const RequestRecord& record) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(InitLog({.level = level, .format = "json"}).ok());
  RequestLog().OnRequestEnd(record, 1'234'567'890);
  std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(InitLog({}).ok());
  const std::size_t at = line.find("\"level\"");
  return at == std::string::npos ? line : line.substr(at);
}

void Fill(RequestRecord& record) {
  record.id = "req-1";
  record.route = "/v1/completions";
  record.method = "POST";
  record.status = 200;
}

TEST(RequestLog, AGenerationHasItsTokensAndTimes) {
  RequestRecord record;
  Fill(record);
  record.tenant = "acme";
  record.generation = {.sequences = 2,
                       .prompt_tokens = 20,
                       .cached_tokens = 16,
                       .completion_tokens = 7,
                       .queue_ns = 1'500'000,
                       .ttft_ns = 2'000'500,
                       .ending = Ending::kLength};
  EXPECT_EQ(LoggedAt("info", record),
            R"("level":"info","msg":"request","id":"req-1","method":"POST",)"
            R"("route":"/v1/completions","status":200,"ms":1234.567,"tenant":"acme","sequences":2,)"
            R"("prompt_tokens":20,"cached_tokens":16,"completion_tokens":7,"queue_ms":1.5,)"
            R"("ttft_ms":2,"finish":"length"})"
            "\n");
}

TEST(RequestLog, WhatGoesWrongIsLouderAndWhatIsRoutineIsQuieter) {
  RequestRecord record;
  Fill(record);
  record.is_routine = true;
  EXPECT_EQ(LoggedAt("info", record), "");
  EXPECT_NE(LoggedAt("debug", record).find(R"("level":"debug")"), std::string::npos);
  record.status = 401;
  EXPECT_NE(LoggedAt("info", record).find(R"("level":"info")"), std::string::npos);
  record.status = 503;
  record.client_left = true;
  const std::string line = LoggedAt("warning", record);
  EXPECT_NE(line.find(R"("level":"warning")"), std::string::npos);
  EXPECT_NE(line.find(R"("client_left":true)"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::server
