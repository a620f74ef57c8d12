// The routes by which operators watch and steer a server:
//
//   GET  /metrics                     Prometheus' text format
//   GET  /kv/state?runs=N             memory by owner and state, the prefix tree
//   GET  /kv/explain/{request}        what the cache served to a request, and why not more
//   GET  /kv/events?from=SEQ          event_stream.h
//   GET  /debug/trace?steps=N         the last steps, for chrome://tracing and Perfetto
//        /debug/trace?seconds=S
//   POST /reset_prefix_cache?force    forgets every prefix; 409 while busy, unless forced
//   POST /sleep?level=1&force         gives the KV memory back; 409 while busy, unless forced
//   POST /wake_up                     GET /is_sleeping
//   GET  / and /dashboard             a page that shows all this; /dashboard/data is what it reads
//
// What has to wait for the engine waits on a thread for that alone; /metrics and the dashboard's
// data are read off the last report and never wait.
#pragma once

#include <memory>
#include <string>

#include "engine/control.h"
#include "engine/service.h"
#include "net/http_server.h"
#include "server/event_stream.h"
#include "server/recent_requests.h"
#include "server/reply.h"
#include "server/request_metrics.h"
#include "server/router.h"
#include "server/worker_pool.h"

namespace ashlar::server {

struct ControlRoutesOptions {
  std::string model_name;
  std::string version;
  EventStreamOptions events = {};
};

class ControlRoutes {
 public:
  static constexpr std::uint64_t kDefaultRuns = 20;
  static constexpr std::uint64_t kMaxRuns = 1000;
  static constexpr std::uint64_t kDefaultTraceSteps = 512;
  static constexpr std::uint64_t kMaxTraceSeconds = 3600;

  // `control` and `info` must outlive this.
  ControlRoutes(engine::Control& control, const engine::ServiceInfo& info,
                std::shared_ptr<const RequestMetrics> requests,
                std::shared_ptr<const RecentRequests> recent, ControlRoutesOptions options);
  ~ControlRoutes();
  ControlRoutes(const ControlRoutes&) = delete;
  ControlRoutes& operator=(const ControlRoutes&) = delete;

  // The router must not call them once this is gone.
  void AddRoutes(Router& router);
  // Ends streams of events, so that a server that drains does not wait for them. Idempotent.
  void Stop();

 private:
  using Answer = net::HttpResponse (ControlRoutes::*)(const net::HttpRequest& request);

  net::HttpResponse Metrics(const net::HttpRequest& request);
  net::HttpResponse State(const net::HttpRequest& request);
  net::HttpResponse Explain(const net::HttpRequest& request);
  net::HttpResponse Trace(const net::HttpRequest& request);
  net::HttpResponse ResetPrefixCache(const net::HttpRequest& request);
  net::HttpResponse Sleep(const net::HttpRequest& request);
  net::HttpResponse WakeUp(const net::HttpRequest& request);
  net::HttpResponse IsSleeping(const net::HttpRequest& request);
  net::HttpResponse Dashboard(const net::HttpRequest& request);
  net::HttpResponse DashboardData(const net::HttpRequest& request);

  engine::Control& control_;
  const engine::ServiceInfo& info_;
  const std::shared_ptr<const RequestMetrics> requests_;
  const std::shared_ptr<const RecentRequests> recent_;
  const ControlRoutesOptions options_;
  const Route explain_;
  EventStream events_;
  WorkerPool readers_{1};  // read what was published
  WorkerPool askers_{1};   // wait for the engine
};

}  // namespace ashlar::server
