#include "sched/kv_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::sched {

void KvMemory::Add(SequenceId id, KvText& text) {
  const bool is_new = texts_.emplace(id, &text).second;
  ASHLAR_CHECK(is_new, "sequence {} is there already", id.value());
}

void KvMemory::Remove(SequenceId id) {
  const auto node = texts_.extract(id);
  ASHLAR_CHECK(!node.empty(), "sequence {} is not there", id.value());
  node.mapped()->held.reset();
}

kv::Reuse KvMemory::ReuseFor(const KvText& text) const {
  const bool needs_known = text.compute_from < text.tokens.size() - 1;
  return options_.reuse == kv::Reuse::kOn && needs_known ? kv::Reuse::kStore : options_.reuse;
}

Admission KvMemory::Admit(SequenceId id, kv::OnPending on_pending) {
  KvText& text = *texts_.at(id);
  const std::uint64_t known = text.tokens.size();
  const std::uint64_t whole = std::max<std::uint64_t>(known, text.max_tokens);
  kv::AdmitOptions options = WholeNeed(known + std::min(whole - known, options_.headroom_tokens));
  options.likely_tokens = whole;
  options.reuse = ReuseFor(text);
  options.on_pending = on_pending;
  kv::Admission admission = cache_.Admit(
      {.scope = text.scope, .digest = text.digest, .tokens = text.tokens, .hashes = &text.hashes},
      options);
  switch (admission.status) {
    case kv::AdmitStatus::kNoMemory:
      return {.answer = Admission::Answer::kNoMemory};
    case kv::AdmitStatus::kWait: {
      // Of the first block, all but one token may be computed already.
      const std::uint64_t computed = cache_.layout().block_tokens() - 1;
      const std::uint64_t pending = admission.report.pending_tokens;
      return {.answer = Admission::Answer::kWait,
              .pending_tokens = pending - std::min(pending - 1, computed)};
    }
    case kv::AdmitStatus::kAdmitted:
      break;
  }
  text.held = std::move(admission.sequence);
  text.lookup = admission.report;
  text.hashes = {};
  return {.answer = Admission::Answer::kAdmitted, .cached_tokens = text.held->size()};
}

void KvMemory::Commit(KvText& text, std::span<const TokenId> tokens) {
  const std::uint64_t position = text.held->size();
  text.recomputed_tokens +=
      std::min(text.lost_up_to, position + tokens.size()) - std::min(text.lost_up_to, position);
  text.held->Commit(tokens);
}

bool KvMemory::Grow(SequenceId id, std::uint32_t tokens) {
  return texts_.at(id)->held->Prepare(tokens);
}

void KvMemory::Preempt(SequenceId id) {
  KvText& text = *texts_.at(id);
  ++text.preemptions;
  text.lost_up_to = std::max(text.lost_up_to, text.held->size());
  text.held->Retain(kPreempted);
  text.held.reset();
  text.tokens.resize(text.tokens.size() - text.guesses);
  text.guesses = 0;
}

void KvMemory::Restart(KvText& text) {
  text.held.reset();
  text.hashes = {};
  text.guesses = 0;
  text.lost_up_to = 0;
}

// Blocks that others hold too come first: a prefix is held by whoever holds more of it.
std::uint64_t KvMemory::TokensAtStake(SequenceId id) const {
  const kv::Sequence& held = *texts_.at(id)->held;
  for (std::uint32_t g = 0; g < cache_.layout().groups().size(); ++g) {
    if (cache_.layout().group(g).has_window()) continue;
    const auto blocks = held.blocks(g);
    const auto own = std::ranges::partition_point(
        blocks, [this](BlockId block) { return cache_.core().pool.pins(block) > 1; });
    const auto shared = static_cast<std::uint64_t>(own - blocks.begin());
    return held.size() - std::min(held.size(), shared * cache_.layout().block_tokens());
  }
  return held.size();  // windows only: what is left of a prefix is of no use
}

std::uint64_t KvMemory::CachedTokens(SequenceId id) {
  KvText& text = *texts_.at(id);
  if (ReuseFor(text) != kv::Reuse::kOn) return 0;
  return cache_
      .Probe({.scope = text.scope,
              .digest = text.digest,
              .tokens = text.tokens,
              .hashes = &text.hashes})
      .hit_tokens;
}

}  // namespace ashlar::sched
