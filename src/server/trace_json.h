// A trace in Chrome's format (the JSON object of "Trace Event Format"), which chrome://tracing and
// Perfetto open.
//
//   process "engine"    thread "steps": a slice a step, its parts below it; counters
//   process "requests"  a track a sequence: queue, prefill, decode
//
// Sampling is spread through the forward pass; it is drawn in one piece behind it.
#pragma once

#include <functional>
#include <string>

#include "engine/control.h"

namespace ashlar::server {

// `name`: of the request that a sequence belongs to; empty when it is not known.
std::string ChromeTrace(const engine::EngineTrace& trace,
                        const std::function<std::string(RequestId)>& name);

}  // namespace ashlar::server
