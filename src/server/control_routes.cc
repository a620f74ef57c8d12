#include "server/control_routes.h"

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "engine/monitor.h"
#include "server/api_error.h"
#include "server/dashboard_page.h"
#include "server/json.h"
#include "server/metrics.h"
#include "server/query.h"
#include "server/state_json.h"
#include "server/trace_json.h"

namespace ashlar::server {
namespace {

net::HttpResponse JsonAnswer(const Json& json) {
  net::HttpResponse response;
  response.body = DumpJson(json);
  return response;
}

net::HttpResponse Refusal(const Error& error) { return ErrorResponse(ApiErrorFrom(error)); }

net::HttpResponse Busy(std::string_view what) {
  return ErrorResponse(
      {.status = 409,
       .message = fmt::format("requests are running or waiting: {} now would take from them what "
                              "they have; try again, or give force=true",
                              what),
       .code = "busy"});
}

// The flag "force" of a query that may have it and `others`.
struct Forced {
  Query query;
  engine::WhenBusy when_busy;
};
ApiResult<Forced> ForcedOf(const net::HttpRequest& request,
                           std::initializer_list<std::string_view> known) {
  ApiResult<Query> query = Query::Parse(request.query, known);
  if (!query.ok()) return query.error();
  const ApiResult<bool> force = query->Flag("force");
  if (!force.ok()) return force.error();
  return Forced{*std::move(query), *force ? engine::WhenBusy::kForce : engine::WhenBusy::kRefuse};
}

}  // namespace

ControlRoutes::ControlRoutes(engine::Control& control, const engine::ServiceInfo& info,
                             std::shared_ptr<const RequestMetrics> requests,
                             std::shared_ptr<const RecentRequests> recent,
                             ControlRoutesOptions options)
    : control_(control),
      info_(info),
      requests_(std::move(requests)),
      recent_(std::move(recent)),
      options_(std::move(options)),
      explain_{.method = "GET", .path = "/kv/explain/{request}", .access = Access::kAdmin},
      events_(control, options_.events) {}

ControlRoutes::~ControlRoutes() {
  Stop();
  readers_.Stop();
  askers_.Stop();
}

void ControlRoutes::Stop() { events_.Stop(); }

void ControlRoutes::AddRoutes(Router& router) {
  const auto add = [&](Route route, WorkerPool& workers, Answer answer) {
    route.handle = [this, &workers, answer](net::HttpRequest request, const Reply& reply) {
      workers.Post([this, answer, request = std::move(request), reply] {
        try {
          reply.Send((this->*answer)(request));
        } catch (const std::exception& error) {  // out of memory. The reply, dropped, answers 500
          ASHLAR_LOG_ERROR("server: {} {}: {}", request.method, request.path, error.what());
        }
      });
    };
    router.Add(std::move(route));
  };
  const auto routine = [](std::string_view path, Access access) {
    return Route{.method = "GET", .path = path, .access = access, .is_routine = true};
  };
  const auto get = [](std::string_view path) {
    return Route{.method = "GET", .path = path, .access = Access::kAdmin};
  };
  const auto post = [](std::string_view path) {
    return Route{.method = "POST", .path = path, .access = Access::kAdmin};
  };
  add(routine("/metrics", Access::kAnybody), readers_, &ControlRoutes::Metrics);
  add(routine("/is_sleeping", Access::kTenant), readers_, &ControlRoutes::IsSleeping);
  add(routine("/dashboard/data", Access::kAdmin), readers_, &ControlRoutes::DashboardData);
  // The page alone says nothing; what it reads asks for a key.
  add(routine("/", Access::kAnybody), readers_, &ControlRoutes::Dashboard);
  add(routine("/dashboard", Access::kAnybody), readers_, &ControlRoutes::Dashboard);
  add(routine("/kv/state", Access::kAdmin), askers_, &ControlRoutes::State);
  add(explain_, readers_, &ControlRoutes::Explain);
  add(get("/debug/trace"), askers_, &ControlRoutes::Trace);
  add(post("/reset_prefix_cache"), askers_, &ControlRoutes::ResetPrefixCache);
  add(post("/sleep"), askers_, &ControlRoutes::Sleep);
  add(post("/wake_up"), askers_, &ControlRoutes::WakeUp);
  Route events = get("/kv/events");
  events.handle = [this](const net::HttpRequest& request, const Reply& reply) {
    events_.Open(request, reply);
  };
  router.Add(std::move(events));
}

// --- Read off the last report ---

net::HttpResponse ControlRoutes::Metrics(const net::HttpRequest&) {
  const auto report = control_.Report();
  const RequestMetrics::Values requests = requests_->Read();
  net::HttpResponse response;
  response.content_type = kMetricsContentType;
  response.body = FormatMetrics({.info = info_,
                                 .report = *report,
                                 .requests = requests,
                                 .events = events_.counts(),
                                 .process = ReadProcessValues(),
                                 .model_name = options_.model_name,
                                 .version = options_.version});
  return response;
}

net::HttpResponse ControlRoutes::IsSleeping(const net::HttpRequest&) {
  return JsonAnswer({{"is_sleeping", control_.Report()->is_sleeping}});
}

net::HttpResponse ControlRoutes::DashboardData(const net::HttpRequest&) {
  return JsonAnswer(DashboardJson({.info = info_,
                                   .report = *control_.Report(),
                                   .model_name = options_.model_name,
                                   .version = options_.version}));
}

net::HttpResponse ControlRoutes::Dashboard(const net::HttpRequest&) {
  net::HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  // It loads nothing from anywhere, and nobody may frame it.
  response.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
       "'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"}};
  response.body = kDashboardPage;
  return response;
}

net::HttpResponse ControlRoutes::Explain(const net::HttpRequest& request) {
  const std::string name = explain_.RestOf(request.path);
  std::optional<Json> explanation = recent_->Explain(name);
  if (!explanation) {
    return ErrorResponse(
        {.status = 404,
         .message = fmt::format("no request '{}' among the last {}; it is named by the "
                                "X-Request-Id of its answer, or by the answer's id",
                                name.substr(0, kMaxRequestIdBytes), RecentRequests::kRequests),
         .code = "not_found"});
  }
  return JsonAnswer(*explanation);
}

// --- Asked of the engine ---

net::HttpResponse ControlRoutes::State(const net::HttpRequest& request) {
  const ApiResult<Query> query = Query::Parse(request.query, {"runs"});
  if (!query.ok()) return ErrorResponse(query.error());
  const auto runs = query->Number("runs", 0, kMaxRuns);
  if (!runs.ok()) return ErrorResponse(runs.error());
  const auto state = control_.DescribeCache(runs->value_or(kDefaultRuns));
  return state.ok() ? JsonAnswer(CacheStateJson(*state)) : Refusal(state.error());
}

net::HttpResponse ControlRoutes::Trace(const net::HttpRequest& request) {
  const ApiResult<Query> query = Query::Parse(request.query, {"steps", "seconds"});
  if (!query.ok()) return ErrorResponse(query.error());
  const auto steps = query->Number("steps", 1, engine::Monitor::kSteps);
  if (!steps.ok()) return ErrorResponse(steps.error());
  const auto seconds = query->Number("seconds", 1, kMaxTraceSeconds);
  if (!seconds.ok()) return ErrorResponse(seconds.error());
  const std::uint64_t most =
      steps->value_or(*seconds ? engine::Monitor::kSteps : kDefaultTraceSteps);
  const auto trace = control_.ReadTrace(
      {.max_steps = most,
       .within_ns = static_cast<std::int64_t>(seconds->value_or(0)) * 1'000'000'000});
  if (!trace.ok()) return Refusal(trace.error());
  net::HttpResponse response;
  response.body = ChromeTrace(*trace, [this](RequestId id) { return recent_->NameOf(id); });
  return response;
}

net::HttpResponse ControlRoutes::ResetPrefixCache(const net::HttpRequest& request) {
  const ApiResult<Forced> forced = ForcedOf(request, {"force"});
  if (!forced.ok()) return ErrorResponse(forced.error());
  const Result<bool> is_reset = control_.ResetPrefixCache(forced->when_busy);
  if (!is_reset.ok()) return Refusal(is_reset.error());
  return *is_reset ? JsonAnswer({{"success", true}}) : Busy("forgetting prefixes");
}

net::HttpResponse ControlRoutes::Sleep(const net::HttpRequest& request) {
  const ApiResult<Forced> forced = ForcedOf(request, {"force", "level"});
  if (!forced.ok()) return ErrorResponse(forced.error());
  const auto level = forced->query.Number("level", 1, 1);
  if (!level.ok()) {
    return ErrorResponse(
        {.message = level.error().message + ": the KV memory is given back; weights stay in memory",
         .param = "level"});
  }
  const Result<bool> is_asleep = control_.Sleep(forced->when_busy);
  if (!is_asleep.ok()) return Refusal(is_asleep.error());
  return *is_asleep ? JsonAnswer({{"is_sleeping", true}}) : Busy("going to sleep");
}

net::HttpResponse ControlRoutes::WakeUp(const net::HttpRequest& request) {
  const ApiResult<Query> query = Query::Parse(request.query, {});
  if (!query.ok()) return ErrorResponse(query.error());
  const Status woken = control_.WakeUp();
  return woken.ok() ? JsonAnswer({{"is_sleeping", false}}) : Refusal(woken.error());
}

}  // namespace ashlar::server
