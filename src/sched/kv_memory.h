// The memory of sequences whose keys and values are in a kv::KvCache: what the scheduler asks,
// answered by the cache. The engine and the simulator use the same one, so the same traffic gets
// the same plans; it works on a cache without bytes as well.
//
//   Admit    the longest prefix that is known is pinned; the rest of the known tokens and
//            `headroom` more are promised. All at once with a headroom of kWholeLength: then
//            nothing is ever preempted.
//   Grow     Sequence::Prepare
//   Preempt  the sequence is released: its blocks stay known and idle, at a retention level that
//            leaves late, until they are needed. What is left of them serves its next Admit.
//
// Thread: the engine's only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "kv/cache.h"
#include "sched/memory.h"

namespace ashlar::sched {

// A sequence as its owner and the memory see it.
struct KvText {
  kv::Scope scope;
  kv::ScopeDigest digest;
  std::vector<TokenId> tokens;   // known: prompt and generated ones
  std::uint32_t guesses = 0;     // of those, the last ones: dropped when it is preempted
  std::uint64_t max_tokens = 0;  // stored at the most
  // Positions from here on must be computed even where they are known to the cache (somebody wants
  // to see their logits). The last known one always is.
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::uint64_t compute_from = kNothing;

  std::optional<kv::Sequence> held;  // while it runs
  kv::LookupReport lookup;           // of its last Admit that was granted
  kv::PrefixHashes hashes;           // of tokens, while it waits

  std::uint32_t preemptions = 0;
  std::uint64_t lost_up_to = 0;         // the most tokens it held when it was preempted
  std::uint64_t recomputed_tokens = 0;  // of those, computed again
};

class KvMemory final : public Memory {
 public:
  static constexpr std::uint64_t kWholeLength = ~std::uint64_t{0};
  // Above what is kept for its own sake, below what is asked for (kv/replacer.h). It ends by itself
  // some time after the sequence should have been resumed.
  static constexpr kv::Retention kPreempted = {.level = kv::kDefaultRetentionLevel + 1,
                                               .ttl_ns = 60'000'000'000};

  struct Options {
    std::uint64_t headroom_tokens = 64;  // promised at admission, beyond what is known
    std::uint32_t chunk = 1;             // the most tokens of one Grow
    std::uint32_t max_guesses = 0;       // the most tokens of one Grow that Commit leaves out
    kv::Reuse reuse = kv::Reuse::kOn;
  };

  // The cache must outlive the memory.
  KvMemory(kv::KvCache& cache, const Options& options) : cache_(cache), options_(options) {}

  // The text must outlive its time here, at the same address.
  void Add(SequenceId id, KvText& text);
  // Releases what it holds.
  void Remove(SequenceId id);

  // What a sequence of so many tokens needs in all.
  kv::AdmitOptions WholeNeed(std::uint64_t max_tokens) const {
    return {
        .max_tokens = max_tokens, .chunk = options_.chunk, .max_rollback = options_.max_guesses};
  }

  // The next tokens of a running sequence have been computed; what else of them was made room for
  // were wrong guesses.
  static void Commit(KvText& text, std::span<const TokenId> tokens);
  // Releases what a running sequence holds: its text begins anew.
  static void Restart(KvText& text);

  Admission Admit(SequenceId id) override { return Admit(id, kv::OnPending::kWait); }
  Admission AdmitAtOnce(SequenceId id) override { return Admit(id, kv::OnPending::kCompute); }
  bool Grow(SequenceId id, std::uint32_t tokens) override;
  void Preempt(SequenceId id) override;
  std::uint64_t TokensAtStake(SequenceId id) const override;
  std::uint64_t CachedTokens(SequenceId id) override;

 private:
  Admission Admit(SequenceId id, kv::OnPending on_pending);
  kv::Reuse ReuseFor(const KvText& text) const;

  kv::KvCache& cache_;
  const Options options_;
  std::unordered_map<SequenceId, KvText*> texts_;
};

}  // namespace ashlar::sched
