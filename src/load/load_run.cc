#include "load/load_run.h"

#include <algorithm>
#include <utility>

namespace ashlar::load {

LoadOutcome RunLoad(const Workload& workload, LoadOptions options, HttpClient& client,
                    const Clock& clock, Results& results) {
  constexpr std::int64_t kLongestWaitNs = 100'000'000;  // until `stop` is looked at again
  Driver driver(workload, std::move(options.driver), client, clock, results);
  std::int64_t progress_at_ns = options.progress_ns;
  bool is_interrupted = false;
  while (!driver.is_done() && !is_interrupted) {
    const auto poke_ns = driver.Poke();
    const std::int64_t now_ns = driver.NowNs();
    std::int64_t wait_ns = std::min(kLongestWaitNs, progress_at_ns - now_ns);
    if (poke_ns) wait_ns = std::min(wait_ns, *poke_ns - now_ns);
    client.RunFor(wait_ns);
    if (driver.NowNs() >= progress_at_ns) {
      if (options.on_progress) options.on_progress(driver, driver.NowNs());
      progress_at_ns += options.progress_ns;
    }
    is_interrupted = options.stop != nullptr && options.stop->load();
  }
  return {.duration_s = static_cast<double>(driver.NowNs()) / 1e9,
          .is_interrupted = is_interrupted};
}

}  // namespace ashlar::load
