// The exposition of /metrics: values of the engine and the server as Prometheus' families. Nothing
// is recorded here: reports are turned into text when somebody asks.
#pragma once

#include <cstdint>
#include <string>

#include "engine/control.h"
#include "engine/service.h"
#include "server/request_metrics.h"

namespace ashlar::server {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

struct EventStreamCounts {
  std::uint64_t open = 0;
  std::uint64_t cut = 0;
};

// What the system says of this process; what it does not say is 0.
struct ProcessValues {
  double start_time_seconds = 0;  // since 1970
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
};
ProcessValues ReadProcessValues();

struct MetricSources {
  const engine::ServiceInfo& info;
  const engine::EngineReport& report;
  const RequestMetrics::Values& requests;
  EventStreamCounts events;
  ProcessValues process;
  std::string_view model_name;
  std::string_view version;
};

// In Prometheus' text format, version 0.0.4.
std::string FormatMetrics(const MetricSources& sources);

}  // namespace ashlar::server
