#include "kv/block_table.h"

#include <utility>

#include "base/check.h"

namespace ashlar::kv {

BlockTable::BlockTable(BlockPool& pool, Reservation reservation)
    : pool_(&pool), reservation_(std::move(reservation)) {
  blocks_.reserve(reservation_.blocks());
  addresses_.reserve(reservation_.blocks());
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      reservation_(std::move(other.reservation_)),
      blocks_(std::exchange(other.blocks_, {})),
      addresses_(std::exchange(other.addresses_, {})),
      tokens_(std::exchange(other.tokens_, 0)) {}

BlockTable::~BlockTable() {
  for (const BlockId block : blocks_) pool_->Release(block);
}

std::uint64_t BlockTable::max_tokens() const {
  return (blocks_.size() + reservation_.blocks()) * pool_->layout().block_tokens();
}

void BlockTable::Prepare(std::uint64_t count) {
  ASHLAR_CHECK(count <= max_tokens() - tokens_, "{} + {} tokens in a table made for {}", tokens_,
               count, max_tokens());
  const std::uint64_t needed = pool_->layout().BlocksNeeded(tokens_ + count);
  while (blocks_.size() < needed) {
    blocks_.push_back(pool_->Take(reservation_));
    addresses_.push_back(pool_->Data(blocks_.back()));
  }
}

void BlockTable::Commit(std::uint64_t count) {
  const std::uint64_t block_tokens = pool_->layout().block_tokens();
  ASHLAR_CHECK(tokens_ + count <= blocks_.size() * block_tokens, "{} tokens committed, {} prepared",
               tokens_ + count, blocks_.size() * block_tokens);
  const std::uint64_t sealed_before = tokens_ / block_tokens;
  tokens_ += count;
  for (std::uint64_t i = sealed_before; i < tokens_ / block_tokens; ++i) pool_->Seal(blocks_[i]);
}

}  // namespace ashlar::kv
