#include "load/load_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "load/testing/raw_server.h"
#include "net/http_server.h"

namespace ashlar::load {
namespace {

using Json = nlohmann::json;

std::string Event(std::string_view text, bool is_last) {
  const Json event = {
      {"choices", {{{"text", text}, {"finish_reason", is_last ? Json("length") : Json(nullptr)}}}}};
  return "data: " + event.dump() + "\n\n";
}

// Answers every completion at once with as many tokens as it asks for.
void Answer(const net::HttpRequest& request, const net::Responder& responder) {
  const Json asked = Json::parse(request.body);
  const auto tokens = asked["max_tokens"].get<std::uint64_t>();
  const std::uint64_t words = asked["prompt"].get<std::string>().size() / 2;
  net::HttpResponse head;
  head.content_type = "text/event-stream";
  responder.StartStream(head);
  for (std::uint64_t i = 0; i < tokens; ++i) responder.Write(Event(" w", i + 1 == tokens));
  const Json usage = {{"usage", {{"prompt_tokens", words}, {"completion_tokens", tokens}}}};
  responder.Write("data: " + usage.dump() + "\n\ndata: [DONE]\n\n");
  responder.End();
}

std::unique_ptr<HttpClient> Open(std::uint16_t port) {
  auto client = HttpClient::Open({.target = {.host = "127.0.0.1", .port = port}});
  EXPECT_TRUE(client.ok());
  return *std::move(client);
}

std::unique_ptr<Workload> Asked(std::size_t conversations, std::size_t turns = 1) {
  return MakeSyntheticWorkload({.conversations = conversations,
                                .prompt_tokens = {10, 10},
                                .turns = turns,
                                .turn_tokens = {5, 5},
                                .output_tokens = {4, 4}},
                               TextMaker::OfWords({"w"}));
}

TEST(LoadRun, AnswersOverRealSocketsAreAllCounted) {
  const auto server = net::HttpServer::Start({.port = 0}, &Answer);
  ASSERT_TRUE(server.ok());
  const auto client = Open((*server)->port());
  const SteadyClock clock;
  Results results({});
  const LoadOutcome outcome =
      RunLoad(*Asked(100, 2),
              {.driver = {.pacer = {.conversations = 100, .concurrency = 20}, .max_requests = 20}},
              *client, clock, results);
  EXPECT_FALSE(outcome.is_interrupted);
  EXPECT_GT(outcome.duration_s, 0);
  EXPECT_EQ(results.totals().completed, 200U);
  EXPECT_EQ(results.totals().failed, 0U);
  EXPECT_EQ(results.totals().completion_tokens, 800U);
  EXPECT_EQ(results.totals().prompt_tokens, 100U * (10 + 10 + 4 + 5));
  EXPECT_EQ(results.totals().most_running, 20U);
  EXPECT_LE(client->connections_opened(), 20U);
}

TEST(LoadRun, AnOpenLoopSendsWhenItShould) {
  const auto server = net::HttpServer::Start({.port = 0}, &Answer);
  ASSERT_TRUE(server.ok());
  const auto client = Open((*server)->port());
  const SteadyClock clock;
  Results results({});
  RunLoad(*Asked(30),
          {.driver = {.pacer = {.conversations = 30,
                                .concurrency = 1000,
                                .arrivals_ns = EvenArrivals(1000, 30)},
                      .max_requests = 1000}},
          *client, clock, results);
  ASSERT_EQ(results.records().size(), 30U);
  for (const RequestRecord& record : results.records()) {
    EXPECT_EQ(record.intended_ns % 1'000'000, 0);
    EXPECT_GE(record.sent_ns, record.intended_ns);
  }
}

TEST(LoadRun, HostileAnswersAreCountedAndTheRunGoesOn) {
  std::atomic<int> connections = 0;
  testing::RawServer server([&](testing::RawConnection& connection) {
    connection.ReadRequest();
    switch (connections++ % 4) {
      case 0:
        return;  // not a word
      case 1:
        return connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata: {{\n");
      case 2:
        return connection.Write("HTTP/1.1 200 OK\r\n\r\n" + Event("w", false));
      default:
        return connection.Write("HTTP/1.1 200 OK\r\n\r\n" + Event("w", true));
    }
  });
  const auto client = Open(server.port());
  const SteadyClock clock;
  Results results({});
  RunLoad(*Asked(40),
          {.driver = {.pacer = {.conversations = 40, .concurrency = 4}, .max_requests = 4}},
          *client, clock, results);
  EXPECT_EQ(results.totals().completed, 10U);
  EXPECT_EQ(results.totals().failed, 30U);
  EXPECT_EQ(results.failures().at("cut").count, 20U);
  EXPECT_EQ(results.failures().at("malformed").count, 10U);
}

TEST(LoadRun, StoppedItEndsWithoutWaiting) {
  std::atomic<bool> stop = false;
  testing::RawServer server([&](testing::RawConnection& connection) {
    connection.ReadRequest();
    stop = true;
    connection.WaitForEnd();
  });
  const SteadyClock clock;
  Results results({});
  auto client = Open(server.port());
  const LoadOutcome outcome =
      RunLoad(*Asked(5),
              {.driver = {.pacer = {.conversations = 5, .concurrency = 1}, .max_requests = 1},
               .stop = &stop},
              *client, clock, results);
  client.reset();
  EXPECT_TRUE(outcome.is_interrupted);
  EXPECT_EQ(results.totals().completed + results.totals().failed, 0U);
}

}  // namespace
}  // namespace ashlar::load
