// The one place KV bytes live: a byte range taken from the system once, at start, on huge pages
// where the system grants them. Its size is the hard cap of the cache.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace ashlar::kv {

// Move-only owner of the range. The bytes start as zeros; pages are touched by first use, so an
// unused part of the arena costs address space only.
class Arena {
 public:
  // Errors: kResourceExhausted when `bytes` are more than the machine's memory or the system
  // refuses them, kInvalidArgument for 0.
  static Result<Arena> Create(std::size_t bytes);
  // A range that cannot be read or written and takes no memory: for a simulator, which needs the
  // cache's decisions and not its bytes, and for engines whose bytes live elsewhere.
  static Result<Arena> CreateWithoutBytes(std::size_t bytes);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Null without bytes.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Gives the memory of [offset, offset + bytes) back to the system, as far as its pages allow. The
  // bytes read as anything until written again.
  void Discard(std::size_t offset, std::size_t bytes);

 private:
  Arena(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void Release();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ashlar::kv
