// Owns the arena and says which of its blocks are whose.
//
//            Take              Seal
//   Free ----------->  Open ----------->  Sealed
//     ^                  |                   |
//     +------------------+-------------------+
//                     Release
//
//   Free    nobody's; its bytes mean nothing.
//   Open    being filled by the one sequence that took it.
//   Sealed  full and immutable until released.
//
// Memory is promised before it is used: a Reservation is the right to take so many blocks, and the
// sum of what is promised and what is taken never exceeds the capacity. So an admitted sequence
// that reserved for its whole length can always go on. All operations are O(1) and allocate
// nothing, except the constructor and CheckInvariants.
//
// Thread: the engine's only. The pool must outlive its reservations and tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/arena.h"
#include "kv/layout.h"

namespace ashlar::kv {

class BlockPool;

// The move-only right to take blocks later; what is left of it returns to the pool on destruction.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  std::uint64_t blocks() const { return blocks_; }

 private:
  friend class BlockPool;
  Reservation(BlockPool* pool, std::uint64_t blocks) : pool_(pool), blocks_(blocks) {}
  void Return();

  BlockPool* pool_ = nullptr;
  std::uint64_t blocks_ = 0;
};

class BlockPool {
 public:
  // As many whole blocks as fit into `memory_bytes`. Errors: kInvalidArgument when not even one
  // fits (with the size that would do), kResourceExhausted from the system.
  static Result<BlockPool> Create(const KvLayout& layout, std::uint64_t memory_bytes);

  // Moving is for construction: no reservation or table may exist yet.
  BlockPool(BlockPool&&) = default;

  const KvLayout& layout() const { return layout_; }
  std::uint64_t capacity() const { return states_.size(); }
  std::uint64_t taken() const { return taken_; }
  std::uint64_t reserved() const { return reserved_; }
  // Blocks that may still be promised.
  std::uint64_t available() const { return capacity() - taken_ - reserved_; }
  std::uint64_t bytes_reserved() const { return arena_.bytes(); }
  std::uint64_t bytes_used() const { return taken_ * layout_.block_bytes(); }

  // nullopt (and nothing changed) when fewer than `blocks` are available. Zero blocks is a valid
  // promise.
  std::optional<Reservation> Reserve(std::uint64_t blocks);

  // Turns one promised block into an open one. Precondition: reservation.blocks() > 0, of this
  // pool.
  BlockId Take(Reservation& reservation);
  // Precondition: the block is open.
  void Seal(BlockId block);
  // Precondition: the block is open or sealed.
  void Release(BlockId block);

  // The block's bytes, layout().block_bytes() of them. Precondition: not free.
  std::byte* Data(BlockId block) const;

  // Recounts everything from scratch and CHECKs that the counters agree. O(capacity).
  void CheckInvariants() const;

 private:
  friend class Reservation;
  enum class State : std::uint8_t { kFree, kOpen, kSealed };

  BlockPool(const KvLayout& layout, Arena arena, std::uint64_t blocks);

  KvLayout layout_;
  Arena arena_;
  std::vector<State> states_;   // by block id
  std::vector<BlockId> free_;   // a stack: the block freed last is warm in cache and is taken first
  std::uint64_t taken_ = 0;     // open or sealed
  std::uint64_t reserved_ = 0;  // promised, not taken
};

}  // namespace ashlar::kv
