// What the engine tells of itself, as JSON for operators: numbers, names and keys, never tokens.
#pragma once

#include "engine/control.h"
#include "engine/service.h"
#include "server/json.h"
#include "server/request_metrics.h"

namespace ashlar::server {

// GET /kv/state. The rows of "bytes" add up to "arena_bytes".
Json CacheStateJson(const engine::CacheState& state);

struct DashboardSources {
  const engine::ServiceInfo& info;
  const engine::EngineReport& report;
  std::string_view model_name;
  std::string_view version;
};
// GET /dashboard/data: small, for a look a second.
Json DashboardJson(const DashboardSources& sources);

}  // namespace ashlar::server
