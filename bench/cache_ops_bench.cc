// The programs of kv/testing/cache_ops.h, the language of the property tests and the fuzzer, timed:
// a mix of admissions, growth, forks, going back, releases and lookups in a cache that replaces all
// the time.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_ops.h"

namespace ashlar::kv {
namespace {

constexpr std::uint64_t kOps = 20'000;

void RunPrograms(benchmark::State& state, const std::string& layout, ReplacementKind replacement) {
  testing::WorldOptions options{
      .layout = testing::LayoutNamed(layout), .replacement = replacement, .is_checked = false};
  const KvLayout made = *KvLayout::Create(options.layout);
  for (const LaneGroup& group : made.groups()) options.memory_bytes += 200 * group.block_bytes();
  std::vector<std::uint8_t> program(kOps * 12);
  for (std::size_t i = 0; i < program.size(); ++i) {
    program[i] = static_cast<std::uint8_t>(RandomBits(1, 2, i));
  }
  std::uint64_t ops = 0;
  for (auto _ : state) {
    state.PauseTiming();
    testing::CacheWorld world(options);
    state.ResumeTiming();
    ops += world.Run(program, kOps);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(ops));
}

const bool kIsRegistered = [] {
  for (const std::string layout : {"full", "window", "hybrid", "mixed"}) {
    for (const ReplacementKind kind : kReplacementKinds) {
      benchmark::RegisterBenchmark(
          ("cache_ops/" + layout + "/" + std::string(NameOf(kind))).c_str(),
          [layout, kind](benchmark::State& state) { RunPrograms(state, layout, kind); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace ashlar::kv
