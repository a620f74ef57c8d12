// One sequence's rights on the cache: its tokens' blocks in every lane group, and the promise of
// those to come.
//
//   Admit (cache.h) ---> Prepare, compute, Commit ---> ... ---> ~Sequence
//                           |            ^
//                           +-- Truncate, Fork
//
// Prepare makes the slots of the next tokens writable: it takes blocks, and copies the last block
// first when others may read it. Then the caller writes K and V of these tokens. Commit says they
// are written: blocks that are full are sealed and published in the prefix index, and blocks that a
// window has passed are given back.
//
// Blocks are shared until they are written to: a hit, a fork and a sealed block that another
// sequence computed as well are all one more pin. What a sequence releases stays in the cache,
// idle, tail first, its last partly filled block too.
//
// A sequence admitted for max_tokens in pieces of at most `chunk` never fails to Prepare; beyond
// that Prepare asks for more and may be refused.
//
// Handles are move-only; the cache must outlive them. A handle that was moved from holds nothing.
// Thread: the engine's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "kv/core.h"
#include "kv/ids.h"

namespace ashlar::kv {

enum class Reuse : std::uint8_t {
  kOn,     // serve from the cache, and leave the blocks in it
  kStore,  // compute everything, and leave the blocks in it
  kOff,    // compute everything, and leave nothing
};

// What a sequence holds. Kept and used again by the cache, so that admitting one allocates nothing
// once as many were live before.
struct SequenceState {
  struct Table {
    std::vector<BlockId> blocks;        // by block number; kNoBlock where the window has passed
    std::vector<std::byte*> addresses;  // of blocks, as of `moves`; null where there is none
    std::uint64_t first_live = 0;       // windowed groups: blocks [sinks, first_live) are gone
    std::uint64_t promised = 0;         // blocks that may still be taken
    std::uint64_t extra = 0;  // windowed groups: held for a piece longer than `chunk`, not for good

    // One of them is taken. A bug in the arithmetic stops here and not in somebody else's memory.
    void Spend() {
      ASHLAR_CHECK(promised > 0, "a sequence needs a block it was not promised");
      --promised;
    }
  };

  std::vector<TokenId> tokens;  // stored ones, and those of the prompt that are still to come
  std::uint64_t size = 0;       // stored ones
  std::vector<Table> tables;    // by group
  std::uint64_t max_tokens = 0;
  std::uint64_t chunk = 1;
  std::uint64_t max_rollback = 0;
  std::uint64_t prepared = 0;  // slots that may be committed
  bool has_copy_promise =
      false;  // one block per group more is promised, to copy a sealed tail with
  AccountId account;
  Retention retention;
  NodeId path = kNoNode;  // the index up to the last whole block; kNoNode: not in the index
  // The nodes this sequence promised to compute, by block number from promised_from; those of
  // sealed blocks are kept promises.
  std::vector<NodeId> promised;
  std::uint64_t promised_from = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t moves = 0;  // of the store, when addresses were valid
};

class KvCache;

class Sequence {
 public:
  Sequence(Sequence&& other) noexcept : cache_(other.cache_), state_(std::move(other.state_)) {}
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  // Tokens whose K and V are stored.
  std::uint64_t size() const { return state_->size; }
  std::span<const TokenId> tokens() const { return {state_->tokens.data(), state_->size}; }
  // Of those at admission, how many came from the cache.
  std::uint64_t hit_tokens() const { return state_->hit_tokens; }

  // Makes the slots of positions [size(), size() + count) writable. False, and nothing changed,
  // when they go beyond what was promised and the memory is not there.
  [[nodiscard]] bool Prepare(std::uint64_t count);
  // The next tokens.size() slots have been written. Precondition: prepared, and neither cut nor
  // forked since.
  void Commit(std::span<const TokenId> tokens);

  // Goes back to at most `size` tokens; the number it went back to, or nullopt, and nothing
  // changed, when the memory to go on as promised is not there (others hold what was shared). Goes
  // back further than asked only where a window, or a codec that seals whole blocks, has given up
  // what a query at `size` reads. Neither happens for tokens that the sequence has stored itself,
  // up to max_rollback below the longest it has been, unless another sequence reads the block that
  // is cut. Precondition: size <= size().
  [[nodiscard]] std::optional<std::uint64_t> Truncate(std::uint64_t size);

  // A second sequence with the same tokens, for at most max_tokens of its own. nullopt, and nothing
  // changed, when the memory is not there.
  [[nodiscard]] std::optional<Sequence> Fork(std::uint64_t max_tokens);
  // Blocks by group that Fork would have promised to it: exact.
  void BlocksNeededToFork(std::uint64_t max_tokens, std::vector<std::uint64_t>& blocks) const;

  // By block number, to ceil((size() + prepared) / block_tokens).
  std::span<const BlockId> blocks(std::uint32_t group) const {
    return state_->tables[group].blocks;
  }
  // Their bytes, in the same order; null where the window has passed. Valid until the cache is
  // changed through anything else. O(1) unless blocks have moved.
  std::span<std::byte* const> addresses(std::uint32_t group) const;
  // CHECKs that what it holds and what it is promised reach to max_tokens. O(blocks).
  void CheckInvariants() const;
  // Bytes of the blocks it holds, shared ones in full.
  std::uint64_t bytes() const;

 private:
  friend class KvCache;
  Sequence(KvCache* cache, std::unique_ptr<SequenceState> state)
      : cache_(cache), state_(std::move(state)) {}

  KvCache* cache_;
  std::unique_ptr<SequenceState> state_;
};

}  // namespace ashlar::kv
