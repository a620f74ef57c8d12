#include "server/control_routes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "server/metric_catalog.h"
#include "server/testing/control_fixture.h"
#include "server/testing/exposition.h"

namespace ashlar::server {
namespace {

using testing::ControlFixture;
using testing::Exposition;

class ControlRoutesTest : public ControlFixture {
 protected:
  Exposition Metrics() {
    IdleReport();
    const auto answer = Ask("GET", "/metrics");
    EXPECT_EQ(answer->status(), 200);
    EXPECT_EQ(answer->Header("Content-Type"), kMetricsContentType);
    return Exposition(answer->body());
  }
};

// --- /metrics ---

TEST_F(ControlRoutesTest, TheExpositionHasEveryMetricOfTheCatalogueAndNoOther) {
  Complete(1, 20, 3);
  const Exposition metrics = Metrics();
  std::vector<std::string> names;
  for (const MetricInfo& info : MetricCatalog()) {
    names.emplace_back(info.name);
    ASSERT_EQ(metrics.families().count(names.back()), 1u) << names.back();
    EXPECT_EQ(metrics.families().at(names.back()), testing::TypeName(info.type)) << names.back();
  }
  EXPECT_EQ(metrics.order(), names);
}

TEST_F(ControlRoutesTest, CountsAreExact) {
  Complete(1, 40, 5);
  Complete(1, 40, 5);  // all but the last token is there
  Complete(2, 16, 1);
  const Exposition metrics = Metrics();
  const std::string model = R"(model_name="tiny",engine="0")";
  const auto vllm = [&](const std::string& name, const std::string& more = "") {
    return metrics.Value("vllm:" + name + "{" + model + more + "}");
  };
  EXPECT_EQ(vllm("prompt_tokens_total"), 96);
  EXPECT_EQ(vllm("prompt_tokens_cached_total"), 39);
  EXPECT_EQ(vllm("prefix_cache_queries_total"), 96);
  EXPECT_EQ(vllm("prefix_cache_hits_total"), 39);
  EXPECT_EQ(vllm("prompt_tokens_by_source_total", R"(,source="local_compute")"), 57);
  EXPECT_EQ(vllm("generation_tokens_total"), 11);
  EXPECT_EQ(vllm("request_success_total", R"(,finished_reason="length")"), 3);
  EXPECT_EQ(vllm("request_success_total", R"(,finished_reason="abort")"), 0);
  EXPECT_EQ(vllm("num_requests_running"), 0);
  EXPECT_EQ(vllm("num_preemptions_total"), 0);
  EXPECT_EQ(vllm("time_to_first_token_seconds_count"), 3);
  EXPECT_EQ(vllm("inter_token_latency_seconds_count"), 8);  // 4 + 4 + 0
  EXPECT_EQ(vllm("request_prompt_tokens_sum"), 96);
  EXPECT_EQ(vllm("request_prompt_tokens_bucket", R"(,le="20")"), 1);
  EXPECT_EQ(vllm("request_prompt_tokens_bucket", R"(,le="50")"), 3);
  EXPECT_EQ(vllm("request_prompt_tokens_bucket", R"(,le="+Inf")"), 3);
  EXPECT_EQ(vllm("request_generation_tokens_sum"), 11);
  EXPECT_EQ(vllm("request_params_max_tokens_count"), 3);
  EXPECT_EQ(vllm("request_time_per_output_token_seconds_count"), 2);  // one has no gap
  EXPECT_EQ(vllm("e2e_request_latency_seconds_count"), 3);
  EXPECT_EQ(vllm("kv_cache_usage_perc"), 0);
  EXPECT_EQ(vllm("engine_sleep_state", R"(,sleep_state="awake")"), 1);
  EXPECT_EQ(metrics.Value(R"(ashlar:prefix_hit_tokens_total{tier="ram"})"), 39);
  EXPECT_EQ(metrics.Value(R"(ashlar:prefix_misses_total{reason="none"})"), 1);
  EXPECT_EQ(metrics.Value(R"(ashlar:prefix_missed_tokens_total{reason="none"})"), 1);
  EXPECT_EQ(metrics.Sum("ashlar:prefix_misses_total"), 3);
  EXPECT_EQ(metrics.Sum("ashlar:prefix_missed_tokens_total"), 57);
  EXPECT_EQ(metrics.Sum("ashlar:computed_tokens_total"), 57 + 8);
  EXPECT_EQ(metrics.Value(R"(ashlar:sequences_ended_total{reason="length"})"), 3);
  EXPECT_EQ(metrics.Value(R"(ashlar:build_info{version="1.2.3",kv_codec="f16"})"), 1);
  EXPECT_GT(metrics.Value("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(metrics.Value("process_start_time_seconds"), 1.6e9);
}

TEST_F(ControlRoutesTest, BytesAddUpToTheArena) {
  for (int seed = 1; seed < 8; ++seed) {
    Complete(seed, 10 * seed, 4);
    const Exposition metrics = Metrics();
    EXPECT_EQ(metrics.Sum("ashlar:kv_bytes"), metrics.Value("ashlar:kv_arena_bytes"));
    EXPECT_GT(metrics.Value(
                  R"(ashlar:kv_bytes{account="common",group="full",kind="block",state="idle"})"),
              0);
  }
}

TEST_F(ControlRoutesTest, RequestsAreCountedByRouteAndStatus) {
  Complete(1, 5, 1);
  Ask("POST", "/v1/completions", "{");
  Ask("GET", "/nowhere");
  Ask("BREW", "/metrics");
  requests_->OnRefused(431);
  const Exposition metrics = Metrics();
  const auto count = [&](const std::string& method, const std::string& route, int status) {
    return metrics.Value("ashlar:http_requests_total{method=\"" + method + "\",route=\"" + route +
                         "\",status=\"" + std::to_string(status) + "\"}");
  };
  EXPECT_EQ(count("POST", "/v1/completions", 200), 1);
  EXPECT_EQ(count("POST", "/v1/completions", 400), 1);
  EXPECT_EQ(count("GET", "other", 404), 1);
  EXPECT_EQ(count("other", "other", 405), 1);
  EXPECT_EQ(metrics.Value(R"(ashlar:http_request_seconds_count{route="/v1/completions"})"), 2);
  EXPECT_EQ(metrics.Value(R"(ashlar:http_refused_total{status="431"})"), 1);
}

// --- /kv/state ---

TEST_F(ControlRoutesTest, TheStateAddsUpAndNamesNoToken) {
  Complete(1, 64, 2);
  Complete(1, 80, 2);
  IdleReport();
  const Json state = Ask("GET", "/kv/state?runs=5")->json();
  std::uint64_t bytes = 0;
  std::uint64_t idle = 0;
  for (const Json& row : state["bytes"]) {
    bytes += row["bytes"].get<std::uint64_t>();
    EXPECT_EQ(row["tier"], "ram");
    if (row["state"] == "idle") {
      idle += row["bytes"].get<std::uint64_t>();
      EXPECT_EQ(row["blocks"].get<std::uint64_t>() *
                    state["groups"][0]["block_bytes"].get<std::uint64_t>(),
                row["bytes"].get<std::uint64_t>());
    }
  }
  EXPECT_EQ(bytes, state["arena_bytes"].get<std::uint64_t>());
  EXPECT_EQ(state["tree"]["bytes"].get<std::uint64_t>(), idle);
  EXPECT_EQ(state["tree"]["runs"][0]["position"], 0);
  EXPECT_EQ(state["tree"]["runs"][0]["tokens"], 64);
  EXPECT_EQ(state["tree"]["runs"][0]["key"].get<std::string>().size(), 64u);
  EXPECT_EQ(state["groups"][0]["name"], "full");
  EXPECT_EQ(state["groups"][0]["keys"], "f16");
  EXPECT_EQ(state["accounts"][0]["name"], "common");
  EXPECT_EQ(state["counters"]["prompt_tokens"], 144);
  EXPECT_EQ(DumpJson(state).find("\"tokens\":["), std::string::npos);
  EXPECT_EQ(Ask("GET", "/kv/state?runs=1001")->status(), 400);
  EXPECT_EQ(Ask("GET", "/kv/state?rnus=1")->json()["error"]["param"], "rnus");
}

// --- /kv/explain ---

TEST_F(ControlRoutesTest, ARequestIsExplained) {
  Complete(1, 64, 2, "first");
  const Json answer = Complete(1, 64, 2, "second");
  const Json first = Ask("GET", "/kv/explain/first")->json();
  ASSERT_EQ(first["sequences"].size(), 1u);
  EXPECT_EQ(first["sequences"][0]["admissions"][0]["hit_tokens"]["ram"], 0);
  EXPECT_EQ(first["sequences"][0]["admissions"][0]["reason"], "never_seen");
  EXPECT_EQ(first["sequences"][0]["state"], "ended");
  EXPECT_EQ(first["sequences"][0]["end"]["finish"], "length");
  for (const std::string& name : {std::string("second"), answer["id"].get<std::string>()}) {
    const Json second = Ask("GET", "/kv/explain/" + name)->json();
    EXPECT_EQ(second["request"], "second");
    EXPECT_EQ(second["answer"], answer["id"]);
    const Json& admission = second["sequences"][0]["admissions"][0];
    EXPECT_EQ(admission["tokens"], 64);
    EXPECT_EQ(admission["hit_tokens"]["ram"], 63);
    EXPECT_EQ(admission["reason"], "none");
    EXPECT_EQ(admission["position"], 63);
    EXPECT_EQ(
        admission["explanation"],
        "63 of 64 prompt tokens were served from the cache; the last must always be computed");
  }
  const auto beams = Start("POST", "/v1/completions",
                           R"({"prompt":)" + Prompt(1, 64) +
                               R"(,"use_beam_search":true,"beam_width":3,"n":2,"max_tokens":4})",
                           {{"x-request-id", "third"}});
  WaitForEnd(*beams);
  const Json third = Ask("GET", "/kv/explain/third")->json();
  ASSERT_EQ(third["sequences"].size(), 2u);
  EXPECT_EQ(third["sequences"][0]["admissions_total"], 1);
  EXPECT_EQ(third["sequences"][0]["admissions"][0]["hit_tokens"]["ram"], 63);
  EXPECT_EQ(third["sequences"][1]["state"], "ended");
  const auto unknown = Ask("GET", "/kv/explain/fourth");
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_NE(unknown->json()["error"]["message"].get<std::string>().find("'fourth'"),
            std::string::npos);
}

// --- /reset_prefix_cache, /sleep, /wake_up ---

TEST_F(ControlRoutesTest, ResetForgetsWhatWasThere) {
  Complete(1, 64, 2);
  EXPECT_EQ(Complete(1, 64, 2)["usage"]["prompt_tokens_details"]["cached_tokens"], 63);
  IdleReport();
  const auto reset = Ask("POST", "/reset_prefix_cache");
  EXPECT_EQ(reset->status(), 200) << reset->body();
  EXPECT_EQ(Complete(1, 64, 2)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(Ask("GET", "/reset_prefix_cache")->status(), 405);
  EXPECT_EQ(Ask("POST", "/reset_prefix_cache?forse")->status(), 400);
}

TEST_F(ControlRoutesTest, ASleepingServerRefusesAndWakesUp) {
  Complete(1, 64, 2);
  IdleReport();
  EXPECT_EQ(Ask("GET", "/is_sleeping")->json()["is_sleeping"], false);
  EXPECT_EQ(Ask("POST", "/sleep?level=2")->json()["error"]["param"], "level");
  ASSERT_EQ(Ask("POST", "/sleep?level=1")->status(), 200);
  EXPECT_EQ(Ask("POST", "/sleep")->status(), 200);  // it is asleep
  EXPECT_EQ(Ask("GET", "/is_sleeping")->json()["is_sleeping"], true);
  const auto refused = Ask("POST", "/v1/completions", R"({"prompt":[1,2],"max_tokens":1})");
  EXPECT_EQ(refused->status(), 503);
  EXPECT_FALSE(refused->Header("Retry-After").empty());
  EXPECT_NE(refused->body().find("/wake_up"), std::string::npos);
  const std::string awake =
      R"(vllm:engine_sleep_state{model_name="tiny",engine="0",sleep_state="awake"})";
  EXPECT_EQ(Metrics().Value(awake), 0);
  EXPECT_EQ(Ask("GET", "/health")->status(), 200);
  ASSERT_EQ(Ask("POST", "/wake_up")->status(), 200);
  ASSERT_EQ(Ask("POST", "/wake_up")->status(), 200);
  EXPECT_EQ(Metrics().Value(awake), 1);
  EXPECT_EQ(Complete(1, 64, 2)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

// --- /debug/trace ---

TEST_F(ControlRoutesTest, ATraceIsWhatChromeReads) {
  Complete(1, 40, 3, "traced");
  const auto report = IdleReport();
  const Json trace = Ask("GET", "/debug/trace?steps=100")->json();
  std::map<std::string, int> slices;
  std::map<std::string, int> open;
  double step_begin = 0;
  double step_end = 0;
  for (const Json& event : trace["traceEvents"]) {
    const std::string name = event["name"];
    const std::string kind = event["ph"];
    if (kind == "X") {
      const double begin = event["ts"];
      const double end = begin + event["dur"].get<double>();
      if (name.starts_with("step")) {
        ++slices["step"];
        step_begin = begin;
        step_end = end;
      } else {
        ++slices[name];
        EXPECT_GE(begin, step_begin);
        EXPECT_LE(end, step_end + 0.002);  // printed in thousandths
      }
    } else if (kind == "b") {
      ++open[name];
      EXPECT_EQ(event["cat"], "sequence");
    } else if (kind == "e") {
      --open[name];
    }
  }
  // 40 tokens in pieces of 16, then two tokens more.
  EXPECT_EQ(slices,
            (std::map<std::string, int>{{"step", 5}, {"plan", 5}, {"forward", 5}, {"sample", 5}}));
  EXPECT_EQ(report->stats.steps, 5u);
  EXPECT_EQ(open, (std::map<std::string, int>{
                      {"traced", 0}, {"queue", 0}, {"prefill", 0}, {"decode", 0}}));
  int steps = 0;
  const Json last_two = Ask("GET", "/debug/trace?steps=2")->json();
  for (const Json& event : last_two["traceEvents"]) {
    if (event["name"].get<std::string>().starts_with("step ")) ++steps;
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(Ask("GET", "/debug/trace?seconds=3600")->json()["traceEvents"].size(),
            trace["traceEvents"].size());
  EXPECT_EQ(Ask("GET", "/debug/trace?steps=0")->json()["error"]["param"], "steps");
}

// --- Who may ask ---

TEST_F(ControlRoutesTest, AllButMetricsAndTheBarePageAsksForAKey) {
  const std::map<std::string, Access> want = {
      {"GET /metrics", Access::kAnybody},      {"GET /", Access::kAnybody},
      {"GET /dashboard", Access::kAnybody},    {"GET /is_sleeping", Access::kTenant},
      {"GET /dashboard/data", Access::kAdmin}, {"GET /kv/state", Access::kAdmin},
      {"GET /kv/events", Access::kAdmin},      {"GET /kv/explain/{request}", Access::kAdmin},
      {"GET /debug/trace", Access::kAdmin},    {"POST /reset_prefix_cache", Access::kAdmin},
      {"POST /sleep", Access::kAdmin},         {"POST /wake_up", Access::kAdmin}};
  Router router(tiny_.clock());
  control_.AddRoutes(router);
  std::map<std::string, Access> have;
  for (const Route& route : router.routes()) {
    have[std::string(route.method) + " " + std::string(route.path)] = route.access;
  }
  EXPECT_EQ(have, want);
}

// --- The page ---

TEST_F(ControlRoutesTest, ThePageLoadsNothingFromElsewhere) {
  const auto page = Ask("GET", "/dashboard");
  EXPECT_EQ(page->status(), 200);
  EXPECT_EQ(page->Header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(page->Header("Content-Security-Policy").find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page->body().find("http://"), std::string::npos);
  EXPECT_EQ(page->body().find("https://"), std::string::npos);
  EXPECT_EQ(Ask("GET", "/")->body(), page->body());
  Complete(1, 20, 2);
  IdleReport();
  const Json data = Ask("GET", "/dashboard/data")->json();
  std::uint64_t bytes = 0;
  for (const auto& [state, value] : data["bytes"].items()) bytes += value.get<std::uint64_t>();
  EXPECT_EQ(bytes, data["arena_bytes"].get<std::uint64_t>());
  EXPECT_EQ(data["prompt_tokens"], 20);
  EXPECT_EQ(data["ttft"]["counts"].size(), data["ttft"]["bounds"].size() + 1);
}

}  // namespace
}  // namespace ashlar::server
