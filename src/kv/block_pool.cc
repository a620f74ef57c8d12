#include "kv/block_pool.h"

#include <limits>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"

namespace ashlar::kv {

Reservation::Reservation(Reservation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), blocks_(std::exchange(other.blocks_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Return();
    pool_ = std::exchange(other.pool_, nullptr);
    blocks_ = std::exchange(other.blocks_, 0);
  }
  return *this;
}

Reservation::~Reservation() { Return(); }

void Reservation::Return() {
  if (pool_ != nullptr) pool_->reserved_ -= blocks_;
}

Result<BlockPool> BlockPool::Create(const KvLayout& layout, std::uint64_t memory_bytes) {
  const std::uint64_t blocks = memory_bytes / layout.block_bytes();
  if (blocks == 0) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "KV memory of {} bytes holds no block: one block of {} tokens takes {} bytes; give "
        "--kv-memory at least that",
        memory_bytes, layout.block_tokens(), layout.block_bytes());
  }
  if (blocks > std::numeric_limits<std::uint32_t>::max()) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "KV memory of {} bytes is {} blocks, more than the {} that can be numbered; give "
        "larger --block-tokens",
        memory_bytes, blocks, std::numeric_limits<std::uint32_t>::max());
  }
  ASHLAR_ASSIGN(Arena arena, Arena::Create(blocks * layout.block_bytes()));
  return BlockPool(layout, std::move(arena), blocks);
}

BlockPool::BlockPool(const KvLayout& layout, Arena arena, std::uint64_t blocks)
    : layout_(layout), arena_(std::move(arena)), states_(blocks, State::kFree) {
  free_.reserve(blocks);
  for (std::uint64_t id = blocks; id-- > 0;)
    free_.push_back(BlockId(static_cast<std::uint32_t>(id)));
}

std::optional<Reservation> BlockPool::Reserve(std::uint64_t blocks) {
  if (blocks > available()) return std::nullopt;
  reserved_ += blocks;
  return Reservation(this, blocks);
}

BlockId BlockPool::Take(Reservation& reservation) {
  ASHLAR_CHECK(reservation.pool_ == this && reservation.blocks_ > 0,
               "a block was taken that had not been reserved");
  const BlockId block = free_.back();
  free_.pop_back();
  --reservation.blocks_;
  --reserved_;
  ++taken_;
  states_[block.value()] = State::kOpen;
  return block;
}

void BlockPool::Seal(BlockId block) {
  ASHLAR_CHECK(states_.at(block.value()) == State::kOpen, "block {} is not open", block.value());
  states_[block.value()] = State::kSealed;
}

void BlockPool::Release(BlockId block) {
  ASHLAR_CHECK(states_.at(block.value()) != State::kFree, "block {} is free already",
               block.value());
  states_[block.value()] = State::kFree;
  free_.push_back(block);
  --taken_;
}

std::byte* BlockPool::Data(BlockId block) const {
  ASHLAR_DCHECK(states_.at(block.value()) != State::kFree, "block {} is free", block.value());
  return arena_.data() + std::size_t{block.value()} * layout_.block_bytes();
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> listed(states_.size(), false);
  for (const BlockId block : free_) {
    ASHLAR_CHECK(states_.at(block.value()) == State::kFree,
                 "block {} is in the free list and in use", block.value());
    ASHLAR_CHECK(!listed[block.value()], "block {} is twice in the free list", block.value());
    listed[block.value()] = true;
  }
  for (std::size_t block = 0; block < states_.size(); ++block) {
    ASHLAR_CHECK(listed[block] == (states_[block] == State::kFree),
                 "block {} is free but in no list, or in use and listed", block);
  }
  ASHLAR_CHECK(free_.size() + taken_ == states_.size(), "{} free + {} taken != {} blocks",
               free_.size(), taken_, states_.size());
  ASHLAR_CHECK(reserved_ <= free_.size(), "{} blocks promised, {} free", reserved_, free_.size());
}

}  // namespace ashlar::kv
