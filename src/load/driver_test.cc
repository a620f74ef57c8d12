#include "load/driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::load {
namespace {

using testing::ElementsAre;
using Json = nlohmann::json;

constexpr std::int64_t kMs = 1'000'000;

// Answers after fixed times on a clock of its own: first text, then a text every gap, as many as
// max_tokens says.
class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(ManualClock& clock, std::int64_t ttft_ns, std::int64_t gap_ns)
      : clock_(clock), ttft_ns_(ttft_ns), gap_ns_(gap_ns) {}

  void Send(HttpCall call, std::unique_ptr<ReplySink> sink) override {
    sent.push_back(Json::parse(call.body));
    paths.push_back(call.path);
    const std::shared_ptr<ReplySink> reply = std::move(sink);
    std::int64_t at_ns = clock_.NowNs() + ttft_ns_;
    const auto tokens = sent.back()["max_tokens"].get<int>();
    if (sent.size() == failing) {
      At(at_ns, [reply] { reply->OnEnd(Failure{"cut", "gone"}); });
      return;
    }
    for (int i = 0; i < tokens; ++i, at_ns += gap_ns_) {
      const bool is_last = i + 1 == tokens;
      At(at_ns, [reply, i, is_last] {
        if (i == 0) reply->OnHead(200);
        (void)reply->OnBody(
            fmt::format("data: {{\"choices\":[{{\"text\":\" t{}\",\"finish_reason\":{}}}]}}\n\n", i,
                        is_last ? "\"length\"" : "null"));
        if (is_last) reply->OnEnd(std::nullopt);
      });
    }
  }

  // Runs everything, by time.
  void Run(Driver& driver) {
    for (;;) {
      const auto poke_ns = driver.Poke();
      if (events_.empty() && !poke_ns) break;
      std::int64_t next_ns = poke_ns.value_or(0);
      if (!events_.empty() && (!poke_ns || events_.begin()->first <= *poke_ns)) {
        next_ns = events_.begin()->first;
      }
      if (next_ns > clock_.NowNs()) clock_.AdvanceNs(next_ns - clock_.NowNs());
      while (!events_.empty() && events_.begin()->first <= clock_.NowNs()) {
        const auto event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
      }
    }
    EXPECT_TRUE(driver.is_done());
  }

  std::vector<Json> sent;
  std::vector<std::string> paths;
  std::size_t failing = 0;  // the request that fails, from 1

 private:
  void At(std::int64_t ns, std::function<void()> event) { events_.emplace(ns, std::move(event)); }

  ManualClock& clock_;
  const std::int64_t ttft_ns_;
  const std::int64_t gap_ns_;
  std::multimap<std::int64_t, std::function<void()>> events_;
};

std::unique_ptr<Workload> Asked(std::size_t conversations, std::size_t turns,
                                std::uint64_t tokens) {
  return MakeSyntheticWorkload({.conversations = conversations,
                                .prompt_tokens = {3, 3},
                                .turns = turns,
                                .turn_tokens = {2, 2},
                                .output_tokens = {tokens, tokens}},
                               TextMaker::OfWords({"w"}));
}

class DriverTest : public testing::Test {
 protected:
  void RunAll(const Workload& workload, PacerOptions pacer, BodyOptions body = {},
              std::size_t max_requests = 1000) {
    pacer.conversations = workload.conversations();
    Driver driver(
        workload,
        {.body = std::move(body), .pacer = std::move(pacer), .max_requests = max_requests},
        transport, clock, results);
    transport.Run(driver);
  }

  ManualClock clock;
  ScriptedTransport transport{clock, 100 * kMs, 10 * kMs};
  Results results{LatencyTargets{}};
};

TEST_F(DriverTest, TimesAreThoseOfTheScript) {
  RunAll(*Asked(4, 1, 5), {.concurrency = 2});
  EXPECT_EQ(results.totals().completed, 4U);
  EXPECT_EQ(results.totals().completion_tokens, 20U);
  EXPECT_EQ(results.totals().most_running, 2U);
  EXPECT_EQ(results.ttft().count(), 4U);
  EXPECT_EQ(results.ttft().max_ns(), 100 * kMs);
  EXPECT_EQ(results.itl().count(), 16U);
  EXPECT_EQ(results.itl().mean_ns(), 10 * kMs);
  EXPECT_EQ(results.tpot().mean_ns(), 10 * kMs);
  EXPECT_EQ(results.e2e().max_ns(), 140 * kMs);
  EXPECT_EQ(results.records().back().end_ns, 280 * kMs);
}

TEST_F(DriverTest, AnOverloadedOpenLoopCountsTheWait) {
  // One at a time, 100 ms each, four arrive at once: the last has waited for three.
  RunAll(*Asked(4, 1, 1), {.concurrency = 1, .arrivals_ns = {0, 0, 0, 0}});
  EXPECT_EQ(results.ttft().max_ns(), 400 * kMs);
  EXPECT_EQ(results.delay().max_ns(), 300 * kMs);
}

TEST_F(DriverTest, TurnsCarryTheRealAnswers) {
  RunAll(*Asked(1, 3, 2), {.concurrency = 1});
  ASSERT_EQ(transport.sent.size(), 3U);
  EXPECT_EQ(transport.sent[0]["prompt"], " w w w");
  EXPECT_EQ(transport.sent[1]["prompt"], " w w w t0 t1 w w");
  EXPECT_EQ(transport.sent[2]["prompt"], " w w w t0 t1 w w t0 t1 w w");
  // A turn's latency counts from the answer before it.
  EXPECT_EQ(results.ttft().max_ns(), 100 * kMs);
}

TEST_F(DriverTest, ChatTurnsAreMessages) {
  RunAll(*Asked(1, 2, 1), {.concurrency = 1}, {.endpoint = Endpoint::kChat, .model = "m"});
  EXPECT_THAT(transport.paths, ElementsAre("/v1/chat/completions", "/v1/chat/completions"));
  EXPECT_EQ(transport.sent[1]["messages"].size(), 3U);
  EXPECT_EQ(transport.sent[1]["model"], "m");
}

TEST_F(DriverTest, OpenConversationsTakeTurnsForThePlaces) {
  // Four chats of two turns, two at a time: nobody's second turn comes before everybody's first.
  RunAll(*Asked(4, 2, 1), {.concurrency = 4}, {}, 2);
  ASSERT_EQ(transport.sent.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(transport.sent[i]["prompt"], i < 4 ? " w w w" : " w w w t0 w w") << i;
  }
  EXPECT_EQ(results.totals().most_running, 2U);
  // In a closed loop the wait for a place is none of the server's.
  EXPECT_EQ(results.ttft().max_ns(), 100 * kMs);
}

TEST_F(DriverTest, InAnOpenLoopTheWaitForAPlaceCounts) {
  RunAll(*Asked(3, 1, 1), {.concurrency = 3, .arrivals_ns = {0, 0, 0}}, {}, 1);
  EXPECT_EQ(results.ttft().max_ns(), 300 * kMs);
}

TEST_F(DriverTest, AFailureEndsItsConversationAndNoOther) {
  transport.failing = 2;  // the first turn of the second conversation
  RunAll(*Asked(3, 3, 1), {.concurrency = 3});
  EXPECT_EQ(results.totals().completed, 6U);
  EXPECT_EQ(results.totals().failed, 1U);
  EXPECT_EQ(results.skipped(), 2U);
  EXPECT_EQ(results.failures().at("cut").example, "gone");
}

TEST_F(DriverTest, StoppedItSendsNothingMore) {
  const auto workload = Asked(5, 2, 1);
  Driver driver(*workload, {.pacer = {.conversations = 5, .concurrency = 3}, .max_requests = 2},
                transport, clock, results);
  driver.Poke();
  driver.Stop();
  transport.Run(driver);
  EXPECT_EQ(transport.sent.size(), 2U);
  EXPECT_EQ(results.totals().completed, 2U);
  EXPECT_EQ(results.skipped(), 2U);
}

}  // namespace
}  // namespace ashlar::load
