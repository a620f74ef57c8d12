// Why a lookup served no more than it did: a value with every lookup, never a log line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv/scope.h"

namespace ashlar::kv {

enum class MissReason : std::uint8_t {
  kNone,              // all but the last token was served: it must be computed to go on
  kDiverged,          // the prefix was seen with other tokens after it
  kNeverSeen,         // nothing is known after the prefix that was served
  kReplaced,          // the next block was here and gave up its memory, at time_ns
  kWindowPassed,      // a sliding window gave up blocks that this length needs
  kBelowGranularity,  // what matches further is less than a block, and the codec shares whole
                      // blocks
  kBeingComputed,     // another sequence is computing what follows: pending_tokens of it
  kOtherModel,        // the same tokens are here for another model, ...
  kOtherEpoch,
  kOtherCodec,
  kOtherLayout,
  kOtherSalt,
  kOtherAdapter,
  kNoRoom,    // the last part of a block could not be copied: all memory is in use
  kDisabled,  // reuse was off for this request
};
inline constexpr std::size_t kMissReasons = 15;
std::string_view NameOf(MissReason reason);  // "none", "diverged", ...

// What was served, and why not more. For the operator: that another salt holds the same tokens must
// not be told to a tenant.
struct LookupReport {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t hit_tokens = 0;  // served from RAM
  MissReason reason = MissReason::kNeverSeen;
  std::uint64_t position = 0;        // the first token that was not served
  std::int64_t time_ns = 0;          // kReplaced: when
  std::uint64_t pending_tokens = 0;  // after position, being computed by another sequence

  // One sentence with the numbers.
  std::string Explain() const;
};

// Remembers, within a fixed size, what left the index and in which scopes first blocks were seen.
// Direct-mapped: newer facts push out older ones, so an explanation may be missing, never wrong
// (up to 64-bit hashes).
class MissMemory {
 public:
  MissMemory();

  void OnReplaced(std::uint64_t prefix_hash, std::int64_t now_ns);
  // A scope that blocks will be stored under; its number, for OnFirstBlock.
  std::uint64_t OnScope(const Scope& scope);
  // A first block with these tokens (hashed without scope) was stored.
  void OnFirstBlock(std::uint64_t tokens_hash, std::uint64_t scope_number);

  // 0: not known. Otherwise the time, at least 1.
  std::int64_t WhenReplaced(std::uint64_t prefix_hash) const;
  // How the scope that last stored these tokens differs from `scope`; kNone when not known.
  ScopeDifference OtherScope(std::uint64_t tokens_hash, const Scope& scope) const;

 private:
  static constexpr std::size_t kReplaced = 1u << 15;
  static constexpr std::size_t kFirstBlocks = 1u << 12;
  static constexpr std::size_t kScopes = 256;

  struct Replaced {
    std::uint64_t hash = 0;
    std::int64_t time_ns = 0;
  };
  struct FirstBlock {
    std::uint64_t hash = 0;
    std::uint64_t scope_number = 0;  // from 1; it has been overwritten when kScopes newer ones came
  };
  std::vector<Replaced> replaced_;
  std::vector<FirstBlock> first_blocks_;
  std::vector<Scope> scopes_;  // ring
  std::uint64_t scope_count_ = 0;
};

}  // namespace ashlar::kv
