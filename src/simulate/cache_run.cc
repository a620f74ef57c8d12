#include "simulate/cache_run.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "kv/cache.h"
#include "simulate/block_trace.h"
#include "simulate/tokens.h"

namespace ashlar::simulate {
namespace {

constexpr std::uint64_t kProgressEvery = 256;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 30;
constexpr std::size_t kMaxAccesses = std::size_t{1} << 31;

// Calls `visit(blocks)` for each request. Errors: the source's.
template <typename Visit>
Status ForEach(const OpenSource& open, const CacheRunOptions& options, Visit visit) {
  ASHLAR_ASSIGN(const std::unique_ptr<trace::Source> source, open());
  BlockTrace blocks(options);
  trace::Request request;
  for (;;) {
    ASHLAR_ASSIGN(const bool is_one, source->Next(request));
    if (!is_one) return {};
    blocks.Read(request);
    ASHLAR_TRY(visit(blocks));
  }
}

struct Extent {
  std::uint64_t blocks = 0;  // that differ
  bool has_ids = false;
};

// How much a cache needs to lose nothing: every whole block, and each request's last part.
Result<Extent> Measure(const OpenSource& open, const CacheRunOptions& options) {
  Extent extent;
  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> names;
  std::uint64_t tails = 1;
  ASHLAR_TRY(ForEach(open, options, [&](const BlockTrace& blocks) -> Status {
    NameBlocks(blocks.tokens(), blocks.block_tokens(), names);
    seen.insert(names.begin(), names.end());
    extent.has_ids = blocks.has_ids();
    if (!blocks.has_ids()) ++tails;
    return {};
  }));
  extent.blocks = seen.size() + tails;
  return extent;
}

// Blocks of tokens that nobody stores.
Result<kv::KvLayout> LayoutOf(std::uint32_t block_tokens, bool has_ids) {
  kv::LaneGroupSpec group;
  group.lanes = {{}};
  group.key_dim = 8;
  group.shares_tokens = !has_ids;  // a hash id is a hit or none
  return kv::KvLayout::Create({.block_tokens = block_tokens, .groups = {group}});
}

class CacheRun {
 public:
  CacheRun(const CacheRunOptions& options, Results& results)
      : options_(options), results_(results) {
    scope_ = {.model_fingerprint = "trace", .codec_spec = "none", .layout_version = 1};
    digest_ = kv::DigestOf(scope_);
  }

  Status Serve(const BlockTrace& blocks) {
    if (cache_ == nullptr) ASHLAR_TRY(MakeCache(blocks));
    if (blocks.has_ids() != has_ids_) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "the trace names the blocks of some of its prompts only; cache mode needs "
                       "all of them, or none");
    }
    const std::uint64_t fits = options_.capacity_blocks * blocks.block_tokens();
    const std::uint64_t all = blocks.tokens().size();
    std::uint64_t stored = all;
    if (all - 1 > fits) {
      ++results_.too_long;
      stored = fits + 1;
    }
    const std::span<const TokenId> tokens = std::span(blocks.tokens()).first(stored);
    const std::span<const TokenId> prompt = tokens.first(std::min(blocks.prompt_tokens(), stored));
    kv::Admission admission = cache_->Admit({.scope = scope_, .digest = digest_, .tokens = prompt},
                                            {.max_tokens = stored, .chunk = stored});
    ASHLAR_CHECK(admission.status == kv::AdmitStatus::kAdmitted, "a request of {} tokens alone",
                 stored);
    const auto reason = static_cast<std::size_t>(admission.report.reason);
    ++results_.misses[reason];
    results_.missed_tokens[reason] += blocks.Count(admission.report.hit_tokens, results_);
    kv::Sequence& sequence = *admission.sequence;
    const std::span<const TokenId> missing = tokens.subspan(sequence.size());
    const bool is_ready = sequence.Prepare(missing.size());
    ASHLAR_CHECK(is_ready, "what was promised is not there");
    sequence.Commit(missing);
    return {};
  }

  void End() {
    if (cache_ == nullptr) return;
    results_.replaced_blocks = cache_->counters().replaced_blocks;
    results_.arena_bytes = 0;
    results_.capacity_blocks = options_.capacity_blocks;
  }

 private:
  Status MakeCache(const BlockTrace& blocks) {
    has_ids_ = blocks.has_ids();
    ASHLAR_ASSIGN(const kv::KvLayout layout, LayoutOf(blocks.block_tokens(), has_ids_));
    const std::uint64_t block_bytes = layout.group(0).block_bytes();
    // One more for the token that comes last, which is not part of the trace.
    ASHLAR_ASSIGN(cache_,
                  kv::KvCache::Create(layout,
                                      {.memory_bytes = (options_.capacity_blocks + 1) * block_bytes,
                                       .page_bytes = block_bytes,
                                       .has_bytes = false,
                                       .replacement = options_.replacement},
                                      clock_));
    return {};
  }

  const CacheRunOptions options_;
  Results& results_;
  ManualClock clock_;
  kv::Scope scope_;
  kv::ScopeDigest digest_;
  bool has_ids_ = false;
  std::unique_ptr<kv::KvCache> cache_;
};

Result<CacheRunOptions> WithCapacity(const OpenSource& open, const CacheRunOptions& options) {
  CacheRunOptions exact = options;
  if (options.capacity_blocks == 0) {
    ASHLAR_ASSIGN(const Extent extent, Measure(open, options));
    exact.capacity_blocks = extent.blocks;
  }
  if (exact.capacity_blocks <= kMaxCapacity) return exact;
  return MakeError(ErrorCode::kInvalidArgument, "a capacity of {} blocks; at most {}",
                   exact.capacity_blocks, kMaxCapacity);
}

}  // namespace

Status RunCache(const OpenSource& open, const CacheRunOptions& options, const Progress& progress,
                Results& results) {
  ASHLAR_ASSIGN(const CacheRunOptions exact, WithCapacity(open, options));
  CacheRun run(exact, results);
  const auto serve = [&](const BlockTrace& blocks) -> Status {
    ASHLAR_TRY(run.Serve(blocks));
    if (results.requests % kProgressEvery == 0) progress(results.requests);
    return {};
  };
  ASHLAR_TRY(ForEach(open, options, serve));
  run.End();
  return {};
}

// --- The optimum ---

namespace {

// All that is read of the trace, as numbers of blocks.
struct Accesses {
  std::vector<std::uint32_t> blocks;  // of all requests, one after the other
  std::vector<std::uint32_t> next;    // the next request that reads it
  std::vector<std::size_t> ends;      // of each request in `blocks`

  std::size_t begin(std::size_t request) const { return request == 0 ? 0 : ends[request - 1]; }
};
constexpr std::uint32_t kNever = 0xFFFFFFFF;

Status Collect(const OpenSource& open, const CacheRunOptions& options, Accesses& accesses) {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::vector<std::uint64_t> names;
  ASHLAR_TRY(ForEach(open, options, [&](const BlockTrace& blocks) -> Status {
    NameBlocks(blocks.tokens(), blocks.block_tokens(), names);
    for (const std::uint64_t name : names) {
      const auto number = static_cast<std::uint32_t>(numbers.size());
      accesses.blocks.push_back(numbers.try_emplace(name, number).first->second);
    }
    if (accesses.blocks.size() > kMaxAccesses) {
      return MakeError(ErrorCode::kResourceExhausted,
                       "the optimum of more than {} blocks cannot be found in memory",
                       kMaxAccesses);
    }
    accesses.ends.push_back(accesses.blocks.size());
    return {};
  }));
  accesses.next.resize(accesses.blocks.size());
  std::vector<std::uint32_t> next(numbers.size(), kNever);
  for (std::size_t request = accesses.ends.size(); request-- > 0;) {
    for (std::size_t i = accesses.begin(request); i < accesses.ends[request]; ++i) {
      accesses.next[i] = next[accesses.blocks[i]];
    }
    for (std::size_t i = accesses.begin(request); i < accesses.ends[request]; ++i) {
      next[accesses.blocks[i]] = static_cast<std::uint32_t>(request);
    }
  }
  return {};
}

}  // namespace

Status RunOptimum(const OpenSource& open, const CacheRunOptions& options, const Progress& progress,
                  Results& results) {
  ASHLAR_ASSIGN(const CacheRunOptions exact, WithCapacity(open, options));
  Accesses accesses;
  ASHLAR_TRY(Collect(open, options, accesses));
  struct Place {
    std::uint32_t next = 0;
    std::uint32_t depth = 0;  // in its request
    std::uint32_t block = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::set<Place> order;  // the last one leaves first
  std::unordered_map<std::uint32_t, Place> cached;
  std::size_t request = 0;
  ASHLAR_TRY(ForEach(open, options, [&](const BlockTrace& blocks) -> Status {
    const std::size_t begin = accesses.begin(request);
    const std::size_t count =
        std::min<std::size_t>(accesses.ends[request] - begin, exact.capacity_blocks);
    if (count < accesses.ends[request] - begin) ++results.too_long;
    std::size_t hit = 0;
    while (hit < count && cached.contains(accesses.blocks[begin + hit])) ++hit;
    const std::uint64_t prompt = (blocks.prompt_tokens() - 1) / blocks.block_tokens();
    blocks.Count(std::min<std::uint64_t>(hit, prompt) * blocks.block_tokens(), results);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t block = accesses.blocks[begin + i];
      const Place place = {
          .next = accesses.next[begin + i], .depth = static_cast<std::uint32_t>(i), .block = block};
      const auto [at, is_new] = cached.try_emplace(block, place);
      if (!is_new) order.erase(at->second);
      at->second = place;
      order.insert(place);
    }
    for (; order.size() > exact.capacity_blocks; ++results.replaced_blocks) {
      cached.erase(order.rbegin()->block);
      order.erase(std::prev(order.end()));
    }
    if (results.requests % kProgressEvery == 0) progress(results.requests);
    ++request;
    return {};
  }));
  results.capacity_blocks = exact.capacity_blocks;
  return {};
}

}  // namespace ashlar::simulate
