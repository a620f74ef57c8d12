// The first byte chooses the world (layout, policy, accounts, room, collisions), the rest is a
// program in the language of kv/testing/cache_ops.h, which checks every promise of the cache
// against a naive model.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/testing/cache_ops.h"

namespace ashlar::kv::testing {
namespace {

// In a roomy world nothing is ever replaced: an operation takes at most four blocks.
constexpr std::uint64_t kMaxOps = 400;
constexpr std::uint64_t kRoomyBlocks = 5 * kMaxOps;
constexpr std::uint64_t kTightBlocks = 60;
// Operations between full checks, which cost as much as the memory is large.
constexpr std::uint32_t kRoomyCheckEvery = 50;
constexpr std::uint32_t kTightCheckEvery = 8;

constexpr const char* kLayouts[] = {"full",  "window",  "sinks", "hybrid",
                                    "mixed", "encoded", "codecs"};

std::uint64_t BytesOfOneOfEach(const KvLayout& layout) {
  std::uint64_t bytes = 0;
  for (const StoreGroup& group : layout.store_groups()) bytes += group.block_bytes;
  return bytes;
}

WorldOptions OptionsFrom(std::uint8_t choice) {
  WorldOptions options;
  const auto choose = [&choice](std::size_t among) {
    const std::size_t chosen = choice % among;
    choice = static_cast<std::uint8_t>(choice / among);
    return chosen;
  };
  options.layout = LayoutNamed(kLayouts[choose(std::size(kLayouts))]);
  options.replacement = kReplacementKinds[choose(kReplacementKinds.size())];
  options.is_roomy = choose(2) == 1;
  options.has_limits = !options.is_roomy && choose(2) == 1;
  if (choose(2) == 1) {
    options.hasher = [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 42; };
  }
  options.check_every = options.is_roomy ? kRoomyCheckEvery : kTightCheckEvery;
  const std::uint64_t unit = BytesOfOneOfEach(*KvLayout::Create(options.layout));
  options.memory_bytes = unit * (options.is_roomy ? kRoomyBlocks : kTightBlocks);
  if (!options.is_roomy) options.max_memory_bytes = options.memory_bytes * 3 / 2;
  return options;
}

}  // namespace
}  // namespace ashlar::kv::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ashlar::kv::testing::CacheWorld;
  if (size == 0) return 0;
  CacheWorld world(ashlar::kv::testing::OptionsFrom(data[0]));
  world.Run(std::span(data + 1, size - 1), ashlar::kv::testing::kMaxOps);
  return 0;
}
