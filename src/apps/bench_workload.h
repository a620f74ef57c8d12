// What the cache benchmarks share: a cache of so many blocks, texts to put into it, and the figures
// of one size beside those of the smallest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/bench_cache.h"
#include "apps/bench_report.h"
#include "base/clock.h"
#include "kv/cache.h"

namespace ashlar::apps {

inline constexpr std::uint64_t kBenchBlockTokens = 16;
inline constexpr std::uint64_t kSequenceBlocks = 64;
inline constexpr std::uint64_t kLongBlocks = 8'192;  // 131,072 tokens

// Texts of the same length that differ from their first token on, so that no two share a block and
// making one costs nothing. A text is valid until the next is asked for.
class BenchTexts {
 public:
  explicit BenchTexts(std::uint64_t tokens);
  std::span<const TokenId> Text(std::uint64_t number) {
    tokens_[0] = static_cast<TokenId>(number & 0x7FFFFFFF);
    return tokens_;
  }

 private:
  std::vector<TokenId> tokens_;
};

class BenchWorkload {
 public:
  // Texts of `sequence_blocks` blocks; the number of blocks of the cache is blocks, exactly.
  // Errors: kResourceExhausted.
  static Result<BenchWorkload> Create(std::uint64_t blocks, std::uint64_t sequence_blocks,
                                      kv::ReplacementKind kind);

  kv::KvCache& cache() { return *cache_; }
  std::uint64_t sequence_blocks() const { return sequence_blocks_; }
  std::uint64_t sequence_tokens() const { return sequence_blocks_ * kBenchBlockTokens; }
  // Sequences that fit, one of them to spare.
  std::uint64_t sequences() const { return blocks_ / sequence_blocks_ - 1; }

  // The text's tokens, and one more: what is all hit once the text is in the cache.
  std::span<const TokenId> Prompt(std::uint64_t text) { return texts_.Text(text); }
  std::span<const TokenId> Text(std::uint64_t text) {
    return Prompt(text).first(sequence_tokens());
  }
  kv::Prompt PromptOf(std::span<const TokenId> tokens, kv::PrefixHashes* hashes = nullptr) const {
    return {.scope = scope_, .digest = digest_, .tokens = tokens, .hashes = hashes};
  }
  const kv::ScopeDigest& digest() const { return digest_; }

  // An admitted sequence without stored tokens, beyond what the cache has of them. CHECKs that
  // there is room.
  kv::Sequence Admit(std::span<const TokenId> tokens, kv::Reuse reuse, std::uint64_t max_tokens = 0,
                     kv::PrefixHashes* hashes = nullptr);
  // Admits it and stores all its tokens.
  kv::Sequence Store(std::span<const TokenId> tokens, kv::Reuse reuse,
                     std::uint64_t max_tokens = 0);
  // Texts [0, count) become known, and idle.
  void Remember(std::uint64_t count);

  // One of [0, count), the same ones in every run.
  std::uint64_t Choose(std::uint64_t count);

 private:
  BenchWorkload(std::unique_ptr<SteadyClock> clock, std::unique_ptr<kv::KvCache> cache,
                std::uint64_t blocks, std::uint64_t sequence_blocks);

  std::unique_ptr<SteadyClock> clock_;
  std::unique_ptr<kv::KvCache> cache_;
  std::uint64_t blocks_;
  std::uint64_t sequence_blocks_;
  BenchTexts texts_;
  kv::Scope scope_;
  kv::ScopeDigest digest_;
  std::uint64_t choices_ = 0;
};

// The figures of one run.
class BenchFigures {
 public:
  BenchFigures(const CacheBenchOptions& options, BenchReport& report)
      : options_(options), report_(report) {}

  const CacheBenchOptions& options() const { return options_; }
  bool Wants(std::string_view name) const { return options_.only.empty() || options_.only == name; }

  // From here on figures are of caches of this size. Measures a random access over their records.
  Status BeginSize(std::uint64_t blocks);
  std::uint64_t blocks() const { return blocks_; }

  // `unit` is "ns_per_block" and the like. What a size costs more than the smallest is told as a
  // ratio, and as a number of random accesses that take as much longer there. The limit is one
  // random access for every block whose records are touched.
  void Add(std::string_view name, BenchJson params, std::string_view unit, double ns);
  // A prompt of so many blocks.
  void AddPrompt(std::string_view name, BenchJson params, double ms, std::uint64_t blocks);

 private:
  struct Base {
    double ns = 0;
    double access_ns = 0;
  };
  void AddRow(std::string_view name, BenchJson params, std::pair<std::string_view, double> figure,
              double ns, double blocks_touched);

  const CacheBenchOptions& options_;
  BenchReport& report_;
  std::uint64_t blocks_ = 0;
  double access_ns_ = 0;
  std::map<std::string, Base> smallest_;  // by name and params
};

// Runs the body between two looks at the clock; its ns.
template <typename Body>
double TimeNs(Body body) {
  const SteadyClock clock;
  const std::int64_t start = clock.NowNs();
  body();
  return static_cast<double>(clock.NowNs() - start);
}

// The groups of figures, each for the size that was begun.
Status MeasureBlocks(BenchFigures& figures);    // allocate, free, append, cycle, replace
Status MeasurePrefixes(BenchFigures& figures);  // hit, release, lookup, fork, truncate

}  // namespace ashlar::apps
