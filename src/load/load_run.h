// A whole run against a real server: driver and client, in real time, until all is answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "load/driver.h"
#include "load/http_client.h"

namespace ashlar::load {

struct LoadOptions {
  DriverOptions driver;
  // Called about every progress_ns with the time that has passed.
  std::function<void(const Driver& driver, std::int64_t now_ns)> on_progress = {};
  std::int64_t progress_ns = 1'000'000'000;
  const std::atomic<bool>* stop = nullptr;  // set by another thread or a signal: ends the run now
};

struct LoadOutcome {
  double duration_s = 0;
  bool is_interrupted = false;  // requests under way were given up, and are not in the results
};

// The client may not be used again when the run was interrupted.
LoadOutcome RunLoad(const Workload& workload, LoadOptions options, HttpClient& client,
                    const Clock& clock, Results& results);

}  // namespace ashlar::load
