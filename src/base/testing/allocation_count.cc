#include "base/testing/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace ashlar {
namespace {
std::atomic<std::uint64_t> g_calls{0};
std::atomic<std::uint64_t> g_bytes{0};
}  // namespace

AllocationCount AllocationsSoFar() { return {.calls = g_calls, .bytes = g_bytes}; }

}  // namespace ashlar

// Never inlined: the compiler would see malloc and free pair up with new and delete, and object.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++ashlar::g_calls;
  ashlar::g_bytes += size;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
