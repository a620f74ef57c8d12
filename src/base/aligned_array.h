// A fixed-size array on a 64-byte border, on huge pages when it is large. Elements start
// uninitialised.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace ashlar {

template <typename T>
  requires(std::is_trivial_v<T>)
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t alignment = size * sizeof(T) >= kHugePage ? kHugePage : 64;
    const std::size_t bytes = (size * sizeof(T) + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();  // as operator new does
    if (alignment == kHugePage) (void)madvise(data_.get(), bytes, MADV_HUGEPAGE);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace ashlar
