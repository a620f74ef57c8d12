// A sequence's ordered blocks: the token at position p lies in slot p % block_tokens of block
// p / block_tokens. Owns its blocks and the promise of those to come; both return to the pool with
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace ashlar::kv {

class BlockTable {
 public:
  // `reservation` must come from `pool`, which must outlive the table.
  BlockTable(BlockPool& pool, Reservation reservation);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&&) = delete;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Tokens whose slots are filled.
  std::uint64_t tokens() const { return tokens_; }
  // Tokens that fit without breaking the promise made at admission.
  std::uint64_t max_tokens() const;

  // Takes the blocks for positions [tokens(), tokens() + count), to be written next.
  // Precondition: tokens() + count <= max_tokens().
  void Prepare(std::uint64_t count);
  // The slots of the next `count` positions have been written: seals the blocks they complete.
  // Precondition: prepared.
  void Commit(std::uint64_t count);

  std::span<const BlockId> blocks() const { return blocks_; }
  // The blocks' bytes, in the same order.
  std::span<std::byte* const> addresses() const { return addresses_; }
  std::uint64_t bytes() const { return blocks_.size() * pool_->layout().block_bytes(); }

 private:
  BlockPool* pool_;
  Reservation reservation_;
  std::vector<BlockId> blocks_;
  std::vector<std::byte*> addresses_;
  std::uint64_t tokens_ = 0;
};

}  // namespace ashlar::kv
