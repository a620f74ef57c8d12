// The first byte chooses the world (layout, policy, accounts, room, collisions), the rest is a
// program in the language of kv/testing/cache_ops.h, which checks every promise of the cache
// against a naive model.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/testing/cache_ops.h"

namespace ashlar::kv::testing {
namespace {

// Of a roomy world: more than its blocks, 3 for each operation, could ever fill.
constexpr std::uint64_t kRoomyBlocks = 4'000;
constexpr std::uint64_t kTightBlocks = 60;
constexpr std::uint64_t kMaxOps = 1'000;

constexpr const char* kLayouts[] = {"full", "window", "sinks", "hybrid", "mixed"};

std::uint64_t BytesOfOneOfEach(const KvLayout& layout) {
  std::uint64_t bytes = 0;
  for (const LaneGroup& group : layout.groups()) bytes += group.block_bytes();
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
  options.check_every = 8;
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
