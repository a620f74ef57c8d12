// Between the public types (include/ashlar/) and the cache's own. What comes in is outside input:
// every ToKv checks what the core takes for granted.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/error.h"
#include "ashlar/kv_layout.h"
#include "ashlar/kv_options.h"
#include "ashlar/kv_report.h"
#include "base/result.h"
#include "kv/cache.h"

namespace ashlar::cache::internal {

template <typename... Args>
Error Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

// kResourceExhausted becomes kLimit.
Error FromKv(ashlar::Error error);

Expected<kv::KvLayout> ToKv(const Layout& layout);
Expected<kv::CacheOptions> ToKv(const kv::KvLayout& layout, const CacheOptions& options);
Expected<kv::Scope> ToKv(const Scope& scope);
Expected<kv::AdmitOptions> ToKv(const AdmitOptions& options);

LookupReport FromKv(const kv::LookupReport& report);
MemoryReport FromKv(const kv::MemoryReport& report);
Counters FromKv(const kv::CacheCounters& counters);
Event FromKv(const kv::KvEvent& event);
SnapshotEntry FromKv(kv::SnapshotEntry entry);

}  // namespace ashlar::cache::internal
