// What the server counts of requests: everything of /metrics that the engine does not know.
//
// Thread: any. A request costs a few locked microseconds, at its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/histogram.h"
#include "server/request_record.h"

namespace ashlar::server {

// 1, 2, 5, 10, 20, 50, ... up to `most`.
std::vector<double> Bounds125(std::uint64_t most);

class RequestMetrics final : public RequestObserver {
 public:
  // max_context: where the buckets of token counts end.
  explicit RequestMetrics(std::uint64_t max_context) : values_(max_context) {}

  void OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) override;
  void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) override;
  // The server answered a client by itself: no request was understood.
  void OnRefused(int status);

  struct Values {
    explicit Values(std::uint64_t max_context);

    Histogram prompt_tokens, generation_tokens, max_generation_tokens, n, max_tokens,
        computed_tokens;
    Histogram e2e, inference, prefill, decode, time_per_token;
    std::array<std::uint64_t, kEndings> ended = {};  // sequences, by Ending
    std::map<std::tuple<std::string, std::string, int>, std::uint64_t>
        requests;                              // method, route, status
    std::map<std::string, Histogram> seconds;  // by route
    std::map<int, std::uint64_t> refused;      // by status
  };
  Values Read() const;

 private:
  mutable std::mutex mutex_;
  Values values_;  // protected by mutex_
};

}  // namespace ashlar::server
