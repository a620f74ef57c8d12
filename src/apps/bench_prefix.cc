// What prompts that the cache knows cost: hits, lookups, forks, and going back.

#include <algorithm>
#include <optional>

#include "apps/bench_workload.h"
#include "base/check.h"
#include "kv/block_key.h"

namespace ashlar::apps {
namespace {

using kv::ReplacementKind;
using kv::Reuse;
using kv::Sequence;

enum class Hashes { kComputed, kKnown };

// Admission of a prompt that is all hit: pins every block and revives it. Hot is the same prompt
// again and again; cold is any of those that fill the cache. Release is the way back to idle.
Status MeasureHits(BenchFigures& figures) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  const std::uint64_t texts = workload.sequences() - 1;
  workload.Remember(texts);
  std::vector<kv::PrefixHashes> known(texts);
  for (std::uint64_t text = 0; text < texts; ++text) {
    (void)workload.cache().Probe(workload.PromptOf(workload.Prompt(text), &known[text]));
  }
  const auto measure = [&](std::uint64_t count, Hashes hashes) {
    Samples hit, released;
    RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
      const std::uint64_t text = workload.Choose(count);
      const auto prompt = workload.Prompt(text);
      std::optional<Sequence> sequence;
      const double hit_ns = TimeNs([&] {
        sequence = workload.Admit(prompt, Reuse::kOn, 0,
                                  hashes == Hashes::kKnown ? &known[text] : nullptr);
      });
      ASHLAR_CHECK(sequence->hit_tokens() == workload.sequence_tokens(), "not all hit");
      const double release_ns = TimeNs([&] { sequence.reset(); });
      if (!is_warm) return;
      hit.Add(hit_ns / kSequenceBlocks);
      released.Add(release_ns / kSequenceBlocks);
    });
    return std::pair(hit.Median(), released.Median());
  };
  const auto [hot, hot_release] = measure(1, Hashes::kComputed);
  const auto [cold, cold_release] = measure(texts, Hashes::kComputed);
  const auto [cold_known, cold_known_release] = measure(texts, Hashes::kKnown);
  if (figures.Wants("hit")) {
    figures.Add("hit", {{"text", "hot"}, {"hashes", "computed"}}, "ns_per_block", hot);
    figures.Add("hit", {{"text", "cold"}, {"hashes", "computed"}}, "ns_per_block", cold);
    figures.Add("hit", {{"text", "cold"}, {"hashes", "known"}}, "ns_per_block", cold_known);
  }
  if (figures.Wants("release")) {
    figures.Add("release", {{"text", "hot"}}, "ns_per_block", hot_release);
    figures.Add("release", {{"text", "cold"}}, "ns_per_block", cold_release);
  }
  return {};
}

enum class Keys { kKnown, kComputed, kSha256 };

// A prompt of 131,072 tokens, all hit. `probe` reads only; `lease` pins the prefix and gives it
// back.
Status MeasureLookup(BenchFigures& figures) {
  if (figures.blocks() < kLongBlocks) return {};
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kLongBlocks, ReplacementKind::kLru));
  const std::uint64_t texts = workload.sequences() + 1;
  workload.Remember(texts);
  std::vector<kv::PrefixHashes> known(texts);
  for (std::uint64_t text = 0; text < texts; ++text) {
    (void)workload.cache().Probe(workload.PromptOf(workload.Prompt(text), &known[text]));
  }
  kv::KeyHasher hasher;
  const auto measure = [&](std::string_view how, Keys keys, std::string_view keys_name) {
    Samples samples;
    RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
      const std::uint64_t text = workload.Choose(texts);
      const auto tokens = workload.Prompt(text);
      const kv::Prompt prompt =
          workload.PromptOf(tokens, keys == Keys::kKnown ? &known[text] : nullptr);
      kv::LookupReport report;
      const double ns = TimeNs([&] {
        kv::BlockKey key = kv::RootKey(workload.digest());
        for (std::uint64_t i = 0; keys == Keys::kSha256 && i < kLongBlocks; ++i) {
          key = hasher.NextKey(key, tokens.subspan(i * kBenchBlockTokens, kBenchBlockTokens));
        }
        if (how == "probe") {
          report = workload.cache().Probe(prompt);
        } else {
          (void)workload.cache().Lookup(prompt, kv::kCommonAccount, &report);
        }
      });
      ASHLAR_CHECK(report.hit_tokens == workload.sequence_tokens(), "not all hit");
      if (is_warm) samples.Add(ns * 1e-6);
    });
    figures.AddPrompt("lookup",
                      {{"how", how}, {"keys", keys_name}, {"tokens", workload.sequence_tokens()}},
                      samples.Median(), kLongBlocks);
  };
  measure("probe", Keys::kKnown, "known");
  measure("probe", Keys::kComputed, "computed");
  measure("probe", Keys::kSha256, "sha256");
  measure("lease", Keys::kKnown, "known");
  measure("lease", Keys::kComputed, "computed");
  return {};
}

// A fork of a sequence whose last block is half full, chosen among those that fill half the cache.
Status MeasureFork(BenchFigures& figures) {
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  const std::uint64_t tokens = workload.sequence_tokens() - kBenchBlockTokens / 2;
  std::vector<Sequence> live;
  for (std::uint64_t text = 0; text < (workload.sequences() + 1) / 2; ++text) {
    live.push_back(
        workload.Store(workload.Text(text).first(tokens), Reuse::kOn, workload.sequence_tokens()));
  }
  Samples forked, released;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    Sequence& from = live[workload.Choose(live.size())];
    std::optional<Sequence> fork;
    const double fork_ns = TimeNs([&] { fork = from.Fork(workload.sequence_tokens()); });
    ASHLAR_CHECK(fork.has_value(), "no room for a fork");
    const double release_ns = TimeNs([&] { fork.reset(); });
    if (!is_warm) return;
    forked.Add(fork_ns / kSequenceBlocks);
    released.Add(release_ns / kSequenceBlocks);
  });
  figures.Add("fork", {{"step", "fork"}}, "ns_per_block", forked.Median());
  figures.Add("fork", {{"step", "release"}}, "ns_per_block", released.Median());
  return {};
}

// Speculation: four tokens are appended and taken back, within a block. And a whole text that goes
// back to nothing, per block.
Status MeasureTruncate(BenchFigures& figures) {
  constexpr std::uint64_t kDraftTokens = 4;
  ASHLAR_ASSIGN(BenchWorkload workload,
                BenchWorkload::Create(figures.blocks(), kSequenceBlocks, ReplacementKind::kLru));
  const std::uint64_t tokens = workload.sequence_tokens() - kBenchBlockTokens / 2;
  std::vector<Sequence> live;
  for (std::uint64_t text = 0; text < (workload.sequences() + 1) / 2; ++text) {
    live.push_back(
        workload.Store(workload.Text(text).first(tokens), Reuse::kOn, workload.sequence_tokens()));
  }
  const auto append = [](Sequence& sequence, std::span<const TokenId> more) {
    const bool is_prepared = sequence.Prepare(more.size());
    ASHLAR_CHECK(is_prepared, "{} tokens were promised", more.size());
    sequence.Commit(more);
  };
  const auto truncate = [](Sequence& sequence, std::uint64_t size) {
    const std::optional<std::uint64_t> left = sequence.Truncate(size);
    ASHLAR_CHECK(left == size, "went back elsewhere");
  };
  const auto draft = [&](std::uint64_t text) {
    append(live[text], workload.Text(text).subspan(tokens, kDraftTokens));
    truncate(live[text], tokens);
  };
  for (std::uint64_t text = 0; text < live.size(); ++text) draft(text);  // its tables grow once
  Samples drafted, truncated;
  RepeatFor(figures.options().min_time_ms, [&](bool is_warm) {
    const std::uint64_t text = workload.Choose(live.size());
    const double draft_ns = TimeNs([&] { draft(text); });
    const double truncate_ns = TimeNs([&] { truncate(live[text], 0); });
    append(live[text], workload.Text(text).first(tokens));
    if (!is_warm) return;
    drafted.Add(draft_ns);
    truncated.Add(truncate_ns / kSequenceBlocks);
  });
  figures.Add("truncate", {{"step", "draft of 4"}}, "ns_per_draft", drafted.Median());
  figures.Add("truncate", {{"step", "whole text"}}, "ns_per_block", truncated.Median());
  return {};
}

}  // namespace

Status MeasurePrefixes(BenchFigures& figures) {
  if (figures.Wants("hit") || figures.Wants("release")) ASHLAR_TRY(MeasureHits(figures));
  if (figures.Wants("lookup")) ASHLAR_TRY(MeasureLookup(figures));
  if (figures.Wants("fork")) ASHLAR_TRY(MeasureFork(figures));
  if (figures.Wants("truncate")) ASHLAR_TRY(MeasureTruncate(figures));
  return {};
}

}  // namespace ashlar::apps
