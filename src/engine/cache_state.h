// Values for Control, read off a cache on the engine's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/control.h"
#include "kv/cache.h"

namespace ashlar::engine {

// All but the tree.
CacheState StateOf(const kv::KvCache& cache);
// By account id; "" is everybody else.
std::vector<std::string> AccountNamesOf(const kv::KvCache& cache);
std::vector<std::string> GroupNamesOf(const kv::KvCache& cache);
// Precondition: events are on.
EventBatch EventsOf(const kv::KvCache& cache, std::uint64_t from, std::size_t max);

}  // namespace ashlar::engine
