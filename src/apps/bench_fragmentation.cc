// How much of an arena that lane groups of very different block sizes share cannot be used.
//
// Sequences of a hybrid model come, grow and end at random; blocks move between pages whenever that
// saves one from being replaced (block_store.h). What no block can use is of three kinds:
//
//   slack      the rest of a page that is no whole block of its group
//   stranded   free places in a group's pages that moving its blocks would not turn into a free
//              page: less than a page's worth per group, which is the bound
//   gatherable free places beyond that: used as soon as anybody needs them
//
// Slack and stranded are waste; the bound beside them is one page per group and the slack of all.

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "apps/bench_cache.h"
#include "base/byte_size.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "kv/cache.h"

namespace ashlar::apps {
namespace {

constexpr std::uint64_t kArenaBytes = 256 * kMiB;
constexpr std::uint64_t kBlockTokens = 16;
constexpr std::uint64_t kMaxTokens = 4'096;
constexpr std::uint64_t kChunk = 256;
constexpr std::size_t kMaxLive = 32;
constexpr int kSteps = 100'000;

// Gemma-3 270M (15 layers with a window of 512, 3 without; one kv head of 256), an MLA layer of a
// second model (a latent of 512 and 64 of RoPE), and two heads of a third, each with a rule of its
// own.
Result<kv::KvLayout> MixedLayout() {
  std::vector<std::uint32_t> sliding, full;
  for (std::uint32_t layer = 0; layer < 18; ++layer) {
    (layer % 6 == 5 ? full : sliding).push_back(layer);
  }
  return kv::KvLayout::Create(
      {.block_tokens = kBlockTokens,
       .groups = {{.name = "sliding",
                   .lanes = kv::LanesOf(sliding, 1),
                   .key_dim = 256,
                   .value_dim = 256,
                   .window = 512},
                  {.name = "full", .lanes = kv::LanesOf(full, 1), .key_dim = 256, .value_dim = 256},
                  {.name = "mla", .lanes = kv::LanesOfAllLayers(1, 1, 1), .key_dim = 576},
                  {.name = "retrieval head",
                   .lanes = {{.model = 2, .layer = 0, .head = 0}},
                   .key_dim = 64,
                   .value_dim = 64},
                  {.name = "streaming head",
                   .lanes = {{.model = 2, .layer = 0, .head = 1}},
                   .key_dim = 64,
                   .value_dim = 64,
                   .window = 256,
                   .sinks = 4}}});
}

struct Peaks {
  double slack = 0;     // shares of the arena
  double stranded = 0;  // with slack
  double gatherable = 0;
  double bound = 0;  // of stranded, at that time
  double live = 0;
};

class MixedLoad {
 public:
  static Result<MixedLoad> Create(kv::Reuse reuse) {
    ASHLAR_ASSIGN(const kv::KvLayout layout, MixedLayout());
    auto clock = std::make_unique<SteadyClock>();
    ASHLAR_ASSIGN(
        std::unique_ptr<kv::KvCache> cache,
        kv::KvCache::Create(layout, {.memory_bytes = kArenaBytes, .has_bytes = false}, *clock));
    return MixedLoad(std::move(clock), std::move(cache), reuse);
  }

  // One sequence ends, comes, or grows by up to a chunk.
  void Step() {
    const std::uint64_t dice = Random(100);
    if (!live_.empty() && (dice < 3 || live_.size() == kMaxLive)) {
      const std::size_t i = Random(live_.size());
      std::swap(live_[i], live_.back());
      live_.pop_back();
    } else if (dice < 12 || live_.empty()) {
      Begin();
    } else {
      Grow(live_[Random(live_.size())]);
    }
    Look();
  }

  const Peaks& peaks() const { return peaks_; }
  const kv::CacheCore& core() const { return cache_->core(); }

 private:
  struct Live {
    kv::Sequence sequence;
    std::uint64_t end = 0;  // tokens it will have
  };

  MixedLoad(std::unique_ptr<SteadyClock> clock, std::unique_ptr<kv::KvCache> cache, kv::Reuse reuse)
      : clock_(std::move(clock)),
        cache_(std::move(cache)),
        reuse_(reuse),
        scope_{.model_fingerprint = "bench", .codec_spec = "f16"},
        digest_(kv::DigestOf(scope_)) {}

  std::uint64_t Random(std::uint64_t below) { return RandomBits(3, 0, random_++) % below; }

  // Half of all texts begin like an earlier one. Most are short: lengths are skewed as real ones.
  void Begin() {
    const std::uint64_t limit = std::uint64_t{64} << Random(7);
    const std::uint64_t end = 1 + Random(std::min(limit, kMaxTokens));
    tokens_.assign(end, 0);
    const std::uint64_t text = Random(2) == 0 ? Random(64) : 1'000 + random_;
    for (std::uint64_t i = 0; i < end; ++i) {
      tokens_[i] = static_cast<TokenId>(RandomBits(4, text, i) % 50'000);
    }
    kv::Admission admission = cache_->Admit({.scope = scope_, .digest = digest_, .tokens = tokens_},
                                            {.max_tokens = end,
                                             .chunk = kChunk,
                                             .reuse = reuse_,
                                             .on_pending = kv::OnPending::kCompute});
    if (admission.sequence) live_.push_back({std::move(*admission.sequence), end});
  }

  void Grow(Live& live) {
    const std::uint64_t count = std::min(1 + Random(kChunk), live.end - live.sequence.size());
    const bool is_prepared = live.sequence.Prepare(count);
    ASHLAR_CHECK(is_prepared, "{} tokens were promised", count);
    tokens_.assign(count, 0);
    for (TokenId& token : tokens_) token = static_cast<TokenId>(Random(50'000));
    live.sequence.Commit(tokens_);
  }

  void Look() {
    const kv::BlockStore& store = cache_->core().pool.store();
    std::uint64_t slack = 0, stranded = 0, free_slots = 0, bound = 0;
    for (std::uint32_t g = 0; g < cache_->core().groups(); ++g) {
      const std::uint64_t block_bytes = cache_->layout().group(g).block_bytes();
      slack += store.slack_bytes(g);
      stranded += store.free_slots(g) % store.blocks_per_page(g) * block_bytes;
      free_slots += store.free_slots(g) * block_bytes;
      bound += store.page_bytes();
    }
    const auto arena = static_cast<double>(store.memory_bytes());
    const auto keep = [arena](double& peak, std::uint64_t bytes) {
      peak = std::max(peak, static_cast<double>(bytes) / arena);
    };
    keep(peaks_.slack, slack);
    keep(peaks_.stranded, stranded + slack);
    keep(peaks_.gatherable, free_slots - stranded);
    keep(peaks_.bound, bound + slack);
    keep(peaks_.live, cache_->live_bytes());
  }

  std::unique_ptr<SteadyClock> clock_;
  std::unique_ptr<kv::KvCache> cache_;
  kv::Reuse reuse_;
  kv::Scope scope_;
  kv::ScopeDigest digest_;
  std::vector<Live> live_;
  std::vector<TokenId> tokens_;
  std::uint64_t random_ = 0;
  Peaks peaks_;
};

}  // namespace

Status RunFragmentationBench(BenchReport& report) {
  report.Progress("mixed lane groups ...");
  for (const kv::Reuse reuse : {kv::Reuse::kOn, kv::Reuse::kOff}) {
    ASHLAR_ASSIGN(MixedLoad load, MixedLoad::Create(reuse));
    for (int step = 0; step < kSteps; ++step) load.Step();
    load.core().CheckInvariants();
    const Peaks& peaks = load.peaks();
    const kv::BlockStore& store = load.core().pool.store();
    const auto taken = static_cast<double>(load.core().counters.taken_blocks);
    report.Add(
        {.name = "fragmentation",
         .params = {{"reuse", reuse == kv::Reuse::kOn ? "on" : "off"},
                    {"groups", load.core().groups()},
                    {"arena_bytes", store.memory_bytes()},
                    {"page_bytes", store.page_bytes()}},
         .figures = {{"peak_waste_share", peaks.stranded},
                     {"bound_share", peaks.bound},
                     {"peak_slack_share", peaks.slack},
                     {"peak_gatherable_share", peaks.gatherable},
                     {"peak_live_share", peaks.live},
                     {"moved_blocks_per_taken_block", static_cast<double>(store.moves()) / taken}},
         .ratio_to_limit = peaks.stranded / peaks.bound});
  }
  return {};
}

}  // namespace ashlar::apps
