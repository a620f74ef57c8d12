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
// In an encoded group (layout.h) the tokens of the block that is being filled are written raw, into
// an open block, and the forward pass that fills it encodes it into its place in `blocks`: within
// the step, before Commit. Every sequence has its own ring of 1 + ceil(max_rollback / block_tokens)
// open blocks a group; block number n is in slot n modulo their number. A step writes the raw rows
// of its tokens in the last so many blocks it touches, full ones too, and it reads those of the
// block it goes on in:
//
//     number:       5 sealed   6 sealed    7 open          ring of two: | 6 | 7 |
//     a query reads ... its sealed blocks encoded, and of its own block the raw rows
//
// The full ones are kept so that Truncate can go back into them: the block is then open again, as
// exactly as it was, and the sealed block stays in the index for others. A fork copies the ring.
// A hit has whole blocks only, so what follows it begins an open block of its own; of a prompt of
// whole blocks that are all known the last one is computed again, since its queries read it raw.
// (Where all groups are raw, one token is.) In a layout with groups of both kinds that holds for
// all of them.
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
    // Encoded groups: the ring of open blocks. Taken by the first Prepare, promised until then.
    std::vector<BlockId> open;
    std::vector<std::byte*> open_addresses;
    std::uint64_t extra = 0;  // windowed groups: held for a piece longer than `chunk`, not for good
    std::uint64_t most_held = 0;  // blocks at once, since admission

    // Of `blocks`, those that are there. O(1).
    std::uint64_t Held(std::uint64_t sink_blocks) const {
      return blocks.size() - (first_live > sink_blocks ? first_live - sink_blocks : 0);
    }

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
  std::uint64_t prepared = 0;     // slots that may be committed
  std::uint64_t open_blocks = 1;  // of an encoded group's ring
  std::uint64_t raw_from = 0;     // open blocks of lower numbers have been written over
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
  // forked since. With encoded groups: all that was prepared was computed in one step, and what is
  // left of it is at most max_rollback tokens or is cut by Truncate before anything else.
  void Commit(std::span<const TokenId> tokens);

  // Goes back to at most `size` tokens; the number it went back to, or nullopt, and nothing
  // changed, when the memory to go on as promised is not there (others hold what was shared). Goes
  // back further than asked only where a window, or a codec that seals whole blocks, has given up
  // what a query at `size` reads. Neither happens for tokens that the sequence has stored itself,
  // up to max_rollback below the longest it has been (with encoded groups: prepared and written),
  // unless another sequence reads the block that is cut. Precondition: size <= size().
  [[nodiscard]] std::optional<std::uint64_t> Truncate(std::uint64_t size);

  // A second sequence with the same tokens, for at most max_tokens of its own. nullopt, and nothing
  // changed, when the memory is not there.
  [[nodiscard]] std::optional<Sequence> Fork(std::uint64_t max_tokens);
  // Blocks by store group that Fork would have promised to it: exact.
  void BlocksNeededToFork(std::uint64_t max_tokens, std::vector<std::uint64_t>& blocks) const;

  // How its blocks will be kept when it goes; otherwise as it was admitted.
  void Retain(const Retention& retention) { state_->retention = retention; }

  // By block number, to ceil((size() + prepared) / block_tokens).
  std::span<const BlockId> blocks(std::uint32_t group) const {
    return state_->tables[group].blocks;
  }
  // Their bytes, in the same order; null where the window has passed. Valid until the cache is
  // changed through anything else. O(1) unless blocks have moved.
  std::span<std::byte* const> addresses(std::uint32_t group) const;
  // Of every encoded group, in its ring.
  std::uint64_t open_blocks() const { return state_->open_blocks; }
  // The open block of a number, for its raw rows to be read or written; null in a raw group, and in
  // a cache without bytes. Valid as addresses() is. Preconditions: a Prepare has been; the block is
  // one of the last open_blocks of those that hold the slots [0, size() + prepared) and has not
  // been written over since, or the one that slot size() is in. That one may share its slot with a
  // later one of the step: read its rows before you write those. O(1) unless blocks have moved.
  std::byte* open_block(std::uint32_t group, std::uint64_t number) const;
  // The whole ring, block number n at n % open_blocks(), for a step that will be run: it counts as
  // written. Empty in a raw group.
  std::span<std::byte* const> OpenRing(std::uint32_t group) const;
  // CHECKs that what it holds and what it is promised reach to max_tokens. O(blocks).
  void CheckInvariants() const;
  // Bytes of the blocks it holds, shared ones in full, open blocks included.
  std::uint64_t bytes() const;
  // The same of one lane group, and the most it held at once since it was admitted. O(1).
  struct GroupBytes {
    std::uint64_t held = 0;
    std::uint64_t most = 0;
  };
  GroupBytes group_bytes(std::uint32_t group) const;

 private:
  friend class KvCache;
  Sequence(KvCache* cache, std::unique_ptr<SequenceState> state)
      : cache_(cache), state_(std::move(state)) {}

  void RefreshAddresses() const;
  void CheckOpenBlocks(std::uint32_t group) const;

  KvCache* cache_;
  std::unique_ptr<SequenceState> state_;
};

}  // namespace ashlar::kv
