#include "kv/miss.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace ashlar::kv {

std::string_view NameOf(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kDiverged:
      return "diverged";
    case MissReason::kNeverSeen:
      return "never_seen";
    case MissReason::kReplaced:
      return "replaced";
    case MissReason::kWindowPassed:
      return "window_passed";
    case MissReason::kBelowGranularity:
      return "below_granularity";
    case MissReason::kBeingComputed:
      return "being_computed";
    case MissReason::kOtherModel:
      return "other_model";
    case MissReason::kOtherEpoch:
      return "other_epoch";
    case MissReason::kOtherCodec:
      return "other_codec";
    case MissReason::kOtherLayout:
      return "other_layout";
    case MissReason::kOtherSalt:
      return "other_salt";
    case MissReason::kOtherAdapter:
      return "other_adapter";
    case MissReason::kNoRoom:
      return "no_room";
    case MissReason::kDisabled:
      return "disabled";
  }
  ASHLAR_CHECK(false, "unknown MissReason {}", static_cast<int>(reason));
}

std::string LookupReport::Explain() const {
  std::string text =
      fmt::format("{} of {} prompt tokens were served from the cache", hit_tokens, prompt_tokens);
  switch (reason) {
    case MissReason::kNone:
      return text + "; the last must always be computed";
    case MissReason::kDiverged:
      return text + fmt::format("; token {} differs from every text that began so", position);
    case MissReason::kNeverSeen:
      return text + fmt::format("; nothing is known from token {} on", position);
    case MissReason::kReplaced:
      return text + fmt::format("; the block at token {} was replaced at {:.3f} s", position,
                                static_cast<double>(time_ns) * 1e-9);
    case MissReason::kWindowPassed:
      return text + "; a sliding window has given up blocks that a longer prefix needs";
    case MissReason::kBelowGranularity:
      return text +
             "; what matches further is less than a block, and this codec shares whole blocks";
    case MissReason::kBeingComputed:
      return text +
             fmt::format("; the next {} are being computed for another sequence", pending_tokens);
    case MissReason::kNoRoom:
      return text + "; a part of a block more is known, and there was no room to copy it";
    case MissReason::kDisabled:
      return text + "; reuse was off for this request";
    default:
      return text +
             fmt::format("; the same tokens are held under another {}", NameOf(reason).substr(6));
  }
}

MissMemory::MissMemory() : replaced_(kReplaced), first_blocks_(kFirstBlocks), scopes_(kScopes) {}

void MissMemory::OnReplaced(std::uint64_t prefix_hash, std::int64_t now_ns) {
  replaced_[prefix_hash % kReplaced] = {.hash = prefix_hash,
                                        .time_ns = std::max<std::int64_t>(now_ns, 1)};
}

std::int64_t MissMemory::WhenReplaced(std::uint64_t prefix_hash) const {
  const Replaced& entry = replaced_[prefix_hash % kReplaced];
  return entry.hash == prefix_hash ? entry.time_ns : 0;
}

std::uint64_t MissMemory::OnScope(const Scope& scope) {
  ++scope_count_;
  scopes_[scope_count_ % kScopes] = scope;
  return scope_count_;
}

void MissMemory::OnFirstBlock(std::uint64_t tokens_hash, std::uint64_t scope_number) {
  first_blocks_[tokens_hash % kFirstBlocks] = {.hash = tokens_hash, .scope_number = scope_number};
}

ScopeDifference MissMemory::OtherScope(std::uint64_t tokens_hash, const Scope& scope) const {
  const FirstBlock& entry = first_blocks_[tokens_hash % kFirstBlocks];
  if (entry.scope_number == 0 || entry.hash != tokens_hash ||
      entry.scope_number + kScopes <= scope_count_) {
    return ScopeDifference::kNone;
  }
  return FirstDifference(scopes_[entry.scope_number % kScopes], scope);
}

}  // namespace ashlar::kv
