// What the scenario tests of the cache are told with: a cache, a clock turned by hand, texts, and a
// "model" that writes into every slot a mark of its whole prefix. Check then proves that what a
// sequence reads is what it would have computed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/cache.h"
#include "kv/testing/cache_ops.h"

namespace ashlar::kv::testing {

using Tokens = std::vector<TokenId>;

// `count` tokens. Texts of different seeds differ from the first token on, seeds below 2^20.
Tokens Text(std::uint64_t seed, std::uint64_t count);
Tokens Join(Tokens first, std::span<const TokenId> second);
Tokens First(const Tokens& tokens, std::uint64_t count);

// Bytes of one block of every group, open ones included.
std::uint64_t BytesOfOneOfEach(const KvLayoutSpec& spec);
// Memory for `blocks` blocks of a layout of one group, each in a page of its own, so that tests can
// count.
CacheOptions RoomFor(std::uint64_t blocks, const KvLayoutSpec& layout = LayoutNamed("full"));

class CacheScene {
 public:
  // Events are always on: State() needs them.
  CacheScene(const KvLayoutSpec& layout, CacheOptions options);

  KvCache& cache() { return *cache_; }
  KvCache* operator->() { return cache_.get(); }
  ManualClock& clock() { return clock_; }
  // Of all calls that follow.
  void SetScope(Scope scope);
  Prompt PromptOf(const Tokens& tokens) const {
    return {.scope = scope_, .digest = digest_, .tokens = tokens};
  }

  LookupReport Probe(const Tokens& tokens) { return cache_->Probe(PromptOf(tokens)); }
  PrefixLease Lookup(const Tokens& tokens, AccountId account = kCommonAccount) {
    return cache_->Lookup(PromptOf(tokens), account, /*report=*/nullptr);
  }
  // For the prompt alone when options.max_tokens is 0.
  Admission Admit(const Tokens& tokens, AdmitOptions options = {});
  // The same, where it must be admitted.
  Sequence Start(const Tokens& tokens, const AdmitOptions& options = {});
  // Prepares, writes and commits, in pieces of at most `piece` tokens. False, after the pieces
  // before, when a Prepare was refused.
  [[nodiscard]] bool Compute(Sequence& sequence, std::span<const TokenId> tokens,
                             std::uint64_t piece = 1);
  // Computes the rest of `tokens`, of which the sequence has the beginning.
  void Finish(Sequence& sequence, const Tokens& tokens);
  // Start, Finish, release; the tokens that came from the cache.
  std::uint64_t Serve(const Tokens& tokens, const AdmitOptions& options = {});
  // Whole blocks of `tokens` are read once, without computing anything.
  void Touch(const Tokens& tokens);

  // Every slot a query of the sequence reads holds the mark of its prefix.
  void Check(const Sequence& sequence) const;
  // All that can be asked of the cache, as text: equal before and after what changes nothing.
  std::string State() const;
  // Blocks of the sequence in a group.
  static std::uint64_t HeldBy(const Sequence& sequence, std::uint32_t group);
  std::uint64_t IdleBlocks() const { return cache_->core().replacer.idle_blocks(); }

 private:
  void Write(const Sequence& sequence, std::span<const TokenId> tokens);

  ManualClock clock_;
  std::unique_ptr<KvCache> cache_;
  Scope scope_;
  ScopeDigest digest_;
};

}  // namespace ashlar::kv::testing
