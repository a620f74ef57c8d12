#include "kv/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_size.h"

namespace ashlar::kv {

Result<Arena> Arena::Create(std::size_t bytes) {
  if (bytes == 0) return MakeError(ErrorCode::kInvalidArgument, "a KV arena of 0 bytes");
  // The system promises more than it has; beyond all of its memory the process would be killed
  // later.
  const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > physical) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "{} ({} bytes) for the KV arena are more than this machine's memory of {}; give a "
        "smaller --kv-memory",
        FormatByteSize(bytes), bytes, FormatByteSize(physical));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "the system refused {} ({} bytes) for the KV arena: {}; give a smaller --kv-memory",
        FormatByteSize(bytes), bytes, std::strerror(errno));
  }
  // A wish: without huge pages everything works, with more TLB misses.
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return Arena(static_cast<std::byte*>(data), bytes);
}

Result<Arena> Arena::CreateWithoutBytes(std::size_t bytes) {
  if (bytes == 0) return MakeError(ErrorCode::kInvalidArgument, "a KV arena of 0 bytes");
  return Arena(nullptr, bytes);
}

void Arena::Discard(std::size_t offset, std::size_t bytes) {
  if (data_ == nullptr) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t end = (offset + bytes) / page * page;
  // A wish, too: pages that stay cost memory and harm nothing.
  if (first < end) (void)madvise(data_ + first, end - first, MADV_DONTNEED);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    Release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Arena::~Arena() { Release(); }

void Arena::Release() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace ashlar::kv
