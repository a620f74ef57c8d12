// Every metric of /metrics: what it is called, what kind it is, what it means. docs/metrics.md says
// the same for people, and a test compares the two.
//
// Names that begin with "vllm:" are vLLM's, with its labels and buckets, so that routers and
// dashboards made for it read them; "ashlar:" are our own; "process_" are Prometheus' usual ones.
#pragma once

#include <prometheus/metric_type.h>

#include <span>
#include <string_view>

namespace ashlar::server {

struct MetricInfo {
  std::string_view name;
  prometheus::MetricType type;
  std::string_view unit;    // "tokens", "seconds", "bytes", ...; empty: a plain number or a fact
  std::string_view labels;  // "route, status"; empty: none
  std::string_view help;    // one sentence
};

// In the order of the exposition.
std::span<const MetricInfo> MetricCatalog();
// Precondition: there is one of that name.
const MetricInfo& MetricNamed(std::string_view name);

}  // namespace ashlar::server
