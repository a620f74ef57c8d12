#include "embed/impl.h"

#include <algorithm>

#include "embed/convert.h"

namespace ashlar::cache::internal {
namespace {

constexpr std::int64_t kLatestNs = std::int64_t{1} << 61;  // 73 years

}  // namespace

Error EmptyHandle() {
  return Fail(ErrorCode::kInvalidArgument, "the handle is empty: it was moved from or released");
}

std::int64_t GuardedClock::NowNs() const {
  const std::int64_t now = now_ns_ ? now_ns_() : steady_.NowNs();
  last_ns_ = std::clamp(now, last_ns_, kLatestNs);
  return last_ns_;
}

Expected<void> CacheImpl::UseScope(const Scope& scope_in) {
  if (digest && scope == scope_in) return {};
  Expected<kv::Scope> made = ToKv(scope_in);
  if (!made) return made.error();
  scope = scope_in;
  kv_scope = std::move(*made);
  digest = kv::DigestOf(kv_scope);
  return {};
}

Expected<kv::Prompt> CacheImpl::PromptOf(const Scope& scope_in, std::span<const TokenId> tokens) {
  if (tokens.size() > kMaxTokens) {
    return Fail(ErrorCode::kInvalidArgument, "a prompt of {} tokens; at most {} are possible",
                tokens.size(), kMaxTokens);
  }
  if (Expected<void> used = UseScope(scope_in); !used) return used.error();
  hashes.blocks.clear();  // they were another prompt's
  return kv::Prompt{.scope = kv_scope, .digest = *digest, .tokens = tokens, .hashes = &hashes};
}

Expected<void> CacheImpl::CheckGroup(std::uint32_t group) const {
  if (group < groups()) return {};
  return Fail(ErrorCode::kInvalidArgument, "group {}; the layout has {}", group, groups());
}

Expected<void> CacheImpl::CheckAccount(std::uint16_t account) const {
  const std::size_t accounts = kv->core().pool.accounts();
  if (account < accounts) return {};
  return Fail(ErrorCode::kInvalidArgument, "account {}; the last one is {}", account, accounts - 1);
}

Expected<void> CacheImpl::CheckRoomForCopies() const {
  if (copies.size() + groups() <= kMaxWaitingCopies) return {};
  return Fail(ErrorCode::kLimit, "{} copies wait to be made; take them first: TakeCopies",
              copies.size());
}

// Where blocks have no bytes, the match is made twice: it names the block that is copied in part.
Expected<kv::Admission> CacheImpl::Admit(const kv::Prompt& prompt,
                                         const kv::AdmitOptions& options) {
  if (Expected<void> room = CheckRoomForCopies(); !room) return room.error();
  tails.clear();
  if (matcher && options.reuse == kv::Reuse::kOn) {
    const kv::Match& match = matcher->Find(prompt.scope, prompt.digest, prompt.tokens, hashes);
    for (std::uint32_t g = 0; g < groups() && match.partial != kv::kNoNode; ++g) {
      tails.push_back(kv->core().index.block(match.partial, g));
    }
  }
  kv::Admission admission = kv->Admit(prompt, options);
  if (!admission.sequence || tails.empty()) return admission;
  if (admission.sequence->size() % block_tokens() == 0) return admission;  // no memory to copy to
  for (std::uint32_t g = 0; g < groups(); ++g) {
    copies.push_back({.group = g,
                      .source = tails[g].value(),
                      .target = admission.sequence->blocks(g).back().value()});
  }
  return admission;
}

Expected<void> SequenceImpl::Prepare(std::uint64_t count) {
  if (count > kMaxTokens - sequence.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} tokens prepared after {}; a sequence has at most {}", count, sequence.size(),
                kMaxTokens);
  }
  if (Expected<void> room = cache->CheckRoomForCopies(); !room) return room.error();
  const std::size_t number = sequence.size() / cache->block_tokens();
  const bool may_copy = cache->matcher && sequence.size() % cache->block_tokens() != 0;
  cache->tails.clear();
  for (std::uint32_t g = 0; g < cache->groups() && may_copy; ++g) {
    cache->tails.push_back(sequence.blocks(g)[number]);
  }
  if (!sequence.Prepare(count)) {
    return Fail(ErrorCode::kNoMemory,
                "{} more tokens after {} are more than was promised, and others hold the memory",
                count, sequence.size());
  }
  for (std::uint32_t g = 0; g < cache->groups() && may_copy; ++g) {
    const ashlar::BlockId target = sequence.blocks(g)[number];
    if (target == cache->tails[g]) continue;
    cache->copies.push_back(
        {.group = g, .source = cache->tails[g].value(), .target = target.value()});
  }
  prepared = std::max(prepared, sequence.size() + count);
  return {};
}

}  // namespace ashlar::cache::internal
