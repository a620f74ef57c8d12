#include "apps/bench_cache.h"

#include <array>
#include <optional>
#include <utility>

#include "apps/bench_workload.h"
#include "base/check.h"

namespace ashlar::apps {
namespace {

using kv::ReplacementKind;
using kv::Reuse;
using kv::Sequence;

constexpr std::array<std::string_view, 11> kNames = {
    "allocate", "append", "free", "cycle",    "replace",      "hit",
    "release",  "lookup", "fork", "truncate", "fragmentation"};

// Half of the cache is held by sequences; in every round one of them makes way for another.
Status MeasureAllocateAndFree(BenchFigures& figures) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  const std::uint64_t tokens = workload.sequence_tokens();
  std::vector<std::optional<Sequence>> live((workload.sequences() + 1) / 2);
  const auto allocate = [&](Sequence& sequence) {
    for (std::uint64_t end = kBenchBlockTokens; end <= tokens; end += kBenchBlockTokens) {
      const bool is_prepared = sequence.Prepare(end);  // one block more than before
      ASHLAR_CHECK(is_prepared, "{} tokens were promised", tokens);
    }
  };
  for (std::optional<Sequence>& sequence : live) {
    sequence = workload.Admit({}, Reuse::kOff, tokens);
    allocate(*sequence);
  }
  Samples allocated, freed;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    std::optional<Sequence>& sequence = live[workload.Choose(live.size())];
    const double free_ns = TimeNs([&] { sequence.reset(); });
    sequence = workload.Admit({}, Reuse::kOff, tokens);
    const double allocate_ns = TimeNs([&] { allocate(*sequence); });
    if (!is_warm) return;
    freed.Add(free_ns / kSequenceBlocks);
    allocated.Add(allocate_ns / kSequenceBlocks);
  });
  if (figures.Wants("allocate")) {
    figures.Add("allocate", BenchJson::object(), "ns_per_block", allocated.Median());
  }
  if (figures.Wants("free")) {
    figures.Add("free", BenchJson::object(), "ns_per_block", freed.Median());
  }
  return {};
}

// Decoding: sequences grow by a token each, in turns, in a cache full of what others left. Blocks
// taken, sealed and replaced on the way are counted in.
Status MeasureAppend(BenchFigures& figures) {
  constexpr std::uint64_t kMaxBatch = 64;
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  workload.Remember(workload.sequences() + 1);
  std::uint64_t next_text = workload.sequences() + 1;
  std::vector<std::optional<Sequence>> batch(
      std::min(kMaxBatch, std::max<std::uint64_t>(workload.sequences() / 2, 1)));
  Samples samples;
  std::uint64_t step = workload.sequence_tokens();
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    if (step == workload.sequence_tokens()) {
      for (std::optional<Sequence>& sequence : batch) {
        sequence.reset();
        const auto first = workload.Text(next_text++).first(1);
        sequence = workload.Admit(first, Reuse::kOn, workload.sequence_tokens());
      }
      step = 0;
    }
    std::uint64_t number = next_text - batch.size();
    const double ns = TimeNs([&] {
      for (std::uint64_t i = 0; i < kBenchBlockTokens; ++i, number -= batch.size()) {
        for (std::optional<Sequence>& sequence : batch) {
          const auto token = workload.Text(number++).subspan(step + i, 1);
          const bool is_prepared = sequence->Prepare(1);
          ASHLAR_CHECK(is_prepared, "a token was promised");
          sequence->Commit(token);
        }
      }
    });
    step += kBenchBlockTokens;
    if (is_warm) samples.Add(ns / static_cast<double>(batch.size() * kBenchBlockTokens));
  });
  figures.Add("append", BenchJson::object(), "ns_per_token", samples.Median());
  return {};
}

// allocate + seal + free, where nothing may be reused and half of the cache is held by others.
Status MeasureCycleWithoutReuse(BenchFigures& figures) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  std::vector<std::optional<Sequence>> live((workload.sequences() + 1) / 2);
  for (auto& sequence : live) sequence = workload.Store(workload.Text(0), Reuse::kOff);
  Samples samples;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    std::optional<Sequence>& sequence = live[workload.Choose(live.size())];
    const double ns = TimeNs([&] {
      sequence.reset();
      sequence = workload.Store(workload.Text(0), Reuse::kOff);
    });
    if (is_warm) samples.Add(ns / kSequenceBlocks);
  });
  figures.Add("cycle", {{"reuse", "off"}}, "ns_per_block", samples.Median());
  return {};
}

// The same with reuse: every text is new and stays, as long as there is room. Hashes, the index and
// the replacement's record of idle blocks are counted in; nothing is replaced.
Status MeasureCycleWithReuse(BenchFigures& figures) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  std::uint64_t text = 0;
  Samples samples;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    if (text % workload.sequences() == 0) {
      const bool is_reset = workload.cache().Reset();
      ASHLAR_CHECK(is_reset, "nothing is live");
    }
    const double ns = TimeNs([&] { (void)workload.Store(workload.Text(text++), Reuse::kOn); });
    if (is_warm) samples.Add(ns / kSequenceBlocks);
  });
  figures.Add("cycle", {{"reuse", "on"}}, "ns_per_block", samples.Median());
  return {};
}

// The same in a full cache: every new block replaces one.
Status MeasureReplace(BenchFigures& figures, ReplacementKind kind) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, kind));
  std::uint64_t text = 2 * (workload.sequences() + 1);
  workload.Remember(text);  // fills it, and replaces all of it once
  const kv::CacheCounters before = workload.cache().counters();
  Samples samples;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    const double ns = TimeNs([&] { (void)workload.Store(workload.Text(text++), Reuse::kOn); });
    if (is_warm) samples.Add(ns / kSequenceBlocks);
  });
  const kv::CacheCounters after = workload.cache().counters();
  ASHLAR_CHECK(
      after.replaced_blocks - before.replaced_blocks == after.taken_blocks - before.taken_blocks,
      "the cache was not full");
  figures.Add("replace", {{"policy", kv::NameOf(kind)}}, "ns_per_block", samples.Median());
  return {};
}

}  // namespace

std::span<const std::string_view> CacheBenchNames() { return kNames; }

Status MeasureBlocks(BenchFigures& figures) {
  if (figures.Wants("allocate") || figures.Wants("free")) {
    ASHLAR_TRY(MeasureAllocateAndFree(figures));
  }
  if (figures.Wants("append")) ASHLAR_TRY(MeasureAppend(figures));
  if (figures.Wants("cycle")) {
    ASHLAR_TRY(MeasureCycleWithoutReuse(figures));
    ASHLAR_TRY(MeasureCycleWithReuse(figures));
  }
  if (figures.Wants("replace")) {
    for (const ReplacementKind kind : figures.options().policies) {
      ASHLAR_TRY(MeasureReplace(figures, kind));
    }
  }
  return {};
}

Status RunCacheBench(const CacheBenchOptions& options, BenchReport& report) {
  if (options.only == "fragmentation") return {};
  BenchFigures figures(options, report);
  for (const std::uint64_t blocks : options.blocks) {
    ASHLAR_TRY(figures.BeginSize(blocks));
    ASHLAR_TRY(MeasureBlocks(figures));
    ASHLAR_TRY(MeasurePrefixes(figures));
  }
  return {};
}

}  // namespace ashlar::apps
