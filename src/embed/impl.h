// What the public handles point to. Handles share the cache, so that no order of destruction is
// wrong; members end in reverse order, so a handle's blocks go back before its cache can go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ashlar/kv_cache.h"
#include "base/clock.h"
#include "kv/cache.h"

namespace ashlar::cache::internal {

// The embedder's clock, kept from going back and from times that a sum could overflow.
class GuardedClock final : public ashlar::Clock {
 public:
  explicit GuardedClock(std::function<std::int64_t()> now_ns) : now_ns_(std::move(now_ns)) {}
  std::int64_t NowNs() const override;

 private:
  std::function<std::int64_t()> now_ns_;
  ashlar::SteadyClock steady_;
  mutable std::int64_t last_ns_ = 0;
};

struct CacheImpl {
  CacheImpl(std::function<std::int64_t()> now_ns, std::uint64_t id)
      : clock(std::move(now_ns)), serial(id) {}

  GuardedClock clock;
  std::uint64_t serial;  // of the process's caches, from 1: made-up pins are found out by it
  std::unique_ptr<kv::KvCache> kv;

  // The last scope and its digest: an engine has one model, and mostly one scope.
  Scope scope;
  kv::Scope kv_scope;
  std::optional<kv::ScopeDigest> digest;
  kv::PrefixHashes hashes;  // of the prompt at hand

  // Decisions only: copies nobody has taken yet, and what finds them.
  std::optional<kv::Matcher> matcher;
  std::vector<BlockCopy> copies;
  std::vector<ashlar::BlockId> tails;  // scratch, by group

  bool has_bytes() const { return kv->core().options.has_bytes; }
  std::uint32_t groups() const { return kv->core().groups(); }
  std::size_t block_tokens() const { return kv->layout().block_tokens(); }

  // Makes `scope_in` the current one. Errors: kInvalidArgument, which changes nothing.
  Expected<void> UseScope(const Scope& scope_in);
  // The current scope with these tokens. Errors: kInvalidArgument.
  Expected<kv::Prompt> PromptOf(const Scope& scope_in, std::span<const TokenId> tokens);
  Expected<void> CheckGroup(std::uint32_t group) const;
  Expected<void> CheckAccount(std::uint16_t account) const;
  // Before a call that may copy.
  Expected<void> CheckRoomForCopies() const;

  Expected<kv::Admission> Admit(const kv::Prompt& prompt, const kv::AdmitOptions& options);
};

struct SequenceImpl {
  std::shared_ptr<CacheImpl> cache;
  kv::Sequence sequence;
  std::uint64_t prepared = 0;  // positions below this may be committed

  Expected<void> Prepare(std::uint64_t count);
};

struct LeaseImpl {
  std::shared_ptr<CacheImpl> cache;
  kv::PrefixLease lease;
};

Error EmptyHandle();

}  // namespace ashlar::cache::internal
