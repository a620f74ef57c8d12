#include "kv/replacement/ghost.h"

#include <algorithm>
#include <bit>

#include "base/rng.h"

namespace ashlar::kv {
namespace {

std::uint32_t FingerprintOf(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

}  // namespace

Ghost::Ghost(std::uint32_t window)
    : window_(window),
      departures_(window + 1),
      sets_(std::bit_ceil(std::uint64_t{window} * 2 / std::tuple_size_v<Set> + 1)) {}

void Ghost::Add(std::uint64_t content) {
  const std::uint64_t hash = MixBits(content);
  Set& set = SetOf(hash);
  const std::uint32_t fingerprint = FingerprintOf(hash);
  auto entry = std::find_if(set.begin(), set.end(),
                            [&](const Entry& e) { return e.fingerprint == fingerprint; });
  if (entry == set.end()) {
    entry = std::max_element(set.begin(), set.end(),
                             [&](const Entry& a, const Entry& b) { return AgeOf(a) < AgeOf(b); });
  }
  *entry = {.fingerprint = fingerprint, .departure = departures_++};
}

bool Ghost::Take(std::uint64_t content) {
  const std::uint64_t hash = MixBits(content);
  for (Entry& entry : SetOf(hash)) {
    if (entry.fingerprint != FingerprintOf(hash) || AgeOf(entry) > window_) continue;
    entry = {};
    return true;
  }
  return false;
}

}  // namespace ashlar::kv
