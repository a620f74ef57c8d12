// A trace through a VirtualEngine, under a virtual clock.
//
//   open loop    each request arrives at its time in the trace, whatever the engine does
//   closed loop  `concurrency` requests at a time: the next one arrives when one ends
//
// As a server does, arrivals join between two steps, and are refused while too many wait.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kv/layout.h"
#include "simulate/cache_run.h"
#include "simulate/virtual_engine.h"
#include "trace/request.h"

namespace ashlar::simulate {

struct ServeRunOptions {
  VirtualEngineOptions engine;
  std::uint64_t hash_block_tokens = 512;
  std::uint64_t concurrency = 0;  // 0: open loop
  double time_scale = 1;          // times the trace's gaps
  std::uint64_t max_waiting = 1024;
};

// In memory for the requests that are there at a time. Errors: the source's; as
// VirtualEngine::Create; kInvalidArgument when more than 126 years would pass.
Status RunServe(const OpenSource& open, const kv::KvLayout& layout, const ServeRunOptions& options,
                const CostModel& cost, const Progress& progress, Results& results);

}  // namespace ashlar::simulate
