// The log of requests: one line for each, when it is over.
//
//   I 12:34:56.789 request id=req-1 method=POST route=/v1/completions status=200 ms=812.4
//     prompt_tokens=900 cached_tokens=880 completion_tokens=64 ...     (one line)
//
// Nothing of what was asked or answered: numbers, names of routes and ids.
#pragma once

#include <cstdint>

#include "server/request_record.h"

namespace ashlar::server {

class RequestLog final : public RequestObserver {
 public:
  void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) override;
};

}  // namespace ashlar::server
